//! Bytes that are no UTF-8, wherever a client may put them. A filter that takes one of them for text traps, and a trap
//! is a 503 for everybody on that worker.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Deployment, EnvoyOptions};
use serde_json::json;
use std::collections::BTreeMap;

/// Makes a request that carries these bytes.
type Carrier = fn(&[u8]) -> Request;

/// Where the bytes go. 8 places times 128 bytes are 1,024 requests.
const PLACES: [(&str, Carrier); 8] = [
    ("code", |bytes| at_path(b"/a", bytes)),
    ("path", |bytes| at_path(b"/a/b", bytes)),
    ("query", |bytes| at_path(b"/known?q=", bytes)),
    ("host", |bytes| known("host", bytes)),
    ("cookie", |bytes| known("cookie", bytes)),
    ("user-agent", |bytes| known("user-agent", bytes)),
    ("referer", |bytes| known("referer", bytes)),
    ("x-forwarded-for", |bytes| known("x-forwarded-for", bytes)),
];

fn at_path(start: &[u8], bytes: &[u8]) -> Request {
    Request::new("GET", &[start, bytes].concat())
}

fn known(name: &str, bytes: &[u8]) -> Request {
    Request::get("/known").header(name, &[b"a=", bytes, b"z"].concat())
}

#[tokio::test]
async fn a_thousand_requests_with_bytes_above_ascii_harm_nobody() {
    // With two domains the filter reads the Host header, which it does not with one.
    let edgelink = Deployment::start(&EnvoyOptions {
        domains: vec!["go.example".to_owned(), "other.example".to_owned()],
        ..EnvoyOptions::default()
    })
    .await;
    edgelink
        .create(&json!({ "longUrl": "https://example.com/", "customSlug": "known" }))
        .await;

    let mut statuses: BTreeMap<(&str, u16), u32> = BTreeMap::new();
    for byte in 0x80..=0xff_u8 {
        for (place, request) in PLACES {
            let answer = edgelink.envoy.visit(&request(&[byte, b'x', byte])).await;
            *statuses.entry((place, answer.status)).or_default() += 1;
        }
    }

    println!("{statuses:?}");
    assert_eq!(statuses.values().sum::<u32>(), 1024);
    assert!(
        statuses.keys().all(|(_, status)| *status < 500),
        "{statuses:?}"
    );
    for place in ["cookie", "user-agent", "referer", "x-forwarded-for"] {
        assert_eq!(
            statuses.get(&(place, 302)),
            Some(&128),
            "{place}: {statuses:?}"
        );
    }
    edgelink.envoy.assert_unharmed().await;
}
