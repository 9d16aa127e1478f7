//! Changes of several links of the list at once, and their restoration.

use super::api::Console;
use super::edit::key;
use super::errors::describe;
use super::form::Form;
use super::layout::{self, Layout, Tab};
use super::shown_link::link_href;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::answer_room::AnswerRoom;
use edgelink_service::bulk::{ChangedOutcome, NamedChange};
use edgelink_service::caller::Right;
use edgelink_service::problem::Problem;
use edgelink_service::revisions::{self, Revisions};
use serde_json::{Map, Value, json};

/// Links that a form may select; a page of the list has fewer.
const MAX_SELECTED: usize = 100;

/// The outcome for a link.
struct ChangedLine {
    /// Domain and code.
    key: String,
    href: String,
    /// The reason why the link was not changed; empty if it was.
    problem: String,
}

#[derive(Template)]
#[template(path = "console/bulk.html")]
struct BulkPage {
    layout: Layout,
    outcomes: Vec<ChangedLine>,
    done: usize,
    /// The form that undoes the change; `None` if no button can.
    undo: Option<Undo>,
    back: String,
}

/// A form that undoes a change.
struct Undo {
    action: &'static str,
    /// Names and values of the fields shared by all links.
    fields: Vec<(&'static str, String)>,
    /// Domain and code of the links.
    links: Vec<String>,
}

/// Domain and code of a link that a form has selected.
struct Selected<'a> {
    domain: &'a str,
    code: &'a str,
}

impl<'a> Selected<'a> {
    fn all(form: &'a Form) -> Result<Vec<Self>, Problem> {
        let keys = form.all("link").filter_map(|key| key.rsplit_once('/'));
        let selected: Vec<Self> = keys.map(|(domain, code)| Self { domain, code }).collect();
        match selected.len() {
            0 => Err(Problem::of_field("link", t::NONE_SELECTED)),
            1..=MAX_SELECTED => Ok(selected),
            _ => Err(Problem::of_field("link", t::TOO_MANY_SELECTED)),
        }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.domain, self.code)
    }

    fn named(&self) -> Map<String, Value> {
        let named = [("shortCode", self.code), ("domain", self.domain)];
        let named = named.map(|(name, value)| (name.to_owned(), value.into()));
        named.into_iter().collect()
    }
}

/// `POST /console/links`: runs the action of the button on the ticked links.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    let selected = Selected::all(&form)?;
    let is_deletion = form.get("action") == "delete";
    let changes = changes(&console, &me, &selected, &form).await?;
    // Links that have the tag already, or do not have it, are not changed by its undoing.
    let is_changed: Vec<bool> = changes
        .iter()
        .map(|change| change.as_ref().is_ok_and(|item| item.is_changed))
        .collect();
    let links = &console.app.links;
    let of_tenant = links.of_tenant(me.caller());
    let read = |item: ItemChange| {
        if is_deletion {
            NamedChange::read_deletion(item.body, &of_tenant, me.caller())
        } else {
            NamedChange::read_patch(item.body, &of_tenant, me.caller())
        }
    };
    let changes = changes.into_iter();
    let changes: Vec<_> = changes.map(|change| change.and_then(read)).collect();
    let room = AnswerRoom::of(&console.app.config.server);
    let _permit = console.bulk_permit(me.caller()).await?;
    let changed = links.change_many(me.caller(), changes, room).await?;
    let problem = |outcome: &ChangedOutcome| outcome.as_ref().err().map(describe);
    let problems = changed.value.iter();
    let problems: Vec<String> = problems
        .map(|outcome| problem(outcome).unwrap_or_default())
        .collect();
    let done = selected.iter().zip(&problems).zip(is_changed);
    let done = done.filter(|((_, problem), is_changed)| problem.is_empty() && *is_changed);
    let undo = undo(&form, done.map(|((link, _), _)| link.key()).collect());
    let page = BulkPage {
        undo,
        ..page(&me, &selected, problems, (is_deletion, form.get("back")))
    };
    let page = layout::ok(&page)?;
    Ok(changed.answer(|_| page))
}

/// The form that undoes the change of these links.
fn undo(form: &Form, links: Vec<String>) -> Option<Undo> {
    let (action, fields) = match form.get("action") {
        "delete" => ("/console/restore", Vec::new()),
        "tag" => ("/console/links", vec![("action", "untag".to_owned())]),
        // The form takes one tag, without commas.
        "untag" if !form.get("tag").contains(',') => {
            ("/console/links", vec![("action", "tag".to_owned())])
        }
        _ => return None,
    };
    let tag = ("tag", form.get("tag").trim().to_owned());
    let fields = fields.into_iter().chain([tag]).collect();
    (!links.is_empty()).then_some(Undo {
        action,
        fields,
        links,
    })
}

