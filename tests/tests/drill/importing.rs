//! 48,009 real URLs, imported by the command.

use crate::replica::Replica;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::edgelink_binary;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

/// `make import-urls`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while: make import-urls"]
async fn import() {
    let folder = TempDir::new().expect("a temporary folder");
    let database = MariaDb::start();
    let url = database.database();
    let variables = [("EDGELINK_STORE_URL", url.as_str())];
    let replica = Replica::start("importing", folder.path(), &variables).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/urls-kasztp.txt");
    let start = Instant::now();
    let output = Command::new(edgelink_binary())
        .arg("import")
        .arg(&file)
        .arg("--report")
        .arg(folder.path().join("report"))
        .arg("--checkpoint")
        .arg(folder.path().join("checkpoint"))
        .args(["--api", &replica.url()])
        .arg("--key-file")
        .arg(folder.path().join("admin-key"))
        .output()
        .expect("the command");
    let time = start.elapsed();
    // Some lines are no URLs.
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    println!("\n{}", String::from_utf8_lossy(&output.stdout).trim());
    println!("in {time:.2?}");
    let report = std::fs::read_to_string(folder.path().join("report")).expect("a report");
    for (reason, count) in reasons(&report) {
        println!("{count:>6}  {reason}");
    }
    let rows = database.execute("SELECT COUNT(*) FROM test_0.links");
    println!("rows: {}", rows.trim());
    let lines = std::fs::read(&file)
        .expect("the file")
        .split(|byte| *byte == b'\n')
        .count();
    let failed = report.lines().count();
    assert!(rows.trim().parse::<usize>().expect("a number") + failed >= lines - 2);
}

fn reasons(report: &str) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for line in report.lines() {
        let entry: Value = serde_json::from_str(line).expect("an entry");
        let reason = entry["reason"].as_str().expect("a reason");
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }
    reasons
}
