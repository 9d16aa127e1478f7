//! Tags: how many links have each, their renaming and their removal.

use super::api::{Console, encoded, query};
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::TagsView;
use crate::problem::{FieldError, Problem};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use serde_json::json;

#[derive(Template)]
#[template(path = "console/tags.html")]
struct TagsPage {
    layout: Layout,
    prefix: String,
    tags: TagsView,
    next: Option<String>,
    /// The form for renaming; `None` if the user may not.
    rename: Option<Fields>,
}

/// `GET /console/tags`. The parameter `tag` fills the form in.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = TagsPage::of(&console, &me, &asked).await?;
    page.rename = page.rename.map(|fields| fields.filled(&asked));
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

impl TagsPage {
    async fn of(console: &Console, me: &SignedIn, asked: &Form) -> Result<Self, Problem> {
        let prefix = asked.get("prefix").trim();
        let of_page = [
            ("prefix", prefix),
            ("cursor", asked.get("cursor")),
            ("limit", "100"),
        ];
        let tags: TagsView = console
            .read(me.caller(), &format!("/tags{}", query(of_page)))
            .await?;
        let next = tags.next_cursor.as_deref();
        let next = next.map(|cursor| {
            format!(
                "/console/tags{}",
                query([("prefix", prefix), ("cursor", cursor)])
            )
        });
        let fields = Fields::new(vec![
            Field::new("tag", t::TAG).required(),
            Field::new("to", t::NEW_NAME).required(),
            Field::tick("merge", t::MERGE_TAGS, false),
        ]);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Tags), t::TAGS),
            prefix: prefix.to_owned(),
            tags,
            next,
            rename: me.may(&Method::PATCH, "/tags/{tag}").then_some(fields),
        })
    }
}

/// `POST /console/tags/rename`.
pub(super) async fn rename(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let path = format!("/tags/{}", encoded(form.get("tag")));
    let body = json!({ "tag": form.get("to"), "merge": form.is_on("merge") });
    let renamed = console.send(me.caller(), Method::PATCH, &path, &body).await;
    answer(&console, &me, &form, renamed.map(|answer| answer.body)).await
}

/// `POST /console/tags/delete`.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let path = format!("/tags/{}", encoded(form.get("tag")));
    let deleted = console
        .ask(me.caller(), Method::DELETE, &path, None, None)
        .await;
    answer(&console, &me, &form, deleted.map(|answer| answer.body)).await
}

async fn answer(
    console: &Console,
    me: &SignedIn,
    form: &Form,
    answer: Result<serde_json::Value, Problem>,
) -> Result<Response, Problem> {
    let (status, problem) = match answer {
        Ok(body) if body["complete"] == true => {
            return Ok(Redirect::to("/console/tags?done=tags").into_response());
        }
        // The same form goes on with the rest.
        Ok(_) => (
            StatusCode::OK,
            Problem::validation(vec![FieldError::new("tag", t::NOT_COMPLETE)]),
        ),
        Err(problem) if stays(&problem) => {
            // The new name is another field here.
            let errors = problem.errors().iter();
            let errors = errors.map(|error| {
                let field = if error.field == "tag" {
                    "to"
                } else {
                    &error.field
                };
                FieldError::new(field.to_owned(), error.reason.clone())
            });
            let errors = errors.collect();
            (problem.status(), problem.with_errors(errors))
        }
        Err(problem) => return Err(problem),
    };
    let mut page = TagsPage::of(console, me, &Form::default()).await?;
    page.rename = page.rename.map(|fields| fields.filled(form).with(&problem));
    Ok(layout::send(status, &page))
}
