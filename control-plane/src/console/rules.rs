//! The rules of a link, as JSON, and their dry run.

use super::api::{Console, query};
use super::edit::{find, path};
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::revision::Revision;
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{LinkView, link_page};
use crate::problem::{FieldError, Problem};
use crate::service::caller::Right;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The texts that describe a visitor.
const VISITOR: [&str; 7] = [
    "userAgent",
    "acceptLanguage",
    "path",
    "query",
    "ip",
    "country",
    "city",
];

#[derive(Template)]
#[template(path = "console/rules.html")]
struct RulesPage {
    layout: Layout,
    link: LinkView,
    fields: Fields,
    visitor: Fields,
    revision: Revision,
    /// See [`Console::settings`].
    settings: String,
    /// What the dry run has found.
    outcome: Option<Outcome>,
    may_change: bool,
}

/// Where a visitor would be sent, and why.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    outcome: String,
    status: u16,
    location: Option<String>,
    matched_rule: Option<u64>,
    rules: Vec<Explained>,
}

/// Whether a rule matches.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    priority: u64,
    long_url: String,
    matches: bool,
    conditions: Vec<Condition>,
}

/// Whether a condition holds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    match_key: Option<String>,
    match_value: Option<String>,
    matches: bool,
    saw: Option<String>,
}

/// `GET /console/links/{code}/rules`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let page = RulesPage::of(&console, &me, &code, &asked).await?;
    layout::ok(&page)
}

impl RulesPage {
    async fn of(
        console: &Console,
        me: &SignedIn,
        code: &str,
        asked: &Form,
    ) -> Result<Self, Problem> {
        let domain = asked.get("domain");
        let (link, entity_tag) = find(console, me, code, domain).await?;
        let rules = console
            .get(me.caller(), &path(code, domain, "/rules"))
            .await?;
        let may_change = me.has(Right::ChangeLinks);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Links), t::RULES).with_notice(asked),
            fields: Fields::new(vec![
                Field::new("rules", t::RULES)
                    .hint(t::RULES_HINT)
                    .input(Input::Lines)
                    .value(written(&rules.body["redirectRules"])),
            ]),
            visitor: visitor_fields(),
            link,
            revision: Revision::new(entity_tag),
            settings: console.settings(me.caller()),
            outcome: None,
            may_change,
        })
    }
}

/// Rules as people edit them: their order is their priority.
fn written(rules: &Value) -> String {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().into_iter().flatten() {
        if let Value::Object(rule) = rule {
            rule.remove("priority");
        }
    }
    serde_json::to_string_pretty(&rules).unwrap_or_default()
}

fn visitor_fields() -> Fields {
    let labels = VISITOR.iter().zip(t::VISITOR);
    let mut fields: Vec<Field> = labels
        .map(|(name, label)| Field::new(name, label))
        .collect();
    fields.push(Field::tick("hasPassword", t::HAS_PASSWORD, false));
    let at = Field::new("at", t::AT).hint(t::UTC);
    fields.push(at.input(Input::Line("datetime-local")));
    Fields::new(fields)
}

/// `POST /console/links/{code}/rules`.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
    form: Form,
) -> Result<Response, Problem> {
    let domain = asked.get("domain");
    let answer = match parse(form.get("rules")) {
        Ok(rules) => {
            let body = json!({ "redirectRules": rules });
            let path = path(&code, domain, "/rules");
            let sent = console.ask(
                me.caller(),
                Method::POST,
                &path,
                Some(&body),
                form.if_match(),
            );
            sent.await
        }
        Err(problem) => Err(problem),
    };
    match answer {
        Ok(answer) => {
            let to = query([("domain", domain), ("done", "rules")]);
            let to = Redirect::to(&link_page(&code, "/rules", &to));
            Ok(answer.before(to.into_response()))
        }
        Err(problem) if stays(&problem) => {
            let mut page = RulesPage::of(&console, &me, &code, &asked).await?;
            page.revision = page.revision.again(&form, &problem, &page.fields);
            page.fields = page.fields.filled(&form).with(&renamed(&problem));
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

fn parse(text: &str) -> Result<Value, Problem> {
    let text = if text.trim().is_empty() { "[]" } else { text };
    serde_json::from_str(text).map_err(|error| {
        let error = FieldError::new("rules", format!("{}: {error}", t::NO_JSON));
        Problem::validation(vec![error])
    })
}

/// The problem with the names of this form: the API's field is another one.
fn renamed(problem: &Problem) -> Problem {
    let errors = problem.errors().iter();
    let errors = errors.map(|error| {
        let field = error.field.replacen("redirectRules", "rules", 1);
        FieldError::new(field, error.reason.clone())
    });
    problem.clone().with_errors(errors.collect())
}

/// `GET /console/links/{code}/dry-run`: nothing is counted or changed, so each dry run has an address.
pub(super) async fn dry_run(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = RulesPage::of(&console, &me, &code, &asked).await?;
    let mut visitor = Map::new();
    for name in VISITOR {
        visitor.insert(name.to_owned(), asked.text(name));
    }
    visitor.insert("at".to_owned(), asked.time("at"));
    visitor.insert("hasPassword".to_owned(), asked.is_on("hasPassword").into());
    visitor.retain(|_, value| !value.is_null());
    let path = path(&code, asked.get("domain"), "/resolve");
    let visitor = visitor.into();
    let found = console.send(me.caller(), Method::POST, &path, &visitor);
    page.visitor = page.visitor.filled(&asked);
    let mut status = StatusCode::OK;
    match found.await {
        Ok(answer) => page.outcome = Some(answer.read()?),
        Err(problem) if stays(&problem) => {
            status = problem.status();
            page.visitor = page.visitor.with(&problem);
        }
        Err(problem) => return Err(problem),
    }
    Ok(layout::send(status, &page))
}
