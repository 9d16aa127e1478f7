mod feed;
mod peer;
mod tls;

use super::*;
use edgelink_filter_core::settings::Settings;
use peer::{Behaviour, Peer, dead_address, goodbye};
use std::net::SocketAddr;
use std::sync::{Mutex, mpsc};

const LOOKUP: &str = "/edge/v1/links/go.example/a";
const POLL: &str = "/edge/v1/feed?after=1-0&generation=1&waitMs=100";

/// A client whose servers are these, and the lines of its log.
fn client(peers: &[&Peer], more: &str) -> (ControlPlanes, mpsc::Receiver<String>) {
    let addresses: Vec<_> = peers.iter().map(|peer| peer.address).collect();
    client_of(more, move || addresses.clone())
}

/// A client of one name, which is looked up by `resolve`.
fn client_of(
    more: &str,
    resolve: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static,
) -> (ControlPlanes, mpsc::Receiver<String>) {
    let json = format!(
        r#"{{"domains":["go.example"],"controlPlane":{{"servers":["http://control-plane:1"]{more}}}}}"#
    );
    client_with(&json, resolve)
}

fn client_with(
    json: &str,
    resolve: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static,
) -> (ControlPlanes, mpsc::Receiver<String>) {
    let settings = Settings::parse(json.as_bytes()).unwrap();
    let (sender, lines) = mpsc::channel();
    let log: Log = Arc::new(move |line: &str| drop(sender.send(line.to_owned())));
    let resolve: Resolve = Box::new(move |_, _| {
        let addresses = resolve();
        Box::pin(async move { Ok(addresses) })
    });
    let client = ControlPlanes::with_resolver(&settings.control_plane, log, resolve).unwrap();
    (client, lines)
}

fn request(path: &str, retry: Retry) -> CalloutRequest {
    let mut headers = vec![
        (":method", "GET"),
        (":path", path),
        (":authority", "control-plane"),
    ];
    headers.push(match retry {
        Retry::Broken => ("x-envoy-retry-on", "connect-failure,refused-stream,reset"),
        Retry::Unseen => ("x-envoy-retry-on", "connect-failure,refused-stream"),
    });
    let outgoing = Outgoing {
        headers,
        body: b"",
        timeout_millis: 5_000,
    };
    CalloutRequest::of(&outgoing, 1_000).unwrap()
}

fn lookup() -> CalloutRequest {
    request(LOOKUP, Retry::Broken)
}

fn status(answer: &CalloutAnswer) -> &str {
    std::str::from_utf8(answer.response().status).unwrap()
}

/// The server that is asked first, and the other one.
async fn in_order<'p>(client: &ControlPlanes, peers: [&'p Peer; 2]) -> [&'p Peer; 2] {
    assert_eq!(status(&client.call(lookup()).await), "200");
    let [one, other] = peers;
    if one.count() == 1 {
        [one, other]
    } else {
        [other, one]
    }
}

#[tokio::test]
async fn request_when_sent_arrives_as_the_edge_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let peer = Peer::start(Behaviour::Answer(200, "answer")).await;
    let (client, _lines) = client(&[&peer], &format!(r#","tokenFile":"{}""#, file.display()));
    let outgoing = Outgoing {
        headers: vec![
            (":method", "POST"),
            (":path", "/edge/v1/links?a=%5B"),
            (":authority", "control-plane"),
            ("accept", "a/b"),
            ("x-envoy-retry-on", "reset"),
            ("x-envoy-max-retries", "2"),
        ],
        body: b"lines",
        timeout_millis: 5_000,
    };
    let answer = client.call(CalloutRequest::of(&outgoing, 6).unwrap()).await;
    assert_eq!(answer.response().status, b"200");
    assert_eq!(answer.response().content_type, b"text/peer");
    assert_eq!(answer.retry_after(), b"7");
    assert_eq!(answer.body, b"answer");
    let seen = peer.seen();
    let (head, body) = &seen[0];
    assert_eq!(head.method, "POST");
    assert_eq!(head.uri, "http://control-plane/edge/v1/links?a=%5B");
    assert_eq!(body, b"lines");
    let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("authorization"), Some("Bearer secret"));
    assert_eq!(header("accept"), Some("a/b"));
    assert_eq!(header("content-length"), Some("5"));
    let left = header("x-envoy-expected-rq-timeout-ms").expect("how long it waits");
    assert!(left.parse::<u64>().unwrap() <= 5_000, "{left}");
    assert_eq!(head.headers.len(), 4, "{head:?}");
}

#[test]
fn request_when_http_cannot_express_it_is_none() {
    for (name, value) in [
        (":path", "/a b"),
        (":method", "A B"),
        (":authority", "a b"),
        ("a", "b\n"),
    ] {
        let outgoing = Outgoing {
            headers: vec![(":path", "/"), (":authority", "a"), (name, value)],
            body: b"",
            timeout_millis: 1,
        };
        assert!(CalloutRequest::of(&outgoing, 1).is_none(), "{name}");
    }
}

