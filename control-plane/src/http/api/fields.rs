//! Reads the fields of an object one by one and gathers everything that is wrong with them, so that a client learns of all
//! its mistakes at once.

use crate::problem::{FieldError, Problem};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What is wrong with a value.
pub(crate) type Reason = Cow<'static, str>;

/// An object that is being read.
pub(crate) struct Fields {
    rest: Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields {
    pub(crate) fn new(object: Map<String, Value>) -> Self {
        Self {
            rest: object,
            errors: Vec::new(),
        }
    }

    /// A field that must be there. Nothing where it is missing or wrong, which [`Fields::finish`] will say.
    pub(crate) fn required<T>(
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
    pub(crate) fn optional<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, Reason>,
    ) -> Option<T> {
        self.change(field, parse).flatten()
    }

    /// A field of a merge patch (RFC 7396): nothing where it is missing and so to be left as it is, `Some(None)` where it is
    /// null and so to be cleared.
    pub(crate) fn change<T>(
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

    pub(crate) fn refuse(&mut self, field: &'static str, reason: impl Into<Reason>) {
        self.errors.push(FieldError::new(field, reason));
    }

    /// Everything that is wrong; what nobody has read is unknown.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
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
