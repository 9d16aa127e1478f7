//! Requests as Shlink's clients write them, in the form that the admin API reads: what Shlink makes of values before it looks
//! at them, and PHP's spellings of lists.

use crate::app::App;
use crate::auth::Caller;
use axum::extract::{FromRequestParts, Path};
use edgelink_model::text::cut;
use edgelink_model::timestamp::lenient;
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::link_list;
use edgelink_service::problem::{FieldError, Kind, Problem};
use edgelink_service::tenant_links::TenantLinks;
use edgelink_service::values;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::{Code, Domain, LinkKey};
use http::request::Parts;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Name of the default domain in filters.
const DEFAULT_DOMAIN: &str = "DEFAULT";

/// The text in the path, percent-decoded and not checked, and the parameters of the query.
pub(super) struct Named(pub(super) String, pub(super) Fields);

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let fields = query(parts.uri.query(), &[])?;
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(text) = path.map_err(|_| Problem::new(Kind::NotFound))?;
        Ok(Self(text, fields))
    }
}

/// The link that path and query name, and the other parameters of the query. An unknown domain has no links.
pub(super) struct NamedLink(pub(super) LinkKey, pub(super) Fields);

impl FromRequestParts<Arc<App>> for NamedLink {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Problem::new(Kind::Unauthorized))?;
        let links = &app.links.of_tenant(&caller);
        let Named(code, mut fields) = Named::from_request_parts(parts, app).await?;
        let not_found = || Problem::new(Kind::LinkNotFound);
        let code = Code::parse(&code).map_err(|_| not_found())?;
        let domain = match fields.optional("domain", values::string) {
            Some(text) => domain(&Value::from(text), links).map_err(|_| not_found())?,
            None => links.default_domain().clone(),
        };
        Ok(Self(LinkKey::new(domain, code), fields))
    }
}

/// A domain, or `DEFAULT`.
pub(super) fn domain(value: &Value, links: &TenantLinks<'_>) -> Result<Domain, Reason> {
    match value.as_str() {
        Some(DEFAULT_DOMAIN) => Ok(links.default_domain().clone()),
        _ => values::domain(value, links),
    }
}

/// The parameters of a query, of which `lists` are lists. Parameters without a value count as missing, and PHP's `tags[0]` as
/// `tags[]`.
pub(super) fn query(query: Option<&str>, lists: &[&str]) -> Result<Fields, Problem> {
    let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pairs = pairs.filter(|(_, value)| !value.is_empty());
    let pairs = pairs.map(|(name, value)| {
        let list = name.strip_suffix(']').and_then(|name| name.split_once('['));
        match list {
            Some((list, index)) if index.bytes().all(|digit| digit.is_ascii_digit()) => {
                (format!("{list}[]"), value)
            }
            _ => (name.into_owned(), value),
        }
    });
    let plain = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    Fields::of_query_with(Some(&plain), lists)
}

/// A flag, in PHP's spellings too.
pub(super) fn flag(value: &Value) -> Result<bool, Reason> {
    match values::text(value)? {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => values::query_flag(value),
    }
}

/// A time in unix seconds: of RFC 3339, or a date alone, or without an offset, or with one without a colon.
pub(super) fn time(value: &Value) -> Result<u64, Reason> {
    let text = values::text(value)?;
    let lenient = lenient::parsed(text).and_then(|time| u64::try_from(time.unix_timestamp()).ok());
    lenient.map_or_else(|| values::time(value), Ok)
}

/// A tag as Shlink stores it: trimmed, in lower case, with dashes for spaces.
fn tag(text: &str) -> String {
    text.trim().to_lowercase().replace(' ', "-")
}

/// The tags of a filter, as Shlink stores them.
pub(super) fn filter_tags(value: &Value) -> Result<Vec<String>, Reason> {
    link_list::filter_tags(&tags(value))
}

fn tags(value: &Value) -> Value {
    let normal = |value: &Value| match value {
        Value::String(text) => Value::from(tag(text)),
        other => other.clone(),
    };
    match value {
        Value::Array(tags) => tags.iter().map(normal).collect(),
        other => other.clone(),
    }
}