#[tokio::test]
async fn server_when_asked_often_keeps_one_connection() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, _lines) = client(&[&one, &other], "");
    let [first, second] = in_order(&client, [&one, &other]).await;
    for _ in 0..20 {
        assert_eq!(status(&client.call(lookup()).await), "200");
    }
    assert_eq!((first.count(), second.count()), (21, 0));
    assert_eq!(first.connections(), 1);
}

#[tokio::test]
async fn request_when_its_server_dies_midway_goes_to_the_other() {
    for (retry, expected) in [(Retry::Broken, "200"), (Retry::Unseen, "")] {
        let (one, other) = (
            Peer::start(Behaviour::OK).await,
            Peer::start(Behaviour::OK).await,
        );
        let (client, _lines) = client(&[&one, &other], "");
        let [first, second] = in_order(&client, [&one, &other]).await;
        first.behave(Behaviour::Break);
        let answer = client.call(request(LOOKUP, retry)).await;
        assert_eq!(status(&answer), expected);
        assert_eq!(second.count(), usize::from(retry == Retry::Broken));
    }
}

#[tokio::test]
async fn request_when_its_server_falls_silent_goes_to_the_other_in_time() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, lines) = client(&[&one, &other], r#","timeoutMs":500"#);
    let [first, _] = in_order(&client, [&one, &other]).await;
    first.behave(Behaviour::Freeze);
    assert_eq!(status(&client.call(lookup()).await), "200");
    let line = lines.try_recv().unwrap();
    assert!(
        line.ends_with("the connection broke: no answer to a ping; it is made again"),
        "{line}"
    );
}

#[tokio::test]
async fn request_when_its_server_is_slow_ends_as_a_timeout() {
    let peer = Peer::start(Behaviour::Wait).await;
    let (client, _lines) = client(&[&peer], r#","timeoutMs":100"#);
    let mut late = lookup();
    late.timeout = Duration::from_millis(300);
    assert_eq!(status(&client.call(late).await), "504");
    peer.behave(Behaviour::OK);
    assert_eq!(status(&client.call(lookup()).await), "200");
    assert_eq!(
        peer.connections(),
        1,
        "a server that answers pings is alive"
    );
}

#[tokio::test]
async fn request_when_refused_unseen_goes_to_the_other() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, _lines) = client(&[&one, &other], "");
    let [first, second] = in_order(&client, [&one, &other]).await;
    first.behave(Behaviour::Refuse);
    let form = request("/edge/v1/unlock/go.example/a", Retry::Unseen);
    assert_eq!(status(&client.call(form).await), "200");
    assert_eq!(second.count(), 1);
    assert_eq!(first.connections(), 1, "the connection works on");
}

#[tokio::test]
async fn request_when_its_server_says_goodbye_first_is_sent_again() {
    let (address, ended) = goodbye().await;
    let peer = Peer::start(Behaviour::OK).await;
    // Once the first has said goodbye, the name is of the other one.
    let (client, _lines) = client_of("", move || {
        if ended.load(std::sync::atomic::Ordering::Relaxed) {
            vec![peer.address]
        } else {
            vec![address]
        }
    });
    let form = || request("/edge/v1/unlock/go.example/a", Retry::Unseen);
    // Its own attempts end where that server ends; the next request finds the new address.
    while status(&client.call(form()).await) != "200" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn body_when_longer_than_allowed_is_empty() {
    let peer = Peer::start(Behaviour::Answer(200, "0123456789")).await;
    let (client, _lines) = client(&[&peer], "");
    for (limit, expected) in [(10, "0123456789"), (9, ""), (0, "")] {
        let mut request = lookup();
        request.max_body = limit;
        let answer = client.call(request).await;
        assert_eq!(status(&answer), "200");
        assert_eq!(answer.body, expected.as_bytes());
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn body_when_longer_than_the_windows_arrives() {
    static LONG: [u8; 3 << 20] = [b'x'; 3 << 20];
    let body = str::from_utf8(&LONG).unwrap();
    let peer = Peer::start(Behaviour::Answer(200, body)).await;
    let (client, _lines) = client(&[&peer], "");
    let mut request = lookup();
    request.max_body = body.len();
    request.body = Bytes::from_static(body.as_bytes());
    assert_eq!(client.call(request).await.body.len(), body.len());
    assert_eq!(peer.seen()[0].1.len(), body.len());
}

#[tokio::test]
async fn server_when_it_fails_repeatedly_is_avoided() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, _lines) = client(&[&one, &other], "");
    let [first, second] = in_order(&client, [&one, &other]).await;
    first.behave(Behaviour::Answer(503, ""));
    // A few failures are answers.
    while second.count() == 0 {
        client.call(lookup()).await;
    }
    assert!(first.count() > 3);
}

#[tokio::test]
async fn poll_when_refused_goes_to_the_other_next() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, _lines) = client(&[&one, &other], "");
    let [first, second] = in_order(&client, [&one, &other]).await;
    first.behave(Behaviour::Answer(503, ""));
    let poll = || request(POLL, Retry::Unseen);
    while second.count() == 0 {
        client.call(poll()).await;
    }
    let polls = second.count();
    first.behave(Behaviour::OK);
    assert_eq!(status(&client.call(lookup()).await), "200");
    assert_eq!(second.count(), polls, "lookups stay where they were");
}

