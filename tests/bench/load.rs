//! Load: wrk for as much as a server takes, and our own client for a rate that is kept.

use crate::process::others;
use edgelink_load::{AskReport, AskSpec, SimulateReport, SimulateSpec};
use edgelink_tests::stack::load_binary;
use serde::{Serialize, de::DeserializeOwned};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Connections of all kinds of load.
pub(crate) const CONNECTIONS: usize = 32;

/// Asks for all paths of a file in turn.
const SCRIPT: &str = r#"
local requests, n = {}, 0
function init(arguments)
  for path in io.lines(arguments[1]) do requests[#requests + 1] = wrk.format("GET", path) end
end
function request()
  n = n + 1
  if n > #requests then n = 1 end
  return requests[n]
end
"#;

/// What wrk has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saturated {
    pub(crate) answers: u64,
    pub(crate) rate: f64,
}

/// As many requests for the paths of a file as there are answers to.
///
/// # Panics
/// Where an answer is of another kind than `status`: 2xx and 3xx, or all others.
pub(crate) fn saturate(
    address: SocketAddr,
    paths: &Path,
    status: u16,
    time: Duration,
) -> Saturated {
    let script = paths.with_extension("lua");
    std::fs::write(&script, SCRIPT).expect("a script");
    let output = wrk(time)
        .arg("-s")
        .arg(&script)
        .arg(format!("http://{address}/"))
        .arg("--")
        .arg(paths)
        .output();
    let text = text_of(&output.expect("wrk"));
    let answers = requests(&text);
    let refused = text.lines().find_map(|line| {
        let (_, count) = line.split_once("Non-2xx or 3xx responses: ")?;
        count.trim().parse::<u64>().ok()
    });
    let expected = (status >= 400).then_some(answers);
    assert_eq!(refused, expected, "{text}");
    assert!(!text.contains("Socket errors"), "{text}");
    Saturated {
        answers,
        rate: answers as f64 / time.as_secs_f64(),
    }
}

/// wrk with one thread, not where the servers are.
pub(crate) fn wrk(time: Duration) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["-c", &others(), "wrk", "-t1", "--latency"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs()));
    command
}

/// What a successful program has printed.
pub(crate) fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// From `  123456 requests in 3.00s, 23.45MB read`.
pub(crate) fn requests(text: &str) -> u64 {
    let line = text.lines().find(|line| line.contains(" requests in "));
    let count = line.and_then(|line| line.split_whitespace().next());
    let count = count.and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no number of requests in {text}"))
}

/// Requests by our own client; every answer has to be there, and right.
pub(crate) fn ask(spec: &AskSpec) -> AskReport {
    let report: AskReport = run("ask", spec);
    assert_eq!((report.wrong, report.unanswered), (0, 0), "{report:?}");
    report
}

/// Traffic through the logic alone.
pub(crate) fn simulate(spec: &SimulateSpec) -> SimulateReport {
    run("simulate", spec)
}

fn run<R: DeserializeOwned>(what: &str, spec: &impl Serialize) -> R {
    let spec = serde_json::to_string(spec).expect("JSON");
    let program: PathBuf = load_binary();
    let output = Command::new("taskset")
        .args(["-c", &others()])
        .arg(program)
        .args([what, &spec])
        .output();
    serde_json::from_str(&text_of(&output.expect("taskset"))).expect("a report")
}
