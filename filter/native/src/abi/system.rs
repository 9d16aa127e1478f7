//! What the system is asked.

use std::io;

/// Has the system run this thread behind those that it finds at work (`SCHED_BATCH`, sched(7)): it gets its share of the processors,
/// and one that is idle at once, but interrupts no other thread when it is woken.
///
/// # Errors
/// If the system refuses, as a sandbox may.
pub(crate) fn run_as_batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live for the call, which changes this thread alone.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