#[tokio::test]
async fn request_when_no_server_is_reachable_fails() {
    let dead = dead_address().await;
    let (client, lines) = client_of("", move || vec![dead]);
    for _ in 0..3 {
        assert_eq!(status(&client.call(lookup()).await), "");
    }
    let line = lines.try_recv().unwrap();
    assert!(line.contains("cannot connect: "), "{line}");
    assert!(lines.try_recv().is_err(), "a failure is logged once");
}

#[tokio::test]
async fn name_when_it_has_several_addresses_has_as_many_servers() {
    let dead = dead_address().await;
    let peer = Peer::start(Behaviour::OK).await;
    let address = peer.address;
    // Which of the two is asked first is chosen at random.
    for _ in 0..8 {
        let (client, _lines) = client_of("", move || vec![dead, address]);
        assert_eq!(status(&client.call(lookup()).await), "200");
    }
}

#[tokio::test]
async fn name_when_its_addresses_change_is_resolved_again() {
    let peer = Peer::start(Behaviour::OK).await;
    let addresses = Arc::new(Mutex::new(vec![dead_address().await]));
    let shared = Arc::clone(&addresses);
    let (client, _lines) = client_of(r#","resolveSeconds":3600"#, move || {
        shared.lock().unwrap().clone()
    });
    assert_eq!(status(&client.call(lookup()).await), "");
    *addresses.lock().unwrap() = vec![peer.address];
    while status(&client.call(lookup()).await) != "200" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn name_when_it_cannot_be_resolved_is_in_the_log() {
    let json =
        r#"{"domains":["go.example"],"controlPlane":{"servers":["http://control-plane:1"]}}"#;
    let settings = Settings::parse(json.as_bytes()).unwrap();
    let (sender, lines) = mpsc::channel();
    let log: Log = Arc::new(move |line: &str| drop(sender.send(line.to_owned())));
    let resolve: Resolve =
        Box::new(|_, _| Box::pin(async { Err(std::io::Error::other("no such name")) }));
    let client = ControlPlanes::with_resolver(&settings.control_plane, log, resolve).unwrap();
    assert_eq!(status(&client.call(lookup()).await), "");
    let line = lines.try_recv().unwrap();
    assert!(
        line.starts_with("controlPlane.servers: control-plane:1 cannot be resolved: no such name"),
        "{line}"
    );
}

#[tokio::test]
async fn localhost_when_looked_up_has_addresses() {
    let found = look_up("localhost".to_owned(), 7).await.unwrap();
    assert!(
        found
            .iter()
            .all(|address| address.port() == 7 && address.ip().is_loopback())
    );
    assert!(!found.is_empty());
}

#[tokio::test]
async fn server_when_full_leaves_requests_to_another_or_lets_them_wait() {
    let (one, other) = (
        Peer::start(Behaviour::OK).await,
        Peer::start(Behaviour::OK).await,
    );
    let (client, _lines) = client(&[&one, &other], r#","maxStreams":1"#);
    let [first, second] = in_order(&client, [&one, &other]).await;
    first.behave(Behaviour::Wait);
    second.behave(Behaviour::Wait);
    let asked: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call(lookup()).await })
        })
        .collect();
    first.until_seen(2).await;
    second.until_seen(1).await;
    // The third has a permit of neither.
    assert_eq!((first.count(), second.count()), (2, 1));
    first.behave(Behaviour::OK);
    second.behave(Behaviour::OK);
    first.release();
    second.release();
    for asked in asked {
        assert_eq!(status(&asked.await.unwrap()), "200");
    }
}

#[tokio::test]
async fn server_when_it_speaks_another_protocol_is_not_used() {
    let peer = Peer::start(Behaviour::OK).await;
    let other = peer::http1().await;
    let addresses = vec![other, peer.address];
    let (client, _lines) = client_of("", move || addresses.clone());
    for _ in 0..4 {
        assert_eq!(status(&client.call(lookup()).await), "200");
    }
}

#[tokio::test]
async fn connection_when_its_client_is_dropped_ends() {
    let peer = Peer::start(Behaviour::OK).await;
    let (client, _lines) = client(&[&peer], "");
    assert_eq!(status(&client.call(lookup()).await), "200");
    drop(client);
    peer.until_disconnected().await;
}
