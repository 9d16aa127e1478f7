//! `/` of a domain without `rootUrl` (the path of `links.prefix`, where there is one), and links that visitors create there.
//!
//! They are created as by the holder of the key in the configuration: the rights of that key bound what visitors can do.

use crate::console::api::Console;
use crate::console::fields::{Field, Fields, Input};
use crate::console::form::Form;
use crate::console::guard;
use askama::Template;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_console::qr::Options;
use edgelink_http::app::App;
use edgelink_http::auth::caller_of;
use edgelink_http::limits;
use edgelink_http::redirect::{page as page_of, requested_domain, unknown_host};
use edgelink_http::ui::frame::{Frame, Message};
use edgelink_http::ui::strings as t;
use edgelink_model::clock;
use edgelink_model::timestamp;
use edgelink_service::create_link::CreateLink;
use edgelink_service::problem::{FieldError, Kind, Problem};
use edgelink_settings::config::HomeConfig;
use edgelink_settings::domains::model::Brand;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_wire::redirect::{CACHE_CONTROL, NO_STORE};
use edgelink_wire::{Code, Domain, LinkKey, LinkPrefix, Outcome};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Map;
use std::sync::Arc;
use std::time::Instant;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Subject by which all creations are counted, in addition to their address.
const ALL: &str = "all";

#[derive(Template)]
#[template(path = "public/home.html")]
struct HomePage<'d> {
    frame: Frame<'d>,
    /// The form for a new link; `None` if visitors cannot create any.
    fields: Option<Fields>,
    days: u64,
}

impl<'d> HomePage<'d> {
    fn new(config: &HomeConfig, brand: Brand<'d>) -> Self {
        Self {
            frame: Frame::new(t::HOME, brand),
            fields: config.stranger_key().map(|_| fields(config)),
            days: config.stranger_days,
        }
    }
}

fn fields(config: &HomeConfig) -> Fields {
    let target = Field::new("longUrl", t::LONG_URL)
        .hint(t::LONG_URL_HINT)
        .input(Input::Line("url"))
        .required();
    let alias = Field::new("customSlug", t::ALIAS).hint(t::ALIAS_HINT);
    let alias = config.stranger_aliases.then_some(alias);
    Fields::new([Some(target), alias].into_iter().flatten().collect())
}

/// The home page of the domain in a visitor's request; `None` if it has none.
pub fn page(app: &App, headers: &HeaderMap) -> Option<Response> {
    let domains = app.domains.current();
    let domain = requested_domain(app, &domains, headers)?;
    let config = &app.config.home;
    let has_page = config.page && domains.targets(domain).root.is_none();
    let page = has_page.then(|| HomePage::new(config, domains.brand(domain)))?;
    Some(page.frame.send(StatusCode::OK, CACHE_CONTROL, &page))
}

/// `POST /+/new`.
pub(super) async fn create(State(console): State<Console>, request: Request) -> Response {
    let app = console.app.clone();
    let domains = app.domains.current();
    let Some(domain) = requested_domain(&app, &domains, request.headers()) else {
        return unknown_host(&app);
    };
    let (config, brand) = (&app.config.home, domains.brand(domain));
    let Some(key) = config.stranger_key() else {
        return page_of(&app, Outcome::NotFound, brand);
    };
    let address = limits::address(&app, &request);
    // Before the form is waited for, so that an address has no more forms on their way than it may send.
    let taken = app.creations.take_of(None::<&str>, Some(address)).await;
    if let Err(seconds) = taken {
        return Message::too_many(seconds, brand);
    }
    let form = match guard::read_form(&app, request).await {
        Ok((_, form)) => form,
        Err(problem) => return Message::of_problem(&problem, brand),
    };
    if let Err(seconds) = app.creations.take_of(Some(ALL), None).await {
        return Message::too_many(seconds, brand);
    }
    match ask(&console, key, domain, &form).await {
        Ok(response) => response,
        Err(problem) if is_about_the_form(&problem) => {
            let mut page = HomePage::new(config, brand);
            let fields = page.fields.take();
            page.fields = fields.map(|fields| fields.filled(&form).with(&problem));
            page.frame.send(problem.status(), NO_STORE, &page)
        }
        Err(problem) => {
            log_refusal(&problem);
            let page = Message::new(t::FAILED, t::NO_CREATION, brand);
            page.send(StatusCode::SERVICE_UNAVAILABLE, NO_STORE)
        }
    }
}

