//! When to stop.

use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Ends with the first SIGTERM or SIGINT.
///
/// # Errors
/// Where the system does not let us wait for signals.
pub(crate) fn signals() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
