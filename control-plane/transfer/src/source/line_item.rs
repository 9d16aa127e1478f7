//! A line as an item of an import.

use super::lines::{MAX_LINE_BYTES, RawLine};
use super::record::Item;
use serde_json::{Map, Value};

/// Fields of a link that the API returns and does not accept.
const SHOWN_ONLY: [&str; 3] = ["shortUrl", "updatedAt", "visits"];

/// The item of a line: a JSON object, or else a URL. `None` if the line is blank.
pub(super) fn parse(line: &RawLine) -> Option<Result<Item, String>> {
    if line.is_cut {
        return Some(Err(format!("is longer than {MAX_LINE_BYTES} bytes")));
    }
    let text = match std::str::from_utf8(&line.bytes) {
        Ok(text) => text.trim(),
        Err(error) => return Some(Err(format!("is not UTF-8: {error}"))),
    };
    if text.is_empty() {
        return None;
    }
    Some(object(text).and_then(item))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    if !text.starts_with('{') {
        let target = ("longUrl".to_owned(), Value::from(text));
        return Ok(Map::from_iter([target]));
    }
    serde_json::from_str(text).map_err(|error| format!("is not valid JSON: {error}"))
}

/// The item of an object, which may be a link as returned by the API.
fn item(mut object: Map<String, Value>) -> Result<Item, String> {
    for field in SHOWN_ONLY {
        object.remove(field);
    }
    let had_password = object.remove("hasPassword") == Some(Value::Bool(true));
    if had_password && !object.contains_key("password") {
        let reason =
            "has a password, which an export does not hold: add 'password', or null for none";
        return Err(reason.to_owned());
    }
    // A link that was exported keeps its code.
    if let Some(code) = object.remove("shortCode") {
        object.entry("customSlug").or_insert(code);
    }
    Ok(Item {
        fields: object,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Format, LinkFile, Mapping};
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn item(bytes: &[u8], mapping: &Mapping) -> Option<Result<Value, String>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mapping = Mapping {
            format: Some(Format::Edgelink),
            encoding: Some(encoding_rs::UTF_8),
            ..mapping.clone()
        };
        let source = LinkFile::of(file.path(), &mapping).unwrap().unwrap();
        let record = source.records(0).unwrap().next().unwrap().unwrap();
        let item = source.items(&record, 0).pop();
        item.map(|item| item.map(|item| Value::Object(item.fields)))
    }

    #[test]
    fn line_when_a_url_or_an_object_is_an_item() {
        let none = Mapping::default();
        let url = item(b" https://example.com/a b ", &none);
        assert_eq!(
            url,
            Some(Ok(json!({ "longUrl": "https://example.com/a b" })))
        );
        let object = item(br#"{"longUrl":"https://example.com/","tags":["x"]}"#, &none);
        let expected = json!({ "longUrl": "https://example.com/", "tags": ["x"] });
        assert_eq!(object, Some(Ok(expected)));
        assert_eq!(item(b" \t", &none), None);
    }

    #[test]
    fn exported_line_when_imported_keeps_or_drops_its_history() {
        let line = br#"{"shortCode":"a","shortUrl":"https://x/a","longUrl":"https://e/","createdAt":"t","updatedAt":"t","importedVisits":1}"#;
        let without = Mapping {
            is_without_history: true,
            ..Mapping::default()
        };
        let expected = json!({ "customSlug": "a", "longUrl": "https://e/" });
        assert_eq!(item(line, &without), Some(Ok(expected)));
        let expected = json!({ "customSlug": "a", "longUrl": "https://e/", "createdAt": "t", "importedVisits": 1 });
        assert_eq!(item(line, &Mapping::default()), Some(Ok(expected)));
    }

    #[test]
    fn link_when_its_password_is_not_given_is_refused() {
        let none = Mapping::default();
        let line = br#"{"longUrl":"https://e/","hasPassword":true}"#;
        let refused = item(line, &none).unwrap().unwrap_err();
        assert!(refused.contains("password"), "{refused}");
        let line = br#"{"longUrl":"https://e/","hasPassword":false}"#;
        let expected = json!({ "longUrl": "https://e/" });
        assert_eq!(item(line, &none), Some(Ok(expected)));
        let line = br#"{"longUrl":"https://e/","hasPassword":true,"password":"p"}"#;
        let expected = json!({ "longUrl": "https://e/", "password": "p" });
        assert_eq!(item(line, &none), Some(Ok(expected)));
    }

    #[test]
    fn line_when_mapped_is_filled_in_and_changes_domain() {
        let mapping = Mapping {
            domain: Some("a.example".to_owned()),
            domains: [("b.example".to_owned(), "c.example".to_owned())].into(),
            find_if_exists: true,
            ..Mapping::default()
        };
        let expected =
            json!({ "longUrl": "https://e/", "domain": "a.example", "findIfExists": true });
        assert_eq!(item(b"https://e/", &mapping), Some(Ok(expected)));
        let line = br#"{"longUrl":"https://e/","domain":"B.example","findIfExists":false}"#;
        let expected =
            json!({ "longUrl": "https://e/", "domain": "c.example", "findIfExists": false });
        assert_eq!(item(line, &mapping), Some(Ok(expected)));
    }

    #[test]
    fn line_when_malformed_says_why() {
        for (bytes, part) in [
            (&b"\xff"[..], "UTF-8"),
            (b"{\"longUrl\":", "JSON"),
            (b"{} x", "JSON"),
        ] {
            let reason = item(bytes, &Mapping::default()).unwrap().unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
