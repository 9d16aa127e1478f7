//! What is logged, and how.

use super::error::Checks;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct LogConfig {
    /// `text` for people, or `json`: one object a line. Default `text`. Both go to standard error.
    pub format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or directives as RUST_LOG has them, for example
    /// `info,edgelink_control_plane=debug`. Default `info`; with `debug` every request is a line.
    pub filter: String,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            filter: "info".to_owned(),
        }
    }
}

impl LogConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        if let Err(error) = EnvFilter::try_new(&self.filter) {
            let filter = &self.filter;
            checks.refuse(
                "log.filter",
                format!(
                    "is '{filter}', must be a level or directives such as 'info,sqlx=warn': {error}"
                ),
            );
        }
    }
}
