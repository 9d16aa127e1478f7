//! `GET` and `POST /links/{code}/rules`: the conditional targets of a link, in the JSON of Shlink.

use super::body::JsonObject;
use super::fields::Fields;
use super::if_match::{IfMatch, entity_tag};
use super::one::{self, RequestedLink};
use super::schema;
use super::{values, view};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::model::{Link, LinkContent};
use crate::problem::{FieldError, Problem};
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::rules::{self, Condition, ConditionType, MAX_CONDITIONS, MAX_RULES, Rule};
use http::header;
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;
use utoipa::ToSchema;

const RULES: &str = "redirectRules";

/// Gets the rules of a link in the order in which they count.
#[utoipa::path(
    get,
    path = "/links/{code}/rules",
    operation_id = "getRules",
    tag = "links",
    params(schema::OfCode, schema::OfDomain),
    responses(
        (
            status = 200, description = "The rules",
            body = RulesView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
) -> Result<Response, Problem> {
    let link = one::find(&app, &caller, &key).await?;
    Ok(answer(&link))
}

/// Replaces all rules of a link; an empty list removes them.
#[utoipa::path(
    post,
    path = "/links/{code}/rules",
    operation_id = "setRules",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = schema::NewRules,
    responses(
        (
            status = 200, description = "The rules as they are now",
            body = RulesView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn replace(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let rules = Reader::read(object, &app.links(&caller))?;
    let change = move |content: &LinkContent| {
        let mut content = content.clone();
        content.details.rules.clone_from(&rules);
        Ok(content)
    };
    let (link, awaited) = one::change(&app, caller, key, if_match, change).await?;
    Ok(awaited.attach_to(answer(&link)))
}

/// Reads the rules of a link that is imported; none if the field is missing.
pub(super) fn field(fields: &mut Fields, links: &TenantLinks<'_>) -> Vec<Rule> {
    let Some(value) = fields.take(RULES) else {
        return Vec::new();
    };
    let errors = Vec::new();
    let mut reader = Reader { links, errors };
    let rules = reader.list(Some(value));
    let (rules, errors) = reader.finish(rules);
    fields.refuse_all(errors);
    rules
}

/// The rules of a link as the API shows them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rules)]
struct RulesView<'a> {
    default_long_url: &'a str,
    redirect_rules: Vec<view::RuleView<'a>>,
}

fn answer(link: &Link) -> Response {
    let view = RulesView {
        default_long_url: link.content.target.as_str(),
        redirect_rules: view::rules(link),
    };
    ([(header::ETAG, entity_tag(link))], Json(view)).into_response()
}

/// Reads rules, and gathers all that is wrong by its path. What is wrong is replaced by something that is valid, so that the places
/// of the others stay what they are.
struct Reader<'a> {
    links: &'a TenantLinks<'a>,
    errors: Vec<FieldError>,
}

impl<'a> Reader<'a> {
    /// Reads the body of a request.
    fn read(
        mut object: Map<String, Value>,
        links: &'a TenantLinks<'a>,
    ) -> Result<Vec<Rule>, Problem> {
        let errors = Vec::new();
        let mut reader = Self { links, errors };
        let rules = reader.list(object.remove(RULES));
        reader.refuse_unknown(object, "");
        let (rules, errors) = reader.finish(rules);
        match errors.is_empty() {
            true => Ok(rules),
            false => Err(Problem::validation(errors)),
        }
    }

    /// The rules of a list; wrong ones are noted.
    fn list(&mut self, value: Option<Value>) -> Vec<Rule> {
        match value {
            Some(Value::Array(rules)) if rules.len() <= MAX_RULES => {
                let rules = rules.into_iter().enumerate();
                rules
                    .map(|(index, rule)| self.rule(rule, &format!("{RULES}[{index}]")))
                    .collect()
            }
            other => {
                let is_there = other.is_some();
                let must = "must be a list of at most 32 rules";
                self.refuse(RULES, if is_there { must } else { "is required" });
                Vec::new()
            }
        }
    }

    /// Checks them together; returns them with all that is wrong.
    fn finish(mut self, rules: Vec<Rule>) -> (Vec<Rule>, Vec<FieldError>) {
        if let Err(errors) = rules::encode(&rules) {
            let errors = errors.into_iter();
            let errors =
                errors.map(|error| FieldError::new(format!("{RULES}{}", error.path), error.reason));
            self.errors.extend(errors);
        }
        (rules, self.errors)
    }

    fn rule(&mut self, rule: Value, path: &str) -> Rule {
        let Value::Object(mut object) = rule else {
            self.refuse(path.to_owned(), "must be an object");
            let (target, conditions) = (PLACEHOLDER.to_owned(), vec![placeholder()]);
            return Rule { target, conditions };
        };
        let target = self.target(
            object.remove("longUrl").as_ref(),
            &format!("{path}.longUrl"),
        );
        let path_of = |name: &str| format!("{path}.{name}");
        let conditions = match object.remove("conditions") {
            Some(Value::Array(list)) if (1..=MAX_CONDITIONS).contains(&list.len()) => {
                let list = list.into_iter().enumerate();
                let at = |index| path_of(&format!("conditions[{index}]"));
                list.map(|(index, condition)| self.condition(condition, &at(index)))
                    .collect()
            }
            _ => {
                self.refuse(path_of("conditions"), "must be a list of 1 to 8 conditions");
                vec![placeholder()]
            }
        };
        // What `GET` answers can be sent back; the order of the list is what counts.
        object.remove("priority");
        self.refuse_unknown(object, &format!("{path}."));
        Rule { target, conditions }
    }

    /// A target, by the rules for the target of a link.
    fn target(&mut self, value: Option<&Value>, path: &str) -> String {
        match values::target(value.unwrap_or(&Value::Null), self.links) {
            Ok(target) => target.as_str().to_owned(),
            Err(reason) => {
                self.refuse(path.to_owned(), reason);
                PLACEHOLDER.to_owned()
            }
        }
    }

    fn condition(&mut self, condition: Value, path: &str) -> Condition {
        let Value::Object(mut object) = condition else {
            self.refuse(path.to_owned(), "must be an object");
            return placeholder();
        };
        let kind = object.remove("type");
        let kind = kind
            .as_ref()
            .and_then(Value::as_str)
            .and_then(ConditionType::named);
        let match_key = self.text(object.remove("matchKey"), format!("{path}.matchKey"));
        let match_value = self.text(object.remove("matchValue"), format!("{path}.matchValue"));
        self.refuse_unknown(object, &format!("{path}."));
        let (Ok(match_key), Ok(match_value)) = (match_key, match_value) else {
            return placeholder();
        };
        let Some(kind) = kind else {
            let words = ConditionType::ALL.iter().map(|kind| kind.word());
            let words = words.collect::<Vec<_>>().join(", ");
            self.refuse(format!("{path}.type"), format!("must be one of {words}"));
            return placeholder();
        };
        Condition {
            kind,
            match_key,
            match_value,
        }
    }

    fn text(&mut self, value: Option<Value>, path: String) -> Result<Option<String>, ()> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                self.refuse(path, "must be a string or null");
                Err(())
            }
        }
    }

    fn refuse_unknown(&mut self, object: Map<String, Value>, path: &str) {
        for (name, _) in object {
            self.refuse(format!("{path}{name}"), "is not known");
        }
    }

    fn refuse(&mut self, path: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) {
        self.errors.push(FieldError::new(path, reason));
    }
}

/// A target that is valid, in the place of one that is not.
const PLACEHOLDER: &str = "http://a/";

/// A condition that is valid, in the place of one that is not.
fn placeholder() -> Condition {
    Condition {
        kind: ConditionType::Weight,
        match_key: None,
        match_value: Some("1".to_owned()),
    }
}
