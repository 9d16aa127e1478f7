//! JSON objects passed by pages. They are read by hand: code derived by serde takes several kilobytes per type, all of which are
//! sent to browsers.

use serde_json::{Map, Value};

/// An object whose fields may be missing or, equivalently, null.
#[derive(Clone, Debug)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub(crate) fn read(json: &str) -> Result<Self, String> {
        match value(json)? {
            Value::Object(map) => Ok(Self(map)),
            _ => Err("must be an object".to_owned()),
        }
    }

    /// Refuses fields with other names.
    ///
    /// # Errors
    /// The first unknown field.
    pub(crate) fn only(&self, names: &[&str]) -> Result<(), String> {
        let unknown = self.0.keys().find(|name| !names.contains(&name.as_str()));
        unknown.map_or(Ok(()), |name| Err([name, ": is not known"].concat()))
    }

    /// A text; empty if the field is missing.
    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        self.text_or(name, "")
    }

    /// A text with a default.
    pub(crate) fn text_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, String> {
        let text = |value: &'a Value| value.as_str();
        Ok(self
            .field(name, text, "must be a string")?
            .unwrap_or(default))
    }

    /// A text; `None` if it is empty or missing.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<&str>, String> {
        self.text(name)
            .map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    /// A flag with a default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        let flag = self.field(name, Value::as_bool, "must be true or false")?;
        Ok(flag.unwrap_or(default))
    }

    /// A number with a default.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let number = self.field(name, Value::as_u64, "must be a whole number")?;
        Ok(number.unwrap_or(default))
    }

    /// A list of texts; empty if the field is missing.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&str>, String> {
        let texts = self.field(name, texts, "must be a list of strings")?;
        Ok(texts.unwrap_or_default())
    }

    fn field<'a, T>(
        &'a self,
        name: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
        must: &str,
    ) -> Result<Option<T>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => Err([name, ": ", must].concat()),
            },
        }
    }
}

fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

/// Parses any value.
///
/// # Errors
/// The reason why the text is not JSON.
pub(crate) fn value(json: &str) -> Result<Value, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_when_a_field_has_another_type_names_it() {
        let object = Object::read(r#"{"a":"x","b":true,"c":7,"d":["y"],"e":null,"f":""}"#).unwrap();
        assert_eq!(object.text("a"), Ok("x"));
        assert_eq!(object.text_or("e", "z"), Ok("z"));
        assert_eq!(object.optional("f"), Ok(None));
        assert_eq!(object.flag("b", false), Ok(true));
        assert_eq!(object.flag("none", true), Ok(true));
        assert_eq!(object.number("c", 1), Ok(7));
        assert_eq!(object.texts("d"), Ok(vec!["y"]));
        assert!(object.texts("e").unwrap().is_empty());
        for (refused, reason) in [
            (object.text("b").unwrap_err(), "b: must be a string"),
            (
                object.flag("a", true).unwrap_err(),
                "a: must be true or false",
            ),
            (
                object.number("a", 1).unwrap_err(),
                "a: must be a whole number",
            ),
            (
                object.texts("a").unwrap_err(),
                "a: must be a list of strings",
            ),
            (
                object.only(&["a", "b", "c", "d", "e"]).unwrap_err(),
                "f: is not known",
            ),
            (Object::read("[]").unwrap_err(), "must be an object"),
        ] {
            assert_eq!(refused, reason);
        }
        assert!(Object::read("{").is_err());
    }
}
