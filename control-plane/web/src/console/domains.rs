//! Domains: their list, new ones, their verification, settings and removal.

use super::api::{Console, encoded, next_page, parameters};
use super::confirm::Confirm;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::caller::Right;
use edgelink_service::domains::{DomainList, DomainRequest, DomainService, DomainView};
use edgelink_service::problem::Problem;
use serde_json::{Map, Value};

/// The fields of a domain that are texts.
const TEXTS: [&str; 6] = [
    "rootUrl",
    "notFoundUrl",
    "expiredUrl",
    "brandName",
    "brandLogo",
    "brandColor",
];

#[derive(Template)]
#[template(path = "console/domains.html")]
struct DomainsPage {
    layout: Layout,
    domains: Vec<DomainView>,
    next: Option<String>,
    /// The form for a new domain; `None` if the user may not create one.
    new: Option<Fields>,
}

#[derive(Template)]
#[template(path = "console/domain.html")]
struct DomainPage {
    layout: Layout,
    domain: DomainView,
    /// The form for the settings; `None` if the user may not change them.
    settings: Option<Fields>,
}

/// `GET /console/domains`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = DomainsPage::of(&console, &me, asked.get("cursor")).await?;
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

impl DomainsPage {
    async fn of(console: &Console, me: &SignedIn, cursor: &str) -> Result<Self, Problem> {
        let of_page = parameters([("cursor", cursor), ("limit", "100")]);
        let list = DomainList::read(Some(&of_page))?;
        let page = console.app.domain_service.list(me.caller(), list).await?;
        let next = next_page("/console/domains", [], &page.next);
        let mut fields = vec![
            Field::new("name", t::DOMAIN_NAME)
                .hint(t::DOMAIN_NAME_HINT)
                .required(),
        ];
        fields.extend(settings(None));
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Domains), t::DOMAINS),
            domains: page.items.iter().map(DomainView::of).collect(),
            next,
            new: me.has(Right::Administer).then(|| Fields::new(fields)),
        })
    }
}

fn settings(domain: Option<&DomainView>) -> Vec<Field> {
    let text = |text: fn(&DomainView) -> &Option<String>| {
        let text = domain.and_then(|domain| text(domain).clone());
        text.unwrap_or_default()
    };
    let url = |name, label, value: String| {
        Field::new(name, label)
            .input(Input::Line("url"))
            .value(value)
    };
    let status = domain.and_then(|domain| domain.default_status);
    vec![
        url("rootUrl", t::ROOT_URL, text(|domain| &domain.root_url)),
        url(
            "notFoundUrl",
            t::NOT_FOUND_URL,
            text(|domain| &domain.not_found_url),
        ),
        url(
            "expiredUrl",
            t::EXPIRED_URL,
            text(|domain| &domain.expired_url),
        ),
        Field::choice("defaultStatus", t::REDIRECT_STATUS, &t::STATUSES)
            .value(status.map_or(String::new(), |status| status.to_string())),
        Field::new("brandName", t::BRAND_NAME)
            .hint(t::BRAND_NAME_HINT)
            .value(text(|domain| &domain.brand_name)),
        Field::new("brandLogo", t::BRAND_LOGO)
            .hint(t::BRAND_LOGO_HINT)
            .value(text(|domain| &domain.brand_logo)),
        Field::new("brandColor", t::BRAND_COLOR)
            .hint(t::BRAND_COLOR_HINT)
            .value(text(|domain| &domain.brand_color)),
    ]
}

fn body(form: &Form) -> Map<String, Value> {
    let texts = TEXTS
        .iter()
        .map(|name| ((*name).to_owned(), form.text(name)));
    let status = ("defaultStatus".to_owned(), form.number("defaultStatus"));
    texts.chain([status]).collect()
}