/// Creates a link.
async fn ask(
    console: &Console,
    key: &str,
    domain: &Domain,
    form: &Form,
) -> Result<Response, Problem> {
    let config = &console.app.config.home;
    let target = form.get("longUrl").trim();
    if target.len() > config.stranger_max_length {
        return Err(Problem::of_field("longUrl", t::TOO_LONG));
    }
    let end = clock::unix_seconds() + config.stranger_days * DAY_SECONDS;
    let mut link = Map::new();
    link.insert("longUrl".to_owned(), target.into());
    link.insert("domain".to_owned(), domain.as_str().into());
    link.insert("validUntil".to_owned(), timestamp::from_seconds(end).into());
    if config.stranger_aliases {
        link.insert("customSlug".to_owned(), form.text("customSlug"));
    }
    let caller = caller_of(&console.app.keys, key).await?;
    let links = &console.app.links;
    let of_tenant = links.of_tenant(&caller);
    let request = CreateLink::read(link, &of_tenant, &caller)?;
    let made = links.create(&caller, request).await?;
    Ok(made.answer(|made| Redirect::to(&format!("/+/made/{}", made.link.code)).into_response()))
}

/// True if a visitor can fix a problem: all its errors are about fields of the form.
fn is_about_the_form(problem: &Problem) -> bool {
    let is_field = |error: &FieldError| matches!(&*error.field, "longUrl" | "customSlug");
    let kind = problem.kind();
    matches!(kind, Kind::Validation | Kind::SlugTaken) && problem.errors().iter().all(is_field)
}

/// Logs that the key of the configuration cannot create links, throttled.
fn log_refusal(problem: &Problem) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let reason = crate::console::errors::describe(problem);
        tracing::warn!(
            reason,
            left_out,
            "visitors cannot create links; check the key in home.stranger_key_file"
        );
    }
}

#[derive(Template)]
#[template(path = "public/made.html")]
struct MadePage<'d> {
    frame: Frame<'d>,
    short_url: String,
    prefix: &'d LinkPrefix,
    code: Code,
    reports: bool,
}

/// `GET /+/made/{code}`: a link that was made, with its QR code.
pub(super) async fn made(
    State(app): State<Arc<App>>,
    Path(code): Path<String>,
    headers: HeaderMap,
) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(&app, &domains, &headers) else {
        return unknown_host(&app);
    };
    let brand = domains.brand(domain);
    let Some(code) = Code::parse(&code).ok().filter(|_| app.config.home.page) else {
        return page_of(&app, Outcome::NotFound, brand);
    };
    let key = LinkKey::new(domain.clone(), code);
    let outcome = match app.resolver.resolve(&key).await {
        Ok(resolved) => Outcome::of(&resolved.record, clock::unix_seconds()),
        Err(_) => Outcome::Unavailable,
    };
    if outcome != Outcome::Redirect {
        return page_of(&app, outcome, brand);
    }
    let page = MadePage {
        frame: Frame::new(t::MADE, brand),
        short_url: app.config.links.short_url(&key.domain, &key.code),
        prefix: &app.config.links.prefix,
        code: key.code,
        reports: app.config.reports.enabled,
    };
    page.frame.send(StatusCode::OK, CACHE_CONTROL, &page)
}

/// `GET /+/qr/{code}`: the QR code of a short URL, whether or not there is a link.
pub(super) async fn qr(
    State(app): State<Arc<App>>,
    Path(code): Path<String>,
    headers: HeaderMap,
) -> Response {
    let domains = app.domains.current();
    let domain = requested_domain(&app, &domains, &headers);
    let key = domain.zip(Code::parse(&code).ok());
    let url = key.map(|(domain, code)| app.config.links.short_url(domain, &code));
    let svg = url.and_then(|url| Options::read("{}").ok()?.draw(&url).ok());
    let Some(svg) = svg else {
        return Problem::new(Kind::NotFound).into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (
        headers.map(|(name, value)| (name, HeaderValue::from_static(value))),
        svg,
    )
        .into_response()
}
