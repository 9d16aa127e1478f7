//! Resources used by processes, from /proc, and their processors.

use edgelink_tests::stack::resident_bytes;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// User and system time of all threads of the processes so far (proc(5): fields 14 and 15 of `stat`).
pub(crate) fn cpu_time(processes: &[u32]) -> Duration {
    processes.iter().map(|process| cpu_time_of(*process)).sum()
}

fn cpu_time_of(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // The name of the program, in parentheses, may contain anything; the fields are counted after it.
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

/// Resident memory of the processes, in bytes.
pub(crate) fn resident(processes: &[u32]) -> u64 {
    processes.iter().copied().map(resident_bytes).sum()
}

/// Number of open files of a process, connections included.
pub(crate) fn open_files(process: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    files.expect("a process").count()
}

/// The processors without servers, in the syntax of taskset(1); on a machine with one processor, that one.
pub(crate) fn others() -> String {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => "0".to_owned(),
        processors => format!("1-{}", processors - 1),
    }
}

/// Moves all threads of processes to these processors.
pub(crate) fn pin(processes: &[u32], processors: &str) {
    for process in processes {
        let status = Command::new("taskset")
            .args(["-a", "-c", "-p", processors, &process.to_string()])
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("taskset").success());
    }
}
