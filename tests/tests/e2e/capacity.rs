//! The numbers of a code length come to their end.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{ControlPlane, until};
use sqlx::{Connection, SqliteConnection};
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

async fn metric(control_plane: &ControlPlane, name: &str) -> Option<f64> {
    let mut connection = control_plane.connect().await;
    let answer = connection.exchange(&Request::get("/metrics"), b"").await;
    let text = String::from_utf8(answer.ok()?.body).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    line?.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn numbers_when_nine_tenths_are_used_warn_operators() {
    let folder = TempDir::new().expect("a temporary folder");
    let url = format!("sqlite://{}/edgelink.db", folder.path().display());
    let mut control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    control_plane.link("").create().await;
    let used = metric(&control_plane, "edgelink_issuer_used_ratio").await;
    assert!(used.is_some_and(|used| used < 0.01), "{used:?}");
    assert!(!control_plane.process().log().contains("run out"));
    control_plane.process().terminate().await;

    // There are 62^7 / 1,000 sequences for each issuer.
    let mut database = SqliteConnection::connect(&url).await.expect("the database");
    let used_up = sqlx::query("UPDATE issuers SET next = 3200000000");
    used_up.execute(&mut database).await.expect("issuers");
    control_plane.restart().await;
    let used = until("the metric", LIMIT, async || {
        let used = metric(&control_plane, "edgelink_issuer_used_ratio").await;
        used.filter(|used| *used > 0.9)
    });
    assert!((0.908..0.909).contains(&used.await));
    until("the warning", LIMIT, async || {
        let log = control_plane.process().log();
        log.contains("configure a longer links.code_length")
            .then_some(())
    })
    .await;
}
