//! Processes by their numbers.

use std::path::Path;

/// The number of this process.
pub(crate) fn own() -> u64 {
    std::process::id().into()
}

/// True if there is a process with that number.
pub(crate) fn is_alive(process: u64) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}
