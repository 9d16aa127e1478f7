//! Every source of numbers that needs no server of its own creates and redirects. ZooKeeper's tests are in the crate
//! `tests`, which has one.

use crate::helpers::Running;
use serde_json::json;

async fn creates_and_redirects(server: &Running, n: usize) -> String {
    let target = format!("https://example.com/{n}");
    let link = server.post(&json!({ "longUrl": target })).await.expect(201);
    let code = link["shortCode"].as_str().unwrap().to_owned();
    server
        .follow(&format!("/{code}"))
        .await
        .redirects(302, &target);
    code
}

#[tokio::test]
async fn the_counter_gives_plain_sequential_codes_and_loses_none_at_a_clean_stop() {
    let counter = [("EDGELINK_ISSUER_SOURCE", "counter")];
    let server = Running::with(&counter).await;
    for (n, code) in ["0000000", "0000001", "0000002"].into_iter().enumerate() {
        assert_eq!(creates_and_redirects(&server, n).await, code);
    }
    let server = server.restart_with(&counter).await;
    assert_eq!(creates_and_redirects(&server, 3).await, "0000003");
}

#[tokio::test]
async fn snowflake_codes_have_ten_digits_and_grow_with_time() {
    let snowflake = [
        ("EDGELINK_ISSUER_SOURCE", "snowflake"),
        ("EDGELINK_CODE_LENGTH", "10"),
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
async fn the_digest_of_the_same_link_is_the_same_until_it_is_taken() {
    let digest = [("EDGELINK_ISSUER_SOURCE", "digest")];
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
