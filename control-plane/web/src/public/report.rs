//! `/+/report`: visitors report abuse of a link.

use crate::console::fields::{Field, Fields, Input};
use crate::console::form::Form;
use crate::console::guard;
use askama::Template;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_http::app::App;
use edgelink_http::limits;
use edgelink_http::redirect::{page as page_of, requested_domain, unknown_host};
use edgelink_http::ui::frame::{Frame, Message};
use edgelink_http::ui::strings as t;
use edgelink_model::clock;
use edgelink_model::links::model::Link;
use edgelink_service::problem::{FieldError, Problem};
use edgelink_service::visitors::{NewReport, ReportReason, Reported};
use edgelink_settings::domains::model::Brand;
use edgelink_wire::redirect::{CACHE_CONTROL, NO_STORE};
use edgelink_wire::{Code, Domain, LinkKey, Outcome};
use http::StatusCode;
use std::sync::Arc;

/// The longest text in characters.
const MAX_TEXT_LENGTH: usize = 2_000;

/// The longest e-mail address in bytes (RFC 5321, without brackets).
const MAX_EMAIL_LENGTH: usize = 254;

/// Subject by which all reports are counted, in addition to their address.
const ALL: &str = "all";

#[derive(Template)]
#[template(path = "public/report.html")]
struct ReportPage<'d> {
    frame: Frame<'d>,
    fields: Fields,
}

impl<'d> ReportPage<'d> {
    fn new(form: &Form, brand: Brand<'d>) -> Self {
        let fields = vec![
            Field::new("code", t::CODE).hint(t::CODE_HINT).required(),
            Field::choice("reason", t::REASON, &t::REASONS),
            Field::new("text", t::REPORT_DETAILS)
                .hint(t::REPORT_DETAILS_HINT)
                .input(Input::Lines),
            Field::new("email", t::EMAIL)
                .hint(t::EMAIL_HINT)
                .input(Input::Line("email")),
            Field::tick("shareEmail", t::SHARE_EMAIL, false),
        ];
        Self {
            frame: Frame::new(t::REPORT, brand),
            fields: Fields::new(fields).filled(form),
        }
    }
}

/// `GET /+/report`.
pub(super) async fn page(State(app): State<Arc<App>>, request: Request) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(&app, &domains, request.headers()) else {
        return unknown_host(&app);
    };
    let brand = domains.brand(domain);
    if !app.config.reports.enabled {
        return page_of(&app, Outcome::NotFound, brand);
    }
    let query = request.uri().query().unwrap_or_default();
    let query = Form::parse(query.as_bytes());
    if query.get("done") == "yes" {
        let page = Message::new(t::REPORTED, t::REPORTED_TEXT, brand);
        return page.send(StatusCode::OK, CACHE_CONTROL);
    }
    let page = ReportPage::new(&query, brand);
    page.frame.send(StatusCode::OK, CACHE_CONTROL, &page)
}

/// `POST /+/report`.
pub(super) async fn take(State(app): State<Arc<App>>, request: Request) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(&app, &domains, request.headers()) else {
        return unknown_host(&app);
    };
    let brand = domains.brand(domain);
    if !app.config.reports.enabled {
        return page_of(&app, Outcome::NotFound, brand);
    }
    let address = limits::address(&app, &request);
    // Before the form is waited for, so that an address has no more forms on their way than it may send.
    let taken = app.reportings.take_of(None::<&str>, Some(address)).await;
    if let Err(seconds) = taken {
        return Message::too_many(seconds, brand);
    }
    let form = match guard::read_form(&app, request).await {
        Ok((_, form)) => form,
        Err(problem) => return Message::of_problem(&problem, brand),
    };
    if let Err(seconds) = app.reportings.take_of(Some(ALL), None).await {
        return Message::too_many(seconds, brand);
    }
    let reported = keep(&app, domain, &form).await;
    answer(reported, &form, brand)
}

/// Stores the report of a form.
async fn keep(app: &App, domain: &Domain, form: &Form) -> Result<Reported, Problem> {
    let report = read(app, domain, form).await?;
    app.links.report(&report).await
}

fn answer(reported: Result<Reported, Problem>, form: &Form, brand: Brand<'_>) -> Response {
    match reported {
        Ok(Reported::Kept | Reported::Known) => Redirect::to("/+/report?done=yes").into_response(),
        Ok(Reported::Full) => {
            let page = Message::new(t::FAILED, t::REPORTS_FULL, brand);
            page.send(StatusCode::SERVICE_UNAVAILABLE, NO_STORE)
        }
        Err(problem) if !problem.errors().is_empty() => {
            let mut page = ReportPage::new(form, brand);
            page.fields = page.fields.with(&problem);
            page.frame.send(problem.status(), NO_STORE, &page)
        }
        Err(problem) => Message::of_problem(&problem, brand),
    }
}

/// The report of a form; its problem names all errors.
async fn read(app: &App, domain: &Domain, form: &Form) -> Result<NewReport, Problem> {
    let mut errors = Vec::new();
    let mut refuse = |field, reason| errors.push(FieldError::new(field, reason));
    let reason = ReportReason::of_word(form.get("reason"));
    if reason.is_none() {
        refuse("reason", t::NO_SUCH_REASON);
    }
    let text = form.get("text").trim();
    let is_text = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    if text.chars().count() > MAX_TEXT_LENGTH || !text.chars().all(is_text) {
        refuse("text", t::TOO_LONG_TEXT);
    }
    let email = form.get("email").trim();
    if !email.is_empty() && !is_email(email) {
        refuse("email", t::NO_EMAIL);
    }
    let link = find(app, domain, form.get("code").trim()).await?;
    if link.is_none() {
        refuse("code", t::NO_SUCH_LINK);
    }
    let (Some(reason), Some(link), true) = (reason, link, errors.is_empty()) else {
        return Err(Problem::validation(errors));
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(NewReport {
        tenant_id: link.tenant_id,
        key: link.key(),
        target: link.content.target.as_str().to_owned(),
        reason,
        text: some(text),
        email: some(email),
        shares_email: form.get("shareEmail") == "on",
    })
}

/// The link, unless visitors would get 404, as before its `validSince`. An unknown code costs no more than a visit.
async fn find(app: &App, domain: &Domain, code: &str) -> Result<Option<Link>, Problem> {
    let code = code.strip_suffix('+').unwrap_or(code);
    let Ok(code) = Code::parse(code) else {
        return Ok(None);
    };
    let key = LinkKey::new(domain.clone(), code);
    let resolved = app.resolver.resolve(&key).await?;
    match Outcome::of(&resolved.record, clock::unix_seconds()) {
        Outcome::NotFound => Ok(None),
        _ => Ok(app.links.stored(&key).await?),
    }
}

/// True if a text has the form of an e-mail address.
fn is_email(text: &str) -> bool {
    let is_graphic = |letter: char| !letter.is_control() && !letter.is_whitespace();
    let parts = text.rsplit_once('@');
    text.len() <= MAX_EMAIL_LENGTH
        && text.chars().all(is_graphic)
        && parts.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
}
