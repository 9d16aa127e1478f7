//! Reads the fields of an object, or the parameters of a query, one by one, and gathers all errors, so that one answer names
//! them all.

use crate::problem::{FieldError, Problem};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The reason for which a value is refused.
pub type Reason = Cow<'static, str>;

/// An object that is being read.
pub struct Fields {
    rest: Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields {
    /// Begins to read the fields of `object`.
    pub fn new(object: Map<String, Value>) -> Self {
        Self {
            rest: object,
            errors: Vec::new(),
        }
    }

    /// The parameters of a query, as strings. A parameter given twice is refused: readers that take the first and readers that
    /// take the last one would disagree.
    pub fn of_query(query: Option<&str>) -> Result<Self, Problem> {
        Self::of_query_with(query, &[])
    }

    /// The parameters of a query, of which `lists` may be given several times and are lists.
    pub fn of_query_with(query: Option<&str>, lists: &[&str]) -> Result<Self, Problem> {
        let mut object = Map::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let value = Value::String(value.into_owned());
            if lists.contains(&name.as_ref()) {
                let list = object.entry(name.into_owned());
                let list = list.or_insert_with(|| Value::Array(Vec::new()));
                if let Some(list) = list.as_array_mut() {
                    list.push(value);
                }
                continue;
            }
            if object.insert(name.clone().into_owned(), value).is_some() {
                let error = FieldError::new(name.into_owned(), "is given twice");
                return Err(Problem::validation(vec![error]));
            }
        }
        Ok(Self::new(object))
    }

    /// A required field. `None` if it is missing or wrong, which [`Fields::finish`] reports.
    pub fn required<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        match self.rest.remove(field) {
            Some(value) => self.parsed(field, &value, parse),
            None => {
                self.refuse(field, "is required");
                None
            }
        }
    }

    /// A field that may be missing or null.
    pub fn optional<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        self.nullable(field, parse).flatten()
    }

    /// A required field; if it is missing or wrong, the other fields are checked nevertheless.
    pub(crate) fn needed<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        self.required(field, parse)
    }

    /// A field of a merge patch that has no default to go back to.
    pub(crate) fn not_null<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        let change = self.nullable(field, parse);
        if matches!(change, Some(None)) {
            self.refuse(field, "must not be null");
        }
        change.flatten()
    }

    /// A field of a merge patch (RFC 7396): `None` if it is missing and stays as it is, `Some(None)` if it is null and is
    /// cleared.
    pub fn nullable<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<Option<T>> {
        match self.rest.remove(field)? {
            Value::Null => Some(None),
            value => self.parsed(field, &value, parse).map(Some),
        }
    }

    fn parsed<T>(
        &mut self,
        field: &'static str,
        value: &Value,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        parse(value)
            .map_err(|reason| self.errors.push(FieldError::new(field, reason)))
            .ok()
    }

    /// A field that may be missing or null, whose value may have several errors of its own.
    pub(crate) fn nested<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(Value) -> Result<T, Vec<FieldError>>,
    ) -> Option<T> {
        let parsed = parse(self.take(field)?);
        parsed.map_err(|errors| self.errors.extend(errors)).ok()
    }

    /// The value of a field that is parsed elsewhere; `None` if it is missing or null.
    pub(crate) fn take(&mut self, field: &'static str) -> Option<Value> {
        self.rest.remove(field).filter(|value| !value.is_null())
    }

    /// Adds an error of a field, which [`Fields::finish`] reports.
    pub fn refuse(&mut self, field: &'static str, reason: impl Into<Reason>) {
        self.errors.push(FieldError::new(field, reason));
    }

    /// Refuses the object if a field is wrong; fields that were not read are unknown.
    pub fn finish(mut self) -> Result<(), Problem> {
        let unknown = self
            .rest
            .into_iter()
            .map(|(name, _)| FieldError::new(name, "is not known"));
        self.errors.extend(unknown);
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(Problem::validation(self.errors))
        }
    }
}
