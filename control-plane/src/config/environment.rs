//! The environment variables of a process, put over the configuration file.

mod variables;

use super::error::{Checks, ConfigError};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};
use variables::{Kind, OTHER_PREFIXES, OTHERS, VARIABLES};

const PREFIX: &str = "EDGELINK_";

/// The variables whose names start with `EDGELINK_`. Empty ones count as unset, for that is what deployment tools make of
/// a value that nobody gave.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. One that is not UTF-8 is taken with replacement characters, and so refused later.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .map(|(name, value)| {
                let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect()
    }

    /// All of them, by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names that look like ours and that nothing reads. They are worth a warning and no more: Kubernetes itself sets
    /// `EDGELINK_SERVICE_HOST` and the like for a service named edgelink.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| {
            !VARIABLES.iter().any(|(known, ..)| known == name)
                && !OTHERS.contains(name)
                && !OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
    }

    /// Puts the values over those of the file.
    pub(super) fn put_over(&self, table: &mut Table) -> Result<(), ConfigError> {
        let mut checks = Checks::default();
        for (name, section, field, kind) in VARIABLES {
            let Some(text) = self.0.get(*name) else {
                continue;
            };
            match value(text, *kind) {
                Ok(value) => put(table, section, field, value),
                Err(expected) => checks.refuse(name, format!("is '{text}', must be {expected}")),
            }
        }
        checks.into_result()
    }

    /// Every variable with its section and field.
    #[cfg(test)]
    pub(super) fn fields() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        VARIABLES
            .iter()
            .map(|(name, section, field, _)| (*name, *section, *field))
    }
}

/// The names alone: some of the values are secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let ours = variables
            .into_iter()
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        Self(ours.collect())
    }
}

fn value(text: &str, kind: Kind) -> Result<Value, &'static str> {
    match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Number => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| "a whole number"),
        Kind::Bool => text
            .parse()
            .map(Value::Boolean)
            .map_err(|_| "true or false"),
        Kind::List => {
            let items = text.split(',').map(str::trim).map(Value::from);
            Ok(Value::Array(items.collect()))
        }
    }
}

/// A section of the file that is no table stays, so that reading the configuration refuses it by its name.
fn put(table: &mut Table, section: &str, field: &str, value: Value) {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(field.to_owned(), value);
    }
}
