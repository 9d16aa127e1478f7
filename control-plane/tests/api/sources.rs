//! Every source of numbers that needs no server of its own creates and redirects. ZooKeeper's tests are in the crate
//! `tests`, which has one.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

async fn creates_and_redirects(server: &Running, n: usize) -> String {
    let target = format!("https://example.com/{n}");
    let link = server.link("").to(&target).create().await;
    let code = link.code().to_owned();
    server
        .follow(&format!("/{code}"))
        .await
        .redirects(302, &target);
    code
}

#[tokio::test]
async fn counter_when_restarted_cleanly_goes_on_without_a_loss() {
    let counter = [("EDGELINK_NUMBERS_SOURCE", "counter")];
    let server = Running::with(&counter).await;
    for (n, code) in ["0000000", "0000001", "0000002"].into_iter().enumerate() {
        assert_eq!(creates_and_redirects(&server, n).await, code);
    }
    let server = server.restart_with(&counter).await;
    assert_eq!(creates_and_redirects(&server, 3).await, "0000003");
}

#[tokio::test]
async fn snowflake_code_when_drawn_later_is_greater() {
    let snowflake = [
        ("EDGELINK_NUMBERS_SOURCE", "snowflake"),
        ("EDGELINK_LINKS_CODE_LENGTH", "10"),
    ];
    let server = Running::with(&snowflake).await;
    let first = creates_and_redirects(&server, 0).await;
    let second = creates_and_redirects(&server, 1).await;
    assert_eq!(first.len(), 10);
    let value = |code: &str| edgelink_wire::base62::decode(code.as_bytes()).unwrap();
    assert!(value(&first) < value(&second));
    let server = server.restart_with(&snowflake).await;
    let third = creates_and_redirects(&server, 2).await;
    assert!(![first, second].contains(&third));
}

#[tokio::test]
async fn digest_code_when_taken_already_gives_way_to_another() {
    let digest = [("EDGELINK_NUMBERS_SOURCE", "digest")];
    let server = Running::with(&digest).await;
    let first = creates_and_redirects(&server, 0).await;
    server.delete(&format!("/links/{first}")).await;
    let mut seen = vec![first];
    for _ in 0..40 {
        let code = creates_and_redirects(&server, 0).await;
        assert!(!seen.contains(&code), "{code}");
        seen.push(code);
    }
}

const TAKEN: u64 = 2_000;

/// A server whose next 2,000 codes are aliases, as after an import from a former installation.
async fn with_taken_codes() -> Running {
    let server = Running::with(&[("EDGELINK_NUMBERS_SOURCE", "counter")]).await;
    let space = edgelink_wire::CodeSpace::new(edgelink_wire::CodeLength::DEFAULT, None);
    // The aliases use up the first numbers themselves.
    let alias = |number: u64| {
        let code = space.mint(number).unwrap();
        json!({ "longUrl": "https://example.com/", "customSlug": code.as_str() })
    };
    let aliases: Vec<_> = (TAKEN..2 * TAKEN).map(alias).collect();
    let made = bulk(&server, &aliases).await;
    assert_eq!(made["created"], TAKEN);
    server
}

async fn bulk(server: &Running, items: &[Value]) -> Value {
    let request = server.api(Method::POST, "/links/bulk");
    send(request.json(items)).await.expect(200)
}

#[tokio::test]
async fn taken_codes_when_in_a_row_are_skipped_by_one_request() {
    let server = with_taken_codes().await;
    creates_and_redirects(&server, 1).await;
}

#[tokio::test]
async fn taken_codes_when_in_a_row_are_skipped_by_a_bulk_request() {
    let server = with_taken_codes().await;
    let items = [1, 2, 3].map(|n| json!({ "longUrl": format!("https://example.com/{n}") }));
    let made = bulk(&server, &items).await;
    assert_eq!(made["created"], 3, "{made}");
}
