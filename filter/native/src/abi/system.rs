//! System calls.

use std::io;
use std::time::Duration;

/// Switches this thread to batch scheduling (`SCHED_BATCH`, sched(7)): it gets its share of the processors, and an idle one at
/// once, but preempts no other thread when it is woken.
///
/// # Errors
/// If the system refuses, for example in a sandbox.
pub(crate) fn run_as_batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live for the call, which changes this thread alone.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Time since boot, including suspension (`CLOCK_BOOTTIME`, clock_gettime(2)).
pub(crate) fn since_boot() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system writes into `time`, which lives for the call. It cannot fail: Linux has had this clock since 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_when_read_counts_from_boot() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let (first, second) = (since_boot(), since_boot());
        assert!(first <= second);
        assert!(second.as_secs_f64() >= uptime, "{second:?} {uptime}");
    }
}
