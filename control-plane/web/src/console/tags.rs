//! Tags: their numbers of links, renaming and removal.

use super::api::{Console, next_page, parameters, query};
use super::confirm::Confirm;
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::caller::Right;
use edgelink_service::problem::{FieldError, Kind, Problem};
use edgelink_service::tags::{TagList, TagPatch, TagView};
use serde_json::Map;

#[derive(Template)]
#[template(path = "console/tags.html")]
struct TagsPage {
    layout: Layout,
    prefix: String,
    tags: Vec<TagView>,
    next: Option<String>,
    /// The form for renaming; `None` if the user may not rename tags.
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
        let list = TagList::read(Some(&parameters(of_page)))?;
        let page = console.app.links.list_tags(me.caller(), list).await?;
        let next = next_page("/console/tags", [("prefix", prefix)], &page.next);
        let tags = page.items.into_iter().map(TagView::new).collect();
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
            rename: me.has(Right::Administer).then_some(fields),
        })
    }
}

/// The tag that a form names; a tag has no spaces around it.
fn named(form: &Form) -> Result<&str, Problem> {
    match form.get("tag").trim() {
        "" => Err(Problem::of_field("tag", t::IS_REQUIRED)),
        tag => Ok(tag),
    }
}

/// `POST /console/tags/rename`.
pub(super) async fn rename(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let tag = match named(&form) {
        Ok(tag) => tag,
        Err(problem) => return again(&console, &me, &form, &problem).await,
    };
    let links = &console.app.links;
    let renamed = async {
        let mut body = Map::new();
        body.insert("tag".to_owned(), form.get("to").into());
        body.insert("merge".to_owned(), form.is_on("merge").into());
        let patch = TagPatch::read(body)?;
        links.rename_tag(me.caller(), tag, &patch).await
    };
    match renamed.await {
        Ok(renamed) if renamed.complete => {
            Ok(Redirect::to("/console/tags?done=tags").into_response())
        }
        // Sending the form again does the rest.
        Ok(_) => {
            let rest = FieldError::new("tag", t::NOT_COMPLETE);
            again(&console, &me, &form, &Problem::validation(vec![rest])).await
        }
        Err(problem) => {
            // The new name has another field name here.
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
            again(&console, &me, &form, &problem.with_errors(errors)).await
        }
    }
}

/// The page with the form again, and its problem.
async fn again(
    console: &Console,
    me: &SignedIn,
    form: &Form,
    problem: &Problem,
) -> Result<Response, Problem> {
    if !stays(problem) {
        return Err(problem.clone());
    }
    let mut page = TagsPage::of(console, me, &Form::default()).await?;
    page.rename = page.rename.map(|fields| fields.filled(form).with(problem));
    Ok(layout::send(problem.status(), &page))
}

/// `GET /console/tags/delete`: the confirmation page.
pub(super) async fn ask_to_delete(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    me.check(Right::Administer)?;
    layout::ok(&confirm(&console, &me, asked.get("tag"), "").await?)
}

async fn confirm(
    console: &Console,
    me: &SignedIn,
    tag: &str,
    problem: &str,
) -> Result<Confirm, Problem> {
    // The tag itself is the first of the tags that begin with it.
    let list = TagList::read(Some(&parameters([("prefix", tag), ("limit", "1")])))?;
    let found = console.app.links.list_tags(me.caller(), list).await?;
    let found = found.items.into_iter().map(TagView::new);
    let found = found.into_iter().find(|found| found.tag == tag);
    let found = found.ok_or_else(|| Problem::new(Kind::TagNotFound))?;
    let at_least = if found.at_least { t::AT_LEAST } else { "" };
    Ok(Confirm {
        layout: Layout::new(me, Some(Tab::Tags), t::DELETE_TAG),
        text: format!("{} {at_least} {}", t::DELETE_TAG_FROM, found.links),
        name: found.tag.clone(),
        problem: problem.to_owned(),
        action: "/console/tags/delete".to_owned(),
        fields: vec![("tag", found.tag)],
        button: t::DELETE,
        back: "/console/tags".to_owned(),
    })
}

/// `POST /console/tags/delete`.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let tag = match named(&form) {
        Ok(tag) => tag,
        Err(problem) => return again(&console, &me, &form, &problem).await,
    };
    match console.app.links.delete_tag(me.caller(), tag).await {
        Ok(deleted) if deleted.complete => {
            Ok(Redirect::to("/console/tags?done=tags").into_response())
        }
        Ok(_) => {
            let page = confirm(&console, &me, form.get("tag").trim(), t::NOT_COMPLETE);
            layout::ok(&page.await?)
        }
        Err(problem) => again(&console, &me, &form, &problem).await,
    }
}

/// The text of the confirmation before a tag is deleted.
fn deletion(tag: &TagView) -> String {
    format!("/console/tags/delete{}", query([("tag", &*tag.tag)]))
}

/// The URL of the list of a tag's links.
fn links_of(tag: &TagView) -> String {
    format!("/console/links{}", query([("tags", &*tag.tag)]))
}
