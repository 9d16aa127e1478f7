//! The error of an invalid configuration, with all invalid fields.

use edgelink_wire::settings::InvalidField;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// The error of an invalid configuration.
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
    /// The file is not TOML. The line is not shown, because it may hold a secret.
    #[error(
        "the configuration file {} is not valid TOML at line {line}, column {column}: {message}",
        path.display()
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The column, from 1 on.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// Fields are unknown or have invalid values.
    #[error("the configuration is not valid{}", List(.0))]
    Fields(Vec<InvalidField>),
}

impl ConfigError {
    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().map_or(0, |span| span.start);
        let before = text.get(..place).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: error.message().to_owned(),
        }
    }
}

struct List<'a>(&'a [InvalidField]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|problem| write!(f, "\n  {}: {}", problem.field, problem.reason))
    }
}
