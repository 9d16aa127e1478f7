//! Load, by wrk.

use std::process::Command;
use std::time::Duration;

const CONNECTIONS: u32 = 32;

/// Requests `url` for so long, from the processors that servers do not run on, and gives the number of answers.
///
/// # Panics
/// Where wrk is missing, or any answer is no redirect.
pub(crate) fn load(url: &str, time: Duration, processors: &str) -> u64 {
    let output = Command::new("taskset")
        .args(["-c", processors, "wrk", "-t1"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs()))
        .arg(url)
        .output()
        .expect("wrk");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(
        !text.contains("Non-2xx") && !text.contains("Socket errors"),
        "{text}"
    );
    answers(&text).unwrap_or_else(|| panic!("no number of requests in {text}"))
}

/// From `  123456 requests in 3.00s, 23.45MB read`.
fn answers(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok()
}
