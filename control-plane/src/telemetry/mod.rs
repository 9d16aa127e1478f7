//! What operators see: log lines and metrics.

pub(crate) mod prometheus;
mod throttle;

pub(crate) use throttle::LogThrottle;

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Sends log lines to standard error from now on, for the whole process.
///
/// # Errors
/// [`TryInitError`] where somebody has set a logger already.
pub fn init_log(config: &LogConfig) -> Result<(), TryInitError> {
    // The directives were checked with the configuration.
    let filter = EnvFilter::new(&config.filter);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => log.finish().try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().try_init(),
    }
}
