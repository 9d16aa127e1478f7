//! Load: wrk at saturation, oha at a fixed rate.

use crate::process::others;
use crate::targets::Target;
use edgelink_simulation::{SimulateReport, SimulateSpec};
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::stack::{root, simulation_binary};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Connections for all kinds of load.
pub(crate) const CONNECTIONS: usize = 32;

/// Results of wrk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saturated {
    pub(crate) answers: u64,
    pub(crate) rate: f64,
}

/// Sends requests for the paths of a target, in turn, as fast as they are answered.
///
/// # Panics
/// Panics if an answer is of another kind than the target's status: 2xx and 3xx, or all others.
pub(crate) fn saturate(target: &Target, time: Duration) -> Saturated {
    let arguments = ["cycle", "0", "0", "0"];
    let text = ask_for(
        target.address,
        &target.paths,
        time,
        target.headers,
        &arguments,
    );
    let answers = requests(&text);
    let refused = text.lines().find_map(|line| {
        let (_, count) = line.split_once("Non-2xx or 3xx responses: ")?;
        count.trim().parse::<u64>().ok()
    });
    let expected = (target.status >= 400).then_some(answers);
    assert_eq!(refused, expected, "{text}");
    assert!(!text.contains("Socket errors"), "{text}");
    Saturated {
        answers,
        rate: answers as f64 / time.as_secs_f64(),
    }
}

/// Choice of the next link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    Cycle,
    /// By Zipf's law. A seed always gives one sequence of requests.
    Zipf {
        seed: u32,
    },
}

/// Requests that many redirects, as fast as they are answered.
pub(crate) fn visit(address: SocketAddr, paths: &Path, pick: Pick, count: u64) {
    const LIMIT: Duration = Duration::from_secs(3600);
    let (pick, seed) = match pick {
        Pick::Cycle => ("cycle", 0),
        Pick::Zipf { seed } => ("zipf", seed),
    };
    let arguments = [pick, &count.to_string(), "302", &seed.to_string()];
    let text = ask_for(address, paths, LIMIT, &[], &arguments);
    let expected = format!("{count} answers, 0 of them wrong");
    assert!(text.contains(&expected), "{text}");
}

fn ask_for(
    address: SocketAddr,
    paths: &Path,
    time: Duration,
    headers: &[&str],
    arguments: &[&str],
) -> String {
    let output = wrk(time)
        .args(headers.iter().flat_map(|header| ["-H", header]))
        .args(["-H", &format!("Host: {DOMAIN}"), "-s"])
        .arg(root().join("tests/bench/load.lua"))
        .arg(format!("http://{address}/"))
        .arg("--")
        .arg(paths)
        .args(arguments)
        .output();
    text_of(&output.expect("wrk"))
}

/// Command of wrk with one thread, on the processors without servers.
pub(crate) fn wrk(time: Duration) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["-c", &others(), "wrk", "-t1", "--latency"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs()));
    command
}

/// Output of a successful program.
pub(crate) fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Parses a line such as `  123456 requests in 3.00s, 23.45MB read`.
pub(crate) fn requests(text: &str) -> u64 {
    let line = text.lines().find(|line| line.contains(" requests in "));
    let count = line.and_then(|line| line.split_whitespace().next());
    let count = count.and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no number of requests in {text}"))
}

/// Latencies of answers at a fixed rate, in milliseconds since each request was due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Requests random paths of a file at a fixed rate, whatever the server does; every answer must arrive, and be correct.
pub(crate) fn keep_rate(
    address: SocketAddr,
    paths: &Path,
    status: u16,
    rate: f64,
    count: u64,
) -> Latencies {
    keep_rate_with(address, paths, status, rate, count, &[])
}

/// Keeps the rate with further headers, such as `x-api-key: KEY`.
pub(crate) fn keep_rate_with(
    address: SocketAddr,
    paths: &Path,
    status: u16,
    rate: f64,
    count: u64,
    headers: &[&str],
) -> Latencies {
    let text = std::fs::read_to_string(paths).expect("paths");
    let urls = text.lines().map(|path| format!("http://{address}{path}\n"));
    let file = paths.with_extension("urls");
    std::fs::write(&file, urls.collect::<String>()).expect("a file");
    let output = Command::new("taskset")
        .args(["-c", &others()])
        .arg(root().join(".edgelink/oha/bin/oha"))
        .args([
            "--no-tui",
            "--output-format",
            "json",
            "--worker-threads",
            "1",
        ])
        .args(["--latency-correction", "-q", &rate.to_string()])
        .args(["-n", &count.to_string(), "-c", &CONNECTIONS.to_string()])
        .args(headers.iter().flat_map(|header| ["-H", header]))
        .args(["--host", DOMAIN, "--urls-from-file"])
        .arg(&file)
        .output();
    let report = text_of(&output.expect("oha"));
    let report: Value = serde_json::from_str(&report).expect("a report");
    let seen = &report["statusCodeDistribution"];
    assert_eq!(*seen, json!({ status.to_string(): count }), "{report}");
    let millis = |share: &str| {
        let seconds = report["latencyPercentiles"][share].as_f64();
        seconds.expect("a percentile") * 1e3
    };
    Latencies {
        p50: millis("p50"),
        p95: millis("p95"),
        p99: millis("p99"),
        p999: millis("p99.9"),
    }
}

/// Simulates traffic through the logic alone.
pub(crate) fn simulate(spec: &SimulateSpec) -> SimulateReport {
    let output = Command::new("taskset")
        .args(["-c", &others()])
        .arg(simulation_binary())
        .arg(serde_json::to_string(spec).expect("JSON"))
        .output();
    serde_json::from_str(&text_of(&output.expect("taskset"))).expect("a report")
}
