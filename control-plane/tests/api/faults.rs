//! A database that fails.

use crate::helpers::{Running, send, until};
use edgelink_wire::link_batch;
use reqwest::Method;
use sqlx::{Connection, Executor, SqliteConnection};
use std::time::{Duration, Instant};

async fn run(server: &Running, statement: &'static str) -> SqliteConnection {
    let mut connection = SqliteConnection::connect(&server.database()).await.unwrap();
    connection.execute(statement).await.unwrap();
    connection
}

#[tokio::test]
async fn database_when_it_hangs_fails_creation_but_no_redirect() {
    let server = Running::start().await;
    server.link("x").create().await;
    let mut lock = run(&server, "BEGIN IMMEDIATE").await;
    let start = Instant::now();
    let answer = server.link("").answer().await;
    answer.problem(503, "store-unavailable");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    server
        .follow("/x")
        .await
        .redirects(302, "https://example.com/");
    lock.execute("ROLLBACK").await.unwrap();
    server.link("").create().await;
}

#[tokio::test]
async fn database_when_broken_is_not_taken_for_a_missing_link() {
    let server = Running::start().await;
    server.link("x").create().await;
    run(&server, "DROP TABLE links").await;
    server.follow("/x").await.page(503, "try again");
    server.get("/links/x").await.problem(500, "internal");
    server
        .resolve("go.example:8080/x")
        .await
        .problem(500, "internal");
    let lines = "go.example:8080/x\ngo.example:8080/x";
    server.resolve_lines(lines).await.problem(500, "internal");
    let answer = server.resolve_lines(&format!("{lines}\nno key")).await;
    assert_eq!(answer.status, 200);
    let answers = link_batch::read(&answer.body, 3).unwrap();
    assert_eq!(answers, [500, 500, 400].map(|status| (status, &b""[..])));
    let metrics = server.follow("/metrics").await;
    assert!(
        metrics
            .text()
            .contains(r#"edgelink_store_errors_total{operation="resolve",transient="false"} "#)
    );
}

#[tokio::test]
async fn link_when_its_lookup_is_slow_delays_no_other() {
    let server = Running::start().await;
    for code in ["fast", "slow"] {
        server.link(code).create().await;
    }
    // While it is held, the database counts to ten million before it has that row.
    let lookups = "CREATE TABLE held (is_held INT); INSERT INTO held VALUES (1); ALTER TABLE links RENAME TO all_links; \
        CREATE VIEW links AS SELECT * FROM all_links WHERE code <> 'slow' OR NOT EXISTS (SELECT * FROM held) OR 0 < \
        (WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 10000000) SELECT count(*) FROM n)";
    let mut database = run(&server, lookups).await;
    let lines = ["slow", "fast"].map(|code| format!("go.example:8080/{code}"));
    // On a slow machine both may be late.
    until("only one link is late", async || {
        let answer = server.resolve_lines(&lines.join("\n")).await;
        assert_eq!(answer.status, 200);
        let answers = link_batch::read(&answer.body, 2).unwrap();
        assert_eq!(answers[0], (link_batch::LATE, &b""[..]));
        answers[1].0 == 200
    })
    .await;
    database.execute("DELETE FROM held").await.unwrap();
    assert_eq!(server.resolve(&lines[0]).await.status, 200);
}

#[tokio::test]
async fn unknown_host_when_domains_cannot_be_read_is_not_denied() {
    let server = Running::with(&[("EDGELINK_LINKS_UNKNOWN_HOSTS", "not_found")]).await;
    let visit = async |path: &str, host: &str| {
        let request = server.plain(Method::GET, path);
        send(request.header("host", host)).await
    };
    visit("/x", "new.example").await.page(404, "not found");
    visit("/", "new.example").await.page(404, "not found");
    run(&server, "ALTER TABLE domains RENAME TO away").await;
    until("the domains are too old", async || {
        visit("/x", "new.example").await.status == 503
    })
    .await;
    visit("/", "new.example").await.page(503, "try again");
    visit("/", "other.example").await.page(404, "not found");
    run(&server, "ALTER TABLE away RENAME TO domains").await;
    until("the domains are read again", async || {
        visit("/x", "new.example").await.status == 404
    })
    .await;
}

#[tokio::test]
async fn creation_when_code_space_is_used_up_says_so() {
    let server = Running::start().await;
    // Together, since the publisher adds a second bound as soon as the first one is nearly reached.
    run(
        &server,
        "BEGIN IMMEDIATE; UPDATE issuers SET next = 3521614606; UPDATE bounds SET bound = 9000000000000; COMMIT",
    )
    .await;
    let answer = server.link("").answer().await;
    answer.problem(503, "codes-exhausted");
}
