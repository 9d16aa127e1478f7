//! Differences between link contents, for the audit log: properties as the API names them, with their values before and after.

use super::model::LinkContent;
use crate::timestamp;
use serde_json::{Map, Value, json};

/// Properties whose values stay out of the log, which only shows if there is one.
const SECRETS: [&str; 1] = ["password"];

/// The properties in which two contents differ, as `{"title": {"from": null, "to": "a"}}`.
pub fn difference(from: &LinkContent, to: &LinkContent) -> Value {
    let (from, mut to) = (properties(from), properties(to));
    let mut changed = Map::new();
    for (name, from) in from {
        let to = to.remove(&name).unwrap_or_default();
        if from != to {
            insert(&mut changed, name, from, to);
        }
    }
    for (name, to) in to {
        insert(&mut changed, name, Value::Null, to);
    }
    Value::Object(changed)
}

fn insert(changed: &mut Map<String, Value>, name: String, from: Value, to: Value) {
    let (from, to) = if SECRETS.contains(&name.as_str()) {
        (json!(!from.is_null()), json!(!to.is_null()))
    } else {
        (from, to)
    };
    changed.insert(name, json!({ "from": from, "to": to }));
}

fn properties(content: &LinkContent) -> Map<String, Value> {
    let LinkContent {
        target,
        redirect,
        state,
        valid_since,
        valid_until,
        forward_query,
        title,
        tags,
        external_id,
        archived,
        details,
    } = content;
    let mut properties = match serde_json::to_value(details) {
        Ok(Value::Object(details)) => details,
        _ => Map::new(),
    };
    properties.remove("kept");
    if let Some(Value::Bool(spares_bots)) = properties.remove("sparesBots") {
        properties.insert("botsUseVisits".to_owned(), json!(!spares_bots));
    }
    for (name, value) in [
        ("longUrl", json!(target.as_str())),
        ("redirectStatus", json!(redirect.code())),
        ("state", json!(state.as_str())),
        (
            "validSince",
            json!(valid_since.map(timestamp::from_seconds)),
        ),
        (
            "validUntil",
            json!(valid_until.map(timestamp::from_seconds)),
        ),
        ("forwardQuery", json!(forward_query)),
        ("title", json!(title)),
        ("tags", json!(tags)),
        ("externalId", json!(external_id)),
        ("archived", json!(archived)),
    ] {
        properties.insert(name.to_owned(), value);
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::target::TargetUrl;

    #[test]
    fn difference_when_fields_change_names_both_values() {
        let old = LinkContent::to(TargetUrl::from_store("https://x.example/"));
        assert_eq!(difference(&old, &old), json!({}));
        let mut new = LinkContent::to(TargetUrl::from_store("https://y.example/"));
        new.valid_until = Some(0);
        new.details.notes = Some("n".to_owned());
        let changed = difference(&old, &new);
        let expected = json!({
            "longUrl": { "from": "https://x.example/", "to": "https://y.example/" },
            "validUntil": { "from": null, "to": "1970-01-01T00:00:00Z" },
            "notes": { "from": null, "to": "n" },
        });
        assert_eq!(changed, expected);
        let back = difference(&new, &old);
        assert_eq!(back["notes"], json!({ "from": "n", "to": null }));
    }

    #[test]
    fn difference_when_field_is_secret_hides_its_values() {
        let mut changed = Map::new();
        let secret = |text: &str| json!(text);
        insert(
            &mut changed,
            "password".to_owned(),
            secret("a"),
            secret("b"),
        );
        let expected = json!({ "password": { "from": true, "to": true } });
        assert_eq!(Value::Object(changed), expected);
    }
}
