//! A link goes to another domain or alias.

use super::api::Console;
use super::edit::{find, path};
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::revision::Revision;
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::LinkView;
use crate::problem::Problem;
use crate::service::caller::Right;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde_json::json;

#[derive(Template)]
#[template(path = "console/move.html")]
struct MovePage {
    layout: Layout,
    link: LinkView,
    fields: Fields,
    revision: Revision,
}

impl MovePage {
    async fn of(
        console: &Console,
        me: &SignedIn,
        (code, domain): (&str, &str),
    ) -> Result<Self, Problem> {
        let (link, entity_tag) = find(console, me, code, domain).await?;
        let fields = vec![
            domain_field(console, me, t::DEFAULT_DOMAIN)
                .await?
                .value(&*link.domain),
            Field::new("customSlug", t::SLUG)
                .hint(t::SLUG_HINT_MOVE)
                .value(&*link.short_code),
            Field::tick("keepOld", t::KEEP_OLD, true),
        ];
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Links), t::MOVE),
            fields: Fields::new(fields),
            link,
            revision: Revision::new(entity_tag),
        })
    }
}

/// `GET /console/links/{code}/move`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    let link = (&*code, asked.get("domain"));
    layout::ok(&MovePage::of(&console, &me, link).await?)
}

/// `POST /console/links/{code}/move`.
pub(super) async fn relocate(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
    form: Form,
) -> Result<Response, Problem> {
    let domain = asked.get("domain");
    let mut body = json!({ "keepOld": form.is_on("keepOld") });
    for name in ["customSlug", "domain"] {
        let value = form.text(name);
        if !value.is_null() {
            body[name] = value;
        }
    }
    let to = path(&code, domain, "/move");
    let moved = console.ask(me.caller(), Method::POST, &to, Some(&body), form.if_match());
    match moved.await {
        Ok(answer) => {
            let link: LinkView = answer.as_type()?;
            let page = Redirect::to(&(link.href() + "&done=moved"));
            Ok(answer.before(page.into_response()))
        }
        Err(problem) if stays(&problem) => {
            let mut page = MovePage::of(&console, &me, (&*code, domain)).await?;
            page.revision = page.revision.again(&form, &problem, &page.fields);
            page.fields = page.fields.filled(&form).with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}
