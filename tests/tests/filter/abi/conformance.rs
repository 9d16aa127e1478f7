//! Every case on both hosts. The expected transcripts are those of real Envoy: `EDGELINK_RECORD_ABI=1` writes them from
//! the installed Envoy; review the difference before committing it.

use edgelink_tests::abi::{Case, ProbedEnvoy, ProbedFleet, ProbedHost, cases, transcript};
use edgelink_tests::scenario::Request;
use std::fs;
use std::path::PathBuf;

#[tokio::test]
async fn envoy_when_probed_answers_as_recorded() {
    let mut envoy = ProbedEnvoy::start().await;
    if std::env::var_os("EDGELINK_RECORD_ABI").is_some() {
        return record(&mut envoy).await;
    }
    compare(&mut envoy).await;
}

#[tokio::test]
async fn wasmtime_host_when_probed_answers_as_envoy() {
    compare(&mut ProbedFleet::start()).await;
}

/// `make envoy-spin` demonstrates that Envoy does.
#[tokio::test]
#[should_panic(expected = "Envoy spins here for ever")]
async fn wasmtime_host_when_envoy_would_spin_panics() {
    ProbedFleet::start()
        .visit(Request::get("/run/grpc-twice"))
        .await;
}

async fn compare(host: &mut impl ProbedHost) {
    let mut differences = Vec::new();
    for case in cases() {
        let seen = transcript(host, &case).await;
        let expected = fs::read_to_string(file(&case)).unwrap_or_default();
        if seen != expected {
            differences.push(difference(&case, &expected, &seen));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

async fn record(host: &mut impl ProbedHost) {
    for case in cases() {
        let seen = transcript(host, &case).await;
        fs::write(file(&case), seen).expect("a file");
    }
}

fn file(case: &Case) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("abi/answers");
    folder.join(format!("{}.txt", case.name))
}

/// Lines that differ, in order.
fn difference(case: &Case, expected: &str, seen: &str) -> String {
    let (mut expected, mut seen) = (expected.lines(), seen.lines());
    let mut lines = vec![format!("--- {}", case.name)];
    loop {
        match (expected.next(), seen.next()) {
            (None, None) => return lines.join("\n"),
            (a, b) if a == b => {}
            (a, b) => lines.push(format!(
                "expected: {}\n    seen: {}",
                a.unwrap_or("-"),
                b.unwrap_or("-")
            )),
        }
    }
}
