//! Changes of several links of the list at once, and their restoring.

use super::api::{Answer, Console, query};
use super::form::Form;
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{BulkView, LinkView, link_href};
use crate::problem::Problem;
use crate::service::caller::Right;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde_json::{Value, json};

/// Links that a form may select; a page of the list has fewer.
const MAX_SELECTED: usize = 100;

/// What became of a link.
struct Outcome {
    /// Domain and code.
    key: String,
    href: String,
    /// Why it was not changed; empty if it was.
    problem: String,
}

#[derive(Template)]
#[template(path = "console/bulk.html")]
struct BulkPage {
    layout: Layout,
    outcomes: Vec<Outcome>,
    done: usize,
    /// How the change is undone; `None` if it is not by a button.
    undo: Option<Undo>,
    back: String,
}

/// A form that takes a change back.
struct Undo {
    action: &'static str,
    /// Names and values of its fields that are the same for all links.
    fields: Vec<(&'static str, String)>,
    /// Domain and code of the links.
    links: Vec<String>,
}

/// Domain and code of what a form has selected.
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

    fn path(&self, page: &str) -> String {
        let query = query([("domain", self.domain)]);
        format!("/links/{}{page}{query}", super::api::encoded(self.code))
    }

    fn named(&self) -> Value {
        json!({ "shortCode": self.code, "domain": self.domain })
    }
}

/// `POST /console/links`: what the button says, with the links whose boxes are ticked.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let selected = Selected::all(&form)?;
    let (method, changes) = changes(&console, &me, &selected, &form).await?;
    // Links that have the tag already, or do not have it, are not changed by its undoing.
    let is_changed: Vec<bool> = changes
        .iter()
        .map(|change| change.as_ref().is_ok_and(|item| item.is_changed))
        .collect();
    // Each item with its place among those that are selected.
    let (mut places, mut items) = (Vec::new(), Vec::new());
    let mut problems = vec![String::new(); selected.len()];
    for (place, change) in changes.into_iter().enumerate() {
        match change {
            Ok(item) => {
                places.push(place);
                items.push(item.body);
            }
            Err(problem) => problems[place] = problem,
        }
    }
    let is_deletion = method == Method::DELETE;
    if items.is_empty() {
        return layout::ok(&page(
            &me,
            &selected,
            problems,
            (is_deletion, form.get("back")),
        ));
    }
    let items = items.into();
    let answer = console.send(me.caller(), method, "/links/bulk", &items);
    let answer = answer.await?;
    let results = answer.as_type().map(|bulk: BulkView| bulk.results);
    for item in results? {
        let place = places.get(item.index).copied().unwrap_or_default();
        if let (Some(problem), Some(error)) = (problems.get_mut(place), item.error) {
            *problem = error.text();
        }
    }
    let done = selected.iter().zip(&problems).zip(is_changed);
    let done = done.filter(|((_, problem), is_changed)| problem.is_empty() && *is_changed);
    let undo = undo(&form, done.map(|((link, _), _)| link.key()).collect());
    let page = BulkPage {
        undo,
        ..page(&me, &selected, problems, (is_deletion, form.get("back")))
    };
    Ok(answer.before(layout::ok(&page)?))
}

/// The form that takes the change of these links back.
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

/// The change of a link that the API is asked for, or why there is none.
type Change = Result<Item, String>;

/// What the API is sent about a link.
struct Item {
    body: Value,
    /// Whether the link is another one then, as far as that is known.
    is_changed: bool,
}

/// What the button of a form asks the API for.
async fn changes(
    console: &Console,
    me: &SignedIn,
    selected: &[Selected<'_>],
    form: &Form,
) -> Result<(Method, Vec<Change>), Problem> {
    let patch = |change: Value| Ok((Method::PATCH, with(selected, &change)));
    match form.get("action") {
        "delete" => Ok((Method::DELETE, with(selected, &json!({})))),
        "enable" => patch(json!({ "state": "active" })),
        "disable" => patch(json!({ "state": "disabled" })),
        "archive" => patch(json!({ "archived": true })),
        action @ ("tag" | "untag") => {
            me.check(Right::ChangeLinks)?;
            let tag = form.get("tag").trim();
            if tag.is_empty() {
                return Err(Problem::of_field("tag", t::IS_REQUIRED));
            }
            if action == "tag" && tag.contains(',') {
                return Err(Problem::of_field("tag", t::ONE_TAG));
            }
            let items = retagged(console, me, selected, (tag, action == "tag")).await?;
            Ok((Method::PATCH, items))
        }
        _ => Err(Problem::of_field("action", t::UNKNOWN_ACTION)),
    }
}

fn with(selected: &[Selected<'_>], change: &Value) -> Vec<Change> {
    let item = |link: &Selected<'_>| {
        let mut item = link.named();
        if let (Value::Object(item), Value::Object(change)) = (&mut item, change) {
            item.extend(change.clone());
        }
        Ok(Item {
            body: item,
            is_changed: true,
        })
    };
    selected.iter().map(item).collect()
}

/// The changes that give each link a tag, or take it away. They are made only if the link still has the tags that it has now.
async fn retagged(
    console: &Console,
    me: &SignedIn,
    selected: &[Selected<'_>],
    (tag, is_added): (&str, bool),
) -> Result<Vec<Change>, Problem> {
    let mut items = Vec::with_capacity(selected.len());
    for link in selected {
        let answer = match console.get(me.caller(), &link.path("")).await {
            Ok(answer) => answer,
            Err(problem) => {
                items.push(Err(super::errors::describe(&problem)));
                continue;
            }
        };
        let entity_tag = answer.entity_tag.clone();
        let found: LinkView = answer.read()?;
        let mut tags = found.tags;
        let is_changed = tags.iter().any(|each| each == tag) != is_added;
        tags.retain(|each| each != tag);
        if is_added {
            tags.push(tag.to_owned());
        }
        let mut item = link.named();
        item["tags"] = tags.into();
        let entity_tag = entity_tag.and_then(|tag| tag.to_str().ok().map(str::to_owned));
        item["ifMatch"] = entity_tag.into();
        items.push(Ok(Item {
            body: item,
            is_changed,
        }));
    }
    Ok(items)
}

/// `POST /console/restore`: undoes the deletion of links.
pub(super) async fn restore(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    let selected = Selected::all(&form)?;
    if let [link] = selected.as_slice() {
        let path = link.path("/restore");
        let restored = console.ask(me.caller(), Method::POST, &path, None, None);
        let restored = restored.await?;
        let page = link_href(link.domain, link.code, "") + "&done=restored";
        return Ok(restored.before(Redirect::to(&page).into_response()));
    }
    let mut problems = Vec::with_capacity(selected.len());
    let mut last: Option<Answer> = None;
    for link in &selected {
        let path = link.path("/restore");
        let restored = console.ask(me.caller(), Method::POST, &path, None, None);
        match restored.await {
            Ok(answer) => {
                last = Some(answer);
                problems.push(String::new());
            }
            Err(problem) => problems.push(super::errors::describe(&problem)),
        }
    }
    let page = layout::ok(&page(&me, &selected, problems, (false, form.get("back"))))?;
    // The feed carries changes in their order: those before the last one are known by then.
    Ok(match last {
        Some(answer) => answer.before(page),
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
        Outcome {
            key: link.key(),
            href: link_href(link.domain, link.code, page),
            problem,
        }
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
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
