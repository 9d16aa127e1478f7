//! Moving a link to another domain or alias.

use super::api::Console;
use super::edit::{find, key};
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::revision::Revision;
use super::shown_link::{ShownLink, link_href};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::caller::Right;
use edgelink_service::moving::Move;
use edgelink_service::problem::Problem;
use serde_json::Map;

#[derive(Template)]
#[template(path = "console/move.html")]
struct MovePage {
    layout: Layout,
    link: ShownLink,
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
                .value(link.domain.as_str()),
            Field::new("customSlug", t::SLUG)
                .hint(t::SLUG_HINT_MOVE)
                .value(link.code.as_str()),
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
    let mut body = Map::new();
    body.insert("keepOld".to_owned(), form.is_on("keepOld").into());
    for name in ["customSlug", "domain"] {
        let value = form.text(name);
        if !value.is_null() {
            body.insert(name.to_owned(), value);
        }
    }
    let links = &console.app.links;
    let moved = async {
        let old = key(&console, &me, &code, domain)?;
        let of_tenant = links.of_tenant(me.caller());
        let to = Move::checked(body, &old, me.caller(), &of_tenant)?;
        links.relocate(me.caller(), old, form.revisions(), to).await
    };
    match moved.await {
        Ok(moved) => Ok(moved.answer(|link| {
            let page = link_href(link.domain.as_str(), link.code.as_str(), "") + "&done=moved";
            Redirect::to(&page).into_response()
        })),
        Err(problem) if stays(&problem) => {
            let mut page = MovePage::of(&console, &me, (&*code, domain)).await?;
            page.revision = page.revision.again(&form, &problem, &page.fields);
            page.fields = page.fields.filled(&form).with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}