/// Changes the fields of a short URL as Shlink does: it cuts titles, makes slugs and tags of texts, reads more forms of times,
/// and takes an empty text for none. `validateUrl`, which it has no more, is dropped.
fn normalize(object: &mut Map<String, Value>) {
    object.remove("validateUrl");
    if let (Some(Value::String(prefix)), Some(Value::String(slug))) =
        (object.get("pathPrefix"), object.get("customSlug"))
    {
        let slug = format!("{prefix}{slug}");
        object.insert("customSlug".to_owned(), slug.into());
        object.remove("pathPrefix");
    }
    for name in ["title", "domain", "validSince", "validUntil", "customSlug"] {
        if object.get(name) == Some(&Value::from("")) {
            object.insert(name.to_owned(), Value::Null);
        }
    }
    let mut change = |name: &str, changed: fn(&str) -> Option<String>| {
        let text = object.get(name).and_then(Value::as_str);
        if let Some(changed) = text.and_then(changed) {
            object.insert(name.to_owned(), changed.into());
        }
    };
    for name in ["validSince", "validUntil"] {
        change(name, |text| lenient::parsed(text).and_then(lenient::shown));
    }
    change("title", |title| {
        Some(cut(title, values::MAX_TITLE_LENGTH).trim().to_owned())
    });
    change("customSlug", |slug| {
        Some(slug.trim().replace([' ', '/'], "-"))
    });
    if let Some(listed) = object.get("tags") {
        let normal = tags(listed);
        object.insert("tags".to_owned(), normal);
    }
}

/// Parses the number of a page, or of its items.
pub(super) fn number(value: &Value, most: usize) -> Result<usize, Reason> {
    let text = values::text(value)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| Reason::Owned(format!("must be a number of 1 to {most}")))
}

/// Brings the fields of a short URL into the form of the admin API, and takes out what it does not have. Returns the error
/// if a field asks for anything but the behaviour we have anyway.
pub(super) fn take_foreign(
    object: &mut Map<String, Value>,
    links: &LinksConfig,
) -> Option<FieldError> {
    normalize(object);
    let length = object.remove("shortCodeLength")?;
    if length.is_null() || length.as_u64() == Some(links.code_length.into()) {
        return None;
    }
    let reason = format!(
        "must be {}, the length of all codes here",
        links.code_length
    );
    Some(FieldError::new("shortCodeLength", reason))
}

/// Adds the error of another field to the result of reading a request.
pub(super) fn unless_wrong<T>(
    error: Option<FieldError>,
    read: Result<T, Problem>,
) -> Result<T, Problem> {
    let Some(error) = error else { return read };
    match read {
        Err(problem) if problem.kind() == Kind::Validation => Err(problem.and_error(error)),
        Err(problem) => Err(problem),
        Ok(_) => Err(Problem::validation(vec![error])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_when_phps_is_read_as_its_lists() {
        let read = |text: &str| query(Some(text), &["tags[]"]).ok();
        for text in [
            "tags[0]=a&tags[1]=b&x=",
            "tags%5B%5D=a&tags%5B12%5D=b",
            "tags[]=a&tags[]=b",
        ] {
            let mut fields = read(text).unwrap();
            let tags = fields.optional("tags[]", filter_tags);
            assert_eq!(tags, Some(vec!["a".to_owned(), "b".to_owned()]), "{text}");
            assert!(fields.finish().is_ok());
        }
        let other = read("tags[a]=b").unwrap();
        assert!(other.finish().is_err());
    }

    #[test]
    fn short_url_when_normalized_is_as_shlink_makes_it() {
        let Value::Object(mut object) = serde_json::json!({
            "title": format!("  {}", "ü".repeat(600)), "customSlug": " my slug/x ", "domain": "", "validateUrl": true,
            "tags": [" Spring Sale", "B", 1], "validUntil": "2030-12-12", "validSince": "2020-01-01T00:00:00+0100",
        }) else {
            unreachable!("an object")
        };
        normalize(&mut object);
        let expected = serde_json::json!({
            "title": "ü".repeat(510), "customSlug": "my-slug-x", "domain": null, "tags": ["spring-sale", "b", 1],
            "validUntil": "2030-12-12T00:00:00Z", "validSince": "2020-01-01T00:00:00+01:00",
        });
        assert_eq!(Value::Object(object), expected);
    }

    #[test]
    fn number_when_out_of_range_is_refused() {
        let read = |text: &str| number(&Value::from(text), 20).ok();
        assert_eq!(read("1"), Some(1));
        assert_eq!(read("20"), Some(20));
        for text in ["", "0", "21", "-1", "+1", "1.0", "99999999999999999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
