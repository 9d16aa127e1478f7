//! Bytes that are no UTF-8, wherever a client may put them. A filter that takes one of them for text traps, and a trap
//! is a 503 for all visitors of that worker.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Deployment, EnvoyOptions, Http2Answer, http2_request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::task::JoinSet;

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

/// With two domains the filter reads the Host header, which it does not with one.
async fn with_two_domains() -> Deployment {
    let edgelink = Deployment::start(&EnvoyOptions {
        domains: vec!["go.example".to_owned(), "other.example".to_owned()],
        ..EnvoyOptions::default()
    })
    .await;
    edgelink.link("known").create().await;
    edgelink
}

#[tokio::test]
async fn request_when_its_bytes_are_above_ascii_does_no_harm() {
    let edgelink = with_two_domains().await;
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

const HTTP2_PLACES: [&str; 5] = [
    ":path",
    ":authority",
    "cookie",
    "user-agent",
    "x-forwarded-for",
];

/// Another codec in Envoy, which lets other bytes through.
#[tokio::test]
async fn http2_request_when_its_bytes_are_above_ascii_does_no_harm() {
    let edgelink = with_two_domains().await;
    let edge = edgelink.envoy.http2();
    let mut visits = JoinSet::new();
    for byte in 0x80..=0xff_u8 {
        for place in HTTP2_PLACES {
            visits.spawn(async move { (place, visit_over_http2(edge, place, byte).await) });
        }
    }

    let mut answers: BTreeMap<(&str, Http2Answer), u32> = BTreeMap::new();
    for answer in visits.join_all().await {
        *answers.entry(answer).or_default() += 1;
    }
    println!("{answers:?}");
    assert_eq!(answers.values().sum::<u32>(), 640);
    let is_failure = |answer: &Http2Answer| matches!(answer, Http2Answer::Status(500..));
    assert!(
        !answers.keys().any(|(_, answer)| is_failure(answer)),
        "{answers:?}"
    );
    for place in ["cookie", "user-agent", "x-forwarded-for"] {
        let redirects = answers.get(&(place, Http2Answer::Status(302)));
        assert_eq!(redirects, Some(&128), "{place}: {answers:?}");
    }
    edgelink.envoy.assert_unharmed().await;
}

async fn visit_over_http2(edge: SocketAddr, place: &str, byte: u8) -> Http2Answer {
    let hostile = [b'/', b'a', byte, b'z', byte];
    let mut fields: Vec<(&str, &[u8])> = vec![
        (":method", b"GET"),
        (":scheme", b"http"),
        (":path", b"/known"),
        (":authority", b"go.example"),
    ];
    match fields.iter_mut().find(|(name, _)| *name == place) {
        Some(field) => field.1 = &hostile,
        None => fields.push((place, &hostile)),
    }
    http2_request(edge, &fields).await.expect("an answer")
}
