//! The rules of a link, as JSON, and their dry run.

use super::api::{Console, query};
use super::edit::{find, key};
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::revision::Revision;
use super::shown_link::{ShownLink, link_page};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::caller::Right;
use edgelink_service::dry_run::{ResolvedView, Visitor};
use edgelink_service::problem::{FieldError, Problem};
use edgelink_wire::rules::Rule;
use http::StatusCode;
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
    link: ShownLink,
    fields: Fields,
    visitor: Fields,
    revision: Revision,
    /// See [`Console::settings`].
    settings: String,
    /// The outcome of the dry run.
    outcome: Option<ResolvedView>,
    may_change: bool,
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
        let key = key(console, me, code, domain)?;
        let found = console.app.links.find(me.caller(), &key).await?;
        let may_change = me.has(Right::ChangeLinks);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Links), t::RULES).with_notice(asked),
            fields: Fields::new(vec![
                Field::new("rules", t::RULES)
                    .hint(t::RULES_HINT)
                    .input(Input::Lines)
                    .value(written(&found.content.details.rules)),
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
fn written(rules: &[Rule]) -> String {
    let rules = rules
        .iter()
        .map(|rule| json!({ "longUrl": rule.target, "conditions": rule.conditions }));
    serde_json::to_string_pretty(&rules.collect::<Vec<_>>()).unwrap_or_default()
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
    let links = &console.app.links;
    let changed = async {
        let mut body = Map::new();
        body.insert("redirectRules".to_owned(), parse(form.get("rules"))?);
        let key = key(&console, &me, &code, domain)?;
        let rules = links.of_tenant(me.caller()).read_rules(body)?;
        let set = links.set_rules(me.caller(), key, form.revisions(), rules);
        set.await
    };
    match changed.await {
        Ok(changed) => Ok(changed.answer(|_| {
            let to = query([("domain", domain), ("done", "rules")]);
            Redirect::to(&link_page(&code, "/rules", &to)).into_response()
        })),
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

/// The problem with this form's name of the field, which the API names otherwise.
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
    let links = &console.app.links;
    let found = async {
        let key = key(&console, &me, &code, asked.get("domain"))?;
        let visitor = Visitor::read(visitor)?;
        links.dry_run(me.caller(), &key, visitor).await
    };
    page.visitor = page.visitor.filled(&asked);
    let mut status = StatusCode::OK;
    match found.await {
        Ok(outcome) => page.outcome = Some(outcome),
        Err(problem) if stays(&problem) => {
            status = problem.status();
            page.visitor = page.visitor.with(&problem);
        }
        Err(problem) => return Err(problem),
    }
    Ok(layout::send(status, &page))
}
