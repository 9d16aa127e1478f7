//! The fields that a form has sent.

use axum::extract::FromRequestParts;
use edgelink_service::caller::Caller;
use edgelink_service::idempotency::{RequestId, Route};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::revisions::Revisions;
use http::request::Parts;
use serde_json::Value;
use std::sync::Arc;

/// The field of a form with the token of its browser.
pub(super) const FORM_TOKEN: &str = "csrf";

/// The fields of a form, or the parameters of a query, in order. `guard` puts a form into the extensions of its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Arc<[(String, String)]>);

impl Form {
    /// Reads the body of a form, or a query.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(text);
        Self(pairs.into_owned().collect())
    }

    /// The form of these fields.
    pub(super) fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into())
    }

    /// The first value of a field; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(field, _)| field == name);
        values.map(|(_, value)| value.as_str())
    }

    /// True if a box is ticked.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name) == "on"
    }

    /// A text, without spaces around it; null if it is empty.
    pub(crate) fn text(&self, name: &str) -> Value {
        match self.get(name).trim() {
            "" => Value::Null,
            text => text.into(),
        }
    }

    /// A number; null if it is empty. A text that is not a number stays a text, so that the API refuses it by its field's name.
    pub(super) fn number(&self, name: &str) -> Value {
        match self.get(name).trim() {
            "" => Value::Null,
            text => text
                .parse::<u64>()
                .map_or_else(|_| text.into(), Value::from),
        }
    }

    /// Items that commas or lines separate; null if there are none.
    pub(super) fn list(&self, name: &str) -> Value {
        let items = self.get(name).split([',', '\n']).map(str::trim);
        let items: Vec<Value> = items
            .filter(|item| !item.is_empty())
            .map(Value::from)
            .collect();
        if items.is_empty() {
            Value::Null
        } else {
            items.into()
        }
    }

    /// A time of UTC, converted from the format of browsers, such as `2026-11-22T10:00`, to the format of the API.
    pub(super) fn time(&self, name: &str) -> Value {
        let text = self.get(name).trim();
        match text.len() {
            0 => Value::Null,
            16 => format!("{text}:00Z").into(),
            19 => format!("{text}Z").into(),
            _ => text.into(),
        }
    }

    /// The lines that are not empty; null if there are none.
    pub(super) fn lines(&self, name: &str) -> Value {
        let lines = self.get(name).lines().map(str::trim);
        let lines: Vec<Value> = lines
            .filter(|line| !line.is_empty())
            .map(Value::from)
            .collect();
        if lines.is_empty() {
            Value::Null
        } else {
            lines.into()
        }
    }

    /// The revision of a link that the form began with, or the later one that was shown to the user, who wants to overwrite it.
    pub(super) fn revisions(&self) -> Revisions {
        let name = if self.is_on("overwrite") {
            "storedTag"
        } else {
            "entityTag"
        };
        Revisions::of_tags(Some(self.get(name)).filter(|tag| !tag.is_empty()))
    }

    /// The id of a form's request, which stays the same if the form is sent repeatedly.
    pub(super) fn once(&self, caller: &Caller) -> Result<Option<RequestId>, Problem> {
        match self.get("once") {
            "" => Ok(None),
            key => RequestId::new(key, caller, Route::One, &[]).map(Some),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let form = parts.extensions.get::<Self>();
        form.cloned().ok_or_else(|| Problem::new(Kind::InvalidBody))
    }
}

/// The parameters of a page's address.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(pub(super) Form);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(Form::parse(
            parts.uri.query().unwrap_or_default().as_bytes(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn form_value_when_read_has_the_form_of_the_api() {
        let form = Form::parse(b"a=+x+&b=&c=7&d=seven&e=x,+y%0D%0Az,&f=2026-11-22T10:00&g=2026-11-22T10:00:01&h=soon&i=on");
        assert_eq!((form.text("a"), form.text("b")), (json!("x"), Value::Null));
        assert_eq!(
            (form.number("c"), form.number("d")),
            (json!(7), json!("seven"))
        );
        assert_eq!(
            (form.list("e"), form.list("b")),
            (json!(["x", "y", "z"]), Value::Null)
        );
        assert_eq!(form.time("f"), "2026-11-22T10:00:00Z");
        assert_eq!(form.time("g"), "2026-11-22T10:00:01Z");
        assert_eq!(
            (form.time("h"), form.time("b")),
            (json!("soon"), Value::Null)
        );
        assert!(form.is_on("i") && !form.is_on("a") && !form.is_on("z"));
    }
}
