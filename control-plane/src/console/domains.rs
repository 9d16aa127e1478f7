//! Domains: their list, new ones, their verification, settings and removal.

use super::api::{Console, encoded, next_page, query};
use super::confirm::Confirm;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{DomainView, DomainsView};
use crate::problem::Problem;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
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
    /// The form for a new one; `None` if the user may not.
    new: Option<Fields>,
}

#[derive(Template)]
#[template(path = "console/domain.html")]
struct DomainPage {
    layout: Layout,
    domain: DomainView,
    /// The form for its settings; `None` if the user may not.
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
        let of_page = query([("cursor", cursor), ("limit", "100")]);
        let domains: DomainsView = console
            .read(me.caller(), &format!("/domains{of_page}"))
            .await?;
        let next = next_page("/console/domains", [], &domains.next_cursor);
        let mut fields = vec![
            Field::new("name", t::DOMAIN_NAME)
                .hint(t::DOMAIN_NAME_HINT)
                .required(),
        ];
        fields.extend(settings(None));
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Domains), t::DOMAINS),
            domains: domains.domains,
            next,
            new: me
                .may(&Method::POST, "/domains")
                .then(|| Fields::new(fields)),
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
    let made = console
        .send(me.caller(), Method::POST, "/domains", &body.into())
        .await;
    match made {
        Ok(answer) => {
            let domain: DomainView = answer.as_type()?;
            Ok(answer.before(Redirect::to(&domain.page("")).into_response()))
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
        let path = format!("/domains/{}", encoded(name));
        let domain: DomainView = console.read(me.caller(), &path).await?;
        let may_change = me.may(&Method::PATCH, "/domains/{name}")
            && (!domain.configured || me.caller().is_operator());
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
    let path = format!("/domains/{}", encoded(&name));
    let changed = console
        .send(me.caller(), Method::PATCH, &path, &body(&form).into())
        .await;
    match changed {
        Ok(answer) => {
            let to = format!("/console/domains/{}?done=changed", encoded(&name));
            Ok(answer.before(Redirect::to(&to).into_response()))
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
    let path = format!("/domains/{}/verify", encoded(&name));
    let verified = console
        .ask(me.caller(), Method::POST, &path, None, None)
        .await;
    match verified {
        Ok(answer) => {
            let to = format!("/console/domains/{}?done=verified", encoded(&name));
            Ok(answer.before(Redirect::to(&to).into_response()))
        }
        Err(problem) if stays(&problem) => not_done(&console, &me, &name, &problem).await,
        Err(problem) => Err(problem),
    }
}

/// The page of the domain with the problem above its settings, as they are.
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

/// `GET /console/domains/{name}/delete`: the question before it.
pub(super) async fn ask_to_delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    me.check(&Method::DELETE, "/domains/{name}")?;
    let path = format!("/domains/{}", encoded(&name));
    let domain: DomainView = console.read(me.caller(), &path).await?;
    layout::ok(&Confirm {
        layout: Layout::new(&me, Some(Tab::Domains), t::DELETE_DOMAIN),
        text: t::DELETE_DOMAIN_TEXT.to_owned(),
        problem: String::new(),
        action: domain.page("/delete"),
        fields: Vec::new(),
        button: t::DELETE,
        back: domain.page(""),
        name: domain.name,
    })
}

/// `POST /console/domains/{name}/delete`.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let path = format!("/domains/{}", encoded(&name));
    let deleted = console
        .ask(me.caller(), Method::DELETE, &path, None, None)
        .await;
    match deleted {
        Ok(answer) => {
            let page = Redirect::to("/console/domains?done=deleted").into_response();
            Ok(answer.before(page))
        }
        Err(problem) if stays(&problem) => not_done(&console, &me, &name, &problem).await,
        Err(problem) => Err(problem),
    }
}