/// The requested change of a link, or the problem because of which there is none.
type Change = Result<ItemChange, Problem>;

/// The change of a link, as the API reads it.
struct ItemChange {
    body: Map<String, Value>,
    /// Set if the change makes a difference to the link, as far as that is known.
    is_changed: bool,
}

/// The changes that the button of a form asks for.
async fn changes(
    console: &Console,
    me: &SignedIn,
    selected: &[Selected<'_>],
    form: &Form,
) -> Result<Vec<Change>, Problem> {
    let change = match form.get("action") {
        "delete" => json!({}),
        "enable" => json!({ "state": "active" }),
        "disable" => json!({ "state": "disabled" }),
        "archive" => json!({ "archived": true }),
        action @ ("tag" | "untag") => {
            let tag = form.get("tag").trim();
            if tag.is_empty() {
                return Err(Problem::of_field("tag", t::IS_REQUIRED));
            }
            if action == "tag" && tag.contains(',') {
                return Err(Problem::of_field("tag", t::ONE_TAG));
            }
            return Ok(retagged(console, me, selected, (tag, action == "tag")).await);
        }
        _ => return Err(Problem::of_field("action", t::UNKNOWN_ACTION)),
    };
    Ok(with(selected, &change))
}

fn with(selected: &[Selected<'_>], change: &Value) -> Vec<Change> {
    let item = |link: &Selected<'_>| {
        let mut item = link.named();
        if let Value::Object(change) = change {
            item.extend(change.clone());
        }
        Ok(ItemChange {
            body: item,
            is_changed: true,
        })
    };
    selected.iter().map(item).collect()
}

/// The changes that add a tag to each link, or remove it. They are made only if the link still has its present tags.
async fn retagged(
    console: &Console,
    me: &SignedIn,
    selected: &[Selected<'_>],
    (tag, is_added): (&str, bool),
) -> Vec<Change> {
    let mut items = Vec::with_capacity(selected.len());
    for link in selected {
        let found = async {
            let key = key(console, me, link.code, link.domain)?;
            console.app.links.find(me.caller(), &key).await
        };
        let found = match found.await {
            Ok(found) => found,
            Err(problem) => {
                items.push(Err(problem));
                continue;
            }
        };
        let entity_tag = revisions::tag_of(found.rev);
        let mut tags = found.content.tags;
        let is_changed = tags.iter().any(|each| each == tag) != is_added;
        tags.retain(|each| each != tag);
        if is_added {
            tags.push(tag.to_owned());
        }
        let mut item = link.named();
        item.insert("tags".to_owned(), tags.into());
        item.insert("ifMatch".to_owned(), entity_tag.into());
        items.push(Ok(ItemChange {
            body: item,
            is_changed,
        }));
    }
    items
}

/// `POST /console/restore`: undoes the deletion of links.
pub(super) async fn restore(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    let selected = Selected::all(&form)?;
    let links = &console.app.links;
    let restore = async |link: &Selected<'_>| {
        let key = key(&console, &me, link.code, link.domain)?;
        links.restore(me.caller(), key, Revisions::any()).await
    };
    if let [link] = selected.as_slice() {
        return Ok(restore(link).await?.answer(|_| {
            let page = link_href(link.domain, link.code, "") + "&done=restored";
            Redirect::to(&page).into_response()
        }));
    }
    let mut problems = Vec::with_capacity(selected.len());
    let mut last = None;
    for link in &selected {
        match restore(link).await {
            Ok(restored) => {
                last = Some(restored);
                problems.push(String::new());
            }
            Err(problem) => problems.push(describe(&problem)),
        }
    }
    let page = layout::ok(&page(&me, &selected, problems, (false, form.get("back"))))?;
    // The feed carries changes in order: the earlier ones are known by then.
    Ok(match last {
        Some(restored) => restored.answer(|_| page),
        None => page,
    })
}

fn page(
    me: &SignedIn,
    selected: &[Selected<'_>],
    problems: Vec<String>,
    (is_deletion, back): (bool, &str),
) -> BulkPage {
    let outcomes = selected.iter().zip(problems).map(|(link, problem)| {
        let page = if is_deletion && problem.is_empty() {
            "/deleted"
        } else {
            ""
        };
        ChangedLine {
            key: link.key(),
            href: link_href(link.domain, link.code, page),
            problem,
        }
    });
    let outcomes: Vec<ChangedLine> = outcomes.collect();
    let done = outcomes.iter().filter(|outcome| outcome.problem.is_empty());
    let is_ours =
        back.starts_with("/console/links") && back.bytes().all(|byte| byte.is_ascii_graphic());
    BulkPage {
        layout: Layout::new(me, Some(Tab::Links), t::CHANGED_LINKS),
        done: done.count(),
        undo: None,
        back: if is_ours { back } else { "/console/links" }.to_owned(),
        outcomes,
    }
}
