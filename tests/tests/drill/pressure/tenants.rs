//! The weakest key of one tenant: what an admin of another gets beside its slow bulk bodies, and beside its passwords.

use super::{Tally, be_silent};
use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, ControlPlane};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

const TIMES: usize = 8;
/// As many as there are permits for bulk requests, and some more.
const SLOW: usize = 16;
/// More than wait for their turn to be hashed in the version that the review had.
const HASHING: usize = 70;

/// A key of a tenant of its own.
async fn creator(plane: &ControlPlane) -> String {
    let made = plane
        .api("POST", "/tenants", &json!({ "name": "other" }))
        .await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let key = made.body["adminKey"]["key"].as_str();
    key.expect("a key").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn slow_bulk_bodies() {
    let plane = ControlPlane::start().await;
    let key = creator(&plane).await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: 30000000\r\n\r\n["
    );
    let mut crowd = JoinSet::new();
    for _ in 0..SLOW {
        crowd.spawn(be_silent([127, 0, 0, 2], plane.address(), head.clone()));
    }
    let mut others = Tally::of("bulk requests of another tenant");
    for _ in 0..TIMES {
        let items = json!([{ "longUrl": "https://example.com/" }]);
        let answer = plane.api("POST", "/links/bulk", &items).await;
        others.add(answer.status, 200);
    }
    println!("\n{SLOW} bulk bodies that do not come, of one key");
    others.show();
    assert!(others.is_met());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn passwords_of_one_key() {
    let plane = Arc::new(ControlPlane::start().await);
    let key = creator(&plane).await;
    let mut crowd = JoinSet::new();
    for _ in 0..HASHING {
        let (plane, key) = (plane.clone(), key.clone());
        crowd.spawn(async move {
            let body = json!({ "longUrl": "https://example.com/", "password": "p" }).to_string();
            let request = Request::new("POST", b"/api/v1/links")
                .header("x-api-key", key.as_bytes())
                .header("content-type", b"application/json");
            loop {
                let Ok(mut connection) = Connection::open(plane.address()).await else {
                    continue;
                };
                while connection.exchange(&request, body.as_bytes()).await.is_ok() {}
            }
        });
    }
    // Once one of them was answered, the others wait.
    let mut others = Tally::of("links with a password of another tenant");
    for _ in 0..TIMES {
        let answer = plane.link("").password("p").answer().await;
        others.add(answer.status, 201);
    }
    println!("\n{HASHING} connections that set passwords, of one key");
    others.show();
    assert!(others.is_met());
}
