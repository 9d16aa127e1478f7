//! The processor time of a process, from /proc.

use std::fs;
use std::time::Duration;

/// User and system time of all threads of the process so far (proc(5): fields 14 and 15 of `stat`).
pub(crate) fn of(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // The name of the program, in parentheses, may hold anything; the fields are counted behind it.
    let (_, fields) = text.rsplit_once(") ").expect("a stat line");
    let mut times = fields.split(' ').skip(11);
    let mut ticks = || -> u64 {
        times
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a time")
    };
    let total = ticks() + ticks();
    Duration::from_secs_f64(total as f64 / rustix::param::clock_ticks_per_second() as f64)
}