/// `POST /console/domains`.
pub(super) async fn create(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let mut body = body(&form);
    body.insert("name".to_owned(), form.get("name").trim().into());
    body.retain(|_, value| !value.is_null());
    let app = &console.app;
    let made = async {
        let request = DomainRequest::read(body, &app.links.of_tenant(me.caller()))?;
        app.domain_service.create(me.caller(), request).await
    };
    match made.await {
        Ok(made) => {
            Ok(made.answer(|seen| Redirect::to(&href(seen.domain.as_str(), "")).into_response()))
        }
        Err(problem) if stays(&problem) => {
            let mut page = DomainsPage::of(&console, &me, "").await?;
            page.new = page.new.map(|fields| fields.filled(&form).with(&problem));
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// `GET /console/domains/{name}`.
pub(super) async fn one(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = DomainPage::of(&console, &me, &name).await?;
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

impl DomainPage {
    async fn of(console: &Console, me: &SignedIn, name: &str) -> Result<Self, Problem> {
        let seen = console.app.domain_service.find(me.caller(), name).await?;
        let domain = DomainView::of(&seen);
        let may_change =
            me.has(Right::Administer) && (!domain.configured || me.caller().is_operator());
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Domains), &*domain.name),
            settings: may_change.then(|| Fields::new(settings(Some(&domain)))),
            domain,
        })
    }

    fn with(mut self, form: &Form, problem: &Problem) -> Self {
        self.settings = self
            .settings
            .map(|fields| fields.filled(form).with(problem));
        self
    }
}

/// `POST /console/domains/{name}`.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let app = &console.app;
    let changed = async {
        let seen = app.domain_service.find(me.caller(), &name).await?;
        let links = app.links.of_tenant(me.caller());
        let change = DomainService::read_change(me.caller(), &seen, body(&form), &links)?;
        app.domain_service.change(me.caller(), &seen, change).await
    };
    match changed.await {
        Ok(changed) => {
            Ok(changed.answer(|_| Redirect::to(&href(&name, "?done=changed")).into_response()))
        }
        Err(problem) if stays(&problem) => {
            let page = DomainPage::of(&console, &me, &name)
                .await?
                .with(&form, &problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// `POST /console/domains/{name}/verify`.
pub(super) async fn verify(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let domains = &console.app.domain_service;
    let verified = async {
        let seen = domains.find(me.caller(), &name).await?;
        domains.verify(me.caller(), seen).await
    };
    match verified.await {
        Ok(verified) => {
            Ok(verified.answer(|_| Redirect::to(&href(&name, "?done=verified")).into_response()))
        }
        Err(problem) if stays(&problem) => not_done(&console, &me, &name, &problem).await,
        Err(problem) => Err(problem),
    }
}

/// The page of the domain with the problem above its unchanged settings.
async fn not_done(
    console: &Console,
    me: &SignedIn,
    name: &str,
    problem: &Problem,
) -> Result<Response, Problem> {
    let mut page = DomainPage::of(console, me, name).await?;
    page.settings = page.settings.map(|fields| fields.with(problem));
    Ok(layout::send(problem.status(), &page))
}

/// `GET /console/domains/{name}/delete`: the confirmation page.
pub(super) async fn ask_to_delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    me.check(Right::Administer)?;
    let seen = console.app.domain_service.find(me.caller(), &name).await?;
    let domain = DomainView::of(&seen);
    layout::ok(&Confirm {
        layout: Layout::new(&me, Some(Tab::Domains), t::DELETE_DOMAIN),
        text: t::DELETE_DOMAIN_TEXT.to_owned(),
        problem: String::new(),
        action: href(&domain.name, "/delete"),
        fields: Vec::new(),
        button: t::DELETE,
        back: href(&domain.name, ""),
        name: domain.name,
    })
}

/// `POST /console/domains/{name}/delete`.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let domains = &console.app.domain_service;
    let deleted = async {
        let seen = domains.find(me.caller(), &name).await?;
        domains.delete(me.caller(), &seen).await
    };
    match deleted.await {
        Ok(deleted) => {
            Ok(deleted.answer(|_| Redirect::to("/console/domains?done=deleted").into_response()))
        }
        Err(problem) if stays(&problem) => not_done(&console, &me, &name, &problem).await,
        Err(problem) => Err(problem),
    }
}

/// The URL of a domain's page, or of a page below it.
fn href(name: &str, page: &str) -> String {
    format!("/console/domains/{}{page}", encoded(name))
}
