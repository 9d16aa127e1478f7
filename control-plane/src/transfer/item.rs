//! A line as an item of a bulk request.

use super::lines::{Line, MAX_LINE_BYTES};
use serde_json::{Map, Value};

/// Fields of a link that the API shows and does not accept.
const SHOWN_ONLY: [&str; 3] = ["shortUrl", "createdAt", "updatedAt"];

/// Fields of lines that do not have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Defaults {
    pub(super) domain: Option<String>,
    pub(super) find_if_exists: Option<bool>,
}

/// The item of a line: a JSON object, or else a URL. `None` if the line is blank.
pub(super) fn parse(
    line: &Line,
    defaults: &Defaults,
) -> Option<Result<Map<String, Value>, String>> {
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
    Some(object(text).and_then(|object| complete(object, defaults)))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    if !text.starts_with('{') {
        let target = ("longUrl".to_owned(), Value::from(text));
        return Ok(Map::from_iter([target]));
    }
    serde_json::from_str(text).map_err(|error| format!("is not valid JSON: {error}"))
}

fn complete(
    mut object: Map<String, Value>,
    defaults: &Defaults,
) -> Result<Map<String, Value>, String> {
    for field in SHOWN_ONLY {
        object.remove(field);
    }
    // A link that was exported keeps its code.
    if let Some(code) = object.remove("shortCode") {
        object.entry("customSlug").or_insert(code);
    }
    if let Some(domain) = &defaults.domain {
        let domain = Value::from(domain.as_str());
        object.entry("domain").or_insert(domain);
    }
    if let Some(find) = defaults.find_if_exists {
        object.entry("findIfExists").or_insert(Value::from(find));
    }
    let size = serde_json::to_vec(&object).map_or(0, |bytes| bytes.len());
    if size > MAX_LINE_BYTES {
        return Err(format!("is longer than {MAX_LINE_BYTES} bytes"));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(bytes: &[u8], defaults: &Defaults) -> Option<Result<Value, String>> {
        let line = Line {
            number: 1,
            bytes: bytes.to_vec(),
            is_cut: false,
            end: 0,
        };
        parse(&line, defaults).map(|item| item.map(Value::Object))
    }

    #[test]
    fn a_line_is_a_url_or_an_object() {
        let none = Defaults::default();
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
    fn an_exported_line_can_be_imported() {
        let line = br#"{"shortCode":"a","shortUrl":"https://x/a","longUrl":"https://e/","createdAt":"t","updatedAt":"t"}"#;
        let expected = json!({ "customSlug": "a", "longUrl": "https://e/" });
        assert_eq!(item(line, &Defaults::default()), Some(Ok(expected)));
    }

    #[test]
    fn defaults_fill_fields_that_a_line_does_not_have() {
        let defaults = Defaults {
            domain: Some("a.example".to_owned()),
            find_if_exists: Some(true),
        };
        let expected =
            json!({ "longUrl": "https://e/", "domain": "a.example", "findIfExists": true });
        assert_eq!(item(b"https://e/", &defaults), Some(Ok(expected)));
        let line = br#"{"longUrl":"https://e/","domain":"b.example","findIfExists":false}"#;
        let expected =
            json!({ "longUrl": "https://e/", "domain": "b.example", "findIfExists": false });
        assert_eq!(item(line, &defaults), Some(Ok(expected)));
    }

    #[test]
    fn a_line_that_is_no_item_says_why() {
        for (bytes, part) in [
            (&b"\xff"[..], "UTF-8"),
            (b"{\"longUrl\":", "JSON"),
            (b"{} x", "JSON"),
        ] {
            let reason = item(bytes, &Defaults::default()).unwrap().unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
