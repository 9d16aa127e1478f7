//! What is wrong with a configuration, with every wrong field at once.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("the configuration file {} is not valid TOML: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and cause.
        source: Box<toml::de::Error>,
    },
    /// Fields are unknown or have wrong values.
    #[error("the configuration is not valid{}", List(.0))]
    Fields(Vec<FieldProblem>),
}

/// A field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// The field with its table, for example `server.listen`, or the name of an environment variable.
    pub field: String,
    /// The value (never that of a secret), and what would be right.
    pub reason: String,
}

impl ConfigError {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Fields(vec![FieldProblem {
            field: field.into(),
            reason: reason.into(),
        }])
    }
}

struct List<'a>(&'a [FieldProblem]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|problem| write!(f, "\n  {}: {}", problem.field, problem.reason))
    }
}

/// Gathers what is wrong, field by field.
#[derive(Debug, Default)]
pub(super) struct Checks(Vec<FieldProblem>);

impl Checks {
    pub(super) fn refuse(&mut self, field: &str, reason: impl Into<String>) {
        self.0.push(FieldProblem {
            field: field.to_owned(),
            reason: reason.into(),
        });
    }

    /// Refuses a number outside of `range`.
    pub(super) fn range<N: PartialOrd + Display + Copy>(
        &mut self,
        field: &str,
        value: N,
        range: &RangeInclusive<N>,
    ) {
        if !range.contains(&value) {
            let (low, high) = (range.start(), range.end());
            self.refuse(field, format!("is {value}, must be {low} to {high}"));
        }
    }

    pub(super) fn into_result(self) -> Result<(), ConfigError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Fields(self.0))
        }
    }
}
