//! System calls.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use edgelink_filter_core::random;
use edgelink_wire::clicks::WorkerId;
use std::io;

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

/// Random bytes of the system. Rust's own hasher draws its keys once in a thread, and the processes that a host forks have the same.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: there is room for as many bytes.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    (usize::try_from(count) == Ok(N)).then_some(bytes)
}

/// A random name: of Rust's hasher if the system gives none.
pub(crate) fn random_name() -> WorkerId {
    random().unwrap_or_else(random::name)
}

/// Milliseconds since boot, including suspension (`CLOCK_BOOTTIME`, clock_gettime(2)).
pub(crate) fn millis_since_boot() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system writes into `time`, which lives for the call. It cannot fail: Linux has had this clock since 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    seconds
        .saturating_mul(1_000)
        .saturating_add(nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_when_read_counts_from_boot() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let (first, second) = (millis_since_boot(), millis_since_boot());
        assert!(first <= second);
        assert!(
            second as f64 / 1_000.0 + 0.01 >= uptime,
            "{second:?} {uptime}"
        );
    }
}
