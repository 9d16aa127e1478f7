//! The feed as a stream, read by the client of native hosts.

use crate::helpers::{EDGE_TOKENS, Running, until};
use edgelink_filter_core::control_plane::Outgoing;
use edgelink_filter_core::settings::Settings;
use edgelink_process::control_plane::{CalloutAnswer, CalloutRequest, ControlPlanes};
use edgelink_tests::stack::{Http2Answer, Http2Connection};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedBatch, FeedBatchHead, FeedPoint, FeedPosition};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;

/// An edge that reads the feed.
struct Follower {
    client: ControlPlanes,
    place: FeedPoint,
    wait_millis: u64,
    /// What the client has logged.
    log: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    /// One of these servers, with more of the section `controlPlane`.
    fn of(servers: &[&Running], more: &serde_json::Value) -> Self {
        let addresses = servers
            .iter()
            .map(|server| format!("http://{}", server.address));
        let mut control_plane = json!({ "servers": addresses.collect::<Vec<_>>() });
        for (name, value) in more.as_object().unwrap() {
            control_plane[name] = value.clone();
        }
        let json = json!({ "domains": ["go.example"], "controlPlane": control_plane });
        let settings = Settings::parse(json.to_string().as_bytes()).unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&log);
        let write = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        Self {
            client: ControlPlanes::new(&settings.control_plane, write).unwrap(),
            log,
            place: (0, FeedPosition::START),
            wait_millis: 500,
        }
    }

    fn new(server: &Running) -> Self {
        Self::of(&[server], &json!({}))
    }

    async fn poll(&self) -> CalloutAnswer {
        let ((generation, after), token) = (self.place, EDGE_TOKENS.split(',').next().unwrap());
        let wait = self.wait_millis;
        let path = format!("/edge/v1/feed?after={after}&generation={generation}&waitMs={wait}");
        let authorization = format!("Bearer {token}");
        let headers = vec![
            (":method", "GET"),
            (":path", path.as_str()),
            (":authority", "control-plane"),
            ("accept", FeedBatch::MEDIA_TYPE),
            ("authorization", authorization.as_str()),
        ];
        let outgoing = Outgoing {
            headers,
            body: b"",
            timeout_millis: 5_000,
        };
        self.client
            .call(CalloutRequest::of(&outgoing, 2 << 20).unwrap())
            .await
    }

    async fn status(&self) -> String {
        let answer = self.poll().await;
        String::from_utf8(answer.response().status.to_vec()).unwrap()
    }

    /// The next batch: its head, and the keys that have changed. Servers that fail are left by polling again.
    async fn next(&mut self) -> (FeedBatchHead, Vec<String>) {
        loop {
            let answer = self.poll().await;
            if answer.response().status != b"200" {
                tokio::task::yield_now().await;
                continue;
            }
            let batch = FeedBatch::decode(&answer.body).unwrap();
            self.place = (batch.head.generation, batch.head.next);
            let messages = batch.messages.into_iter().map(Result::unwrap);
            let keys = messages.filter_map(|message| match message {
                FeedMessage::Put { key, .. } => Some(key.to_owned()),
                _ => None,
            });
            return (batch.head, keys.collect());
        }
    }

    /// Reads on until this link has changed.
    async fn until_changed(&mut self, code: &str) {
        let key = format!("go.example:8080/{code}");
        while !self.next().await.1.contains(&key) {}
    }
}

#[tokio::test]
async fn stream_when_links_change_carries_them() {
    let server = Running::start().await;
    let mut follower = Follower::new(&server);
    follower.next().await;
    let long = format!("https://example.com/{}", "x".repeat(7_000));
    for code in ["a", "b", "c"] {
        server.link(code).to(&long).create().await;
        follower.until_changed(code).await;
    }
    let (head, _) = follower.next().await;
    assert!(head.age_millis < 4_000, "{head:?}");
}

/// Clients of HTTP/2 close a connection on which hundreds of empty frames come.
#[tokio::test]
async fn stream_when_it_goes_on_for_long_stays() {
    let server = Running::start().await;
    let mut follower = Follower::new(&server);
    follower.wait_millis = 1;
    follower.next().await;
    for number in 0..500 {
        let answer = follower.poll().await;
        assert_eq!(answer.response().status, b"200", "{number}");
        let batch = FeedBatch::decode(&answer.body).unwrap();
        follower.place = (batch.head.generation, batch.head.next);
    }
    assert_eq!(*follower.log.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn stream_when_there_are_too_many_is_refused() {
    let server = Running::with(&[("EDGELINK_FEED_MAX_POLLS", "1")]).await;
    let mut first = Follower::new(&server);
    first.next().await;
    let second = Follower::new(&server);
    assert_eq!(
        second.status().await,
        "503",
        "a stream holds its permit between two polls"
    );
    drop(first);
    until("the permit", async || second.status().await == "200").await;
}

#[tokio::test]
async fn stream_when_its_server_stops_continues_at_another() {
    let one = Running::start().await;
    let other = one.another().await;
    let mut follower = Follower::of(&[&one, &other], &json!({}));
    follower.next().await;
    one.begin_stop();
    one.stopped().await;
    // The other one publishes in a generation of its own, once the lease of the first is over.
    while !follower.next().await.0.gap {}
    other.link("a").create().await;
    follower.until_changed("a").await;
}

#[tokio::test]
async fn stream_when_its_token_is_withdrawn_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let (token, other) = ("a-token-from-the-file", "another-token-from-the-file");
    std::fs::write(&file, token).unwrap();
    let server = Running::with(&[
        ("EDGELINK_AUTH_EDGE_TOKENS", ""),
        ("EDGELINK_AUTH_EDGE_TOKEN_FILE", file.to_str().unwrap()),
        ("EDGELINK_SERVER_RELOAD_MS", "10"),
    ])
    .await;
    let of_edge = folder.path().join("token");
    std::fs::write(&of_edge, token).unwrap();
    let mut follower = Follower::of(&[&server], &json!({ "tokenFile": of_edge }));
    follower.next().await;
    std::fs::write(&file, other).unwrap();
    until("a refusal", async || follower.status().await == "401").await;
    std::fs::write(&of_edge, other).unwrap();
    follower.next().await;
}

#[tokio::test]
async fn stream_when_its_reader_takes_nothing_is_reset() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_WRITE_TIMEOUT_MS", "100"),
        ("EDGELINK_FEED_MAX_POLLS", "1"),
    ])
    .await;
    let mut follower = Follower::new(&server);
    follower.next().await;
    drop(follower);
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut connection = Http2Connection::with_window(stream, 1);
    let token = EDGE_TOKENS.split(',').next().unwrap();
    let authorization = format!("Bearer {token}");
    let fields: [(&str, &[u8]); 5] = [
        (":method", b"POST"),
        (":scheme", b"http"),
        (":authority", b"control-plane"),
        (":path", b"/edge/v1/feed/stream"),
        ("authorization", authorization.as_bytes()),
    ];
    until("the stream", async || {
        connection.request(&fields).await.unwrap() == Http2Answer::Status(200)
    })
    .await;
    assert_eq!(connection.end().await.unwrap(), Http2Answer::Reset);
    let mut next = Follower::new(&server);
    next.next().await;
}

#[tokio::test]
async fn stream_when_its_edge_sends_anything_else_ends() {
    let server = Running::start().await;
    let mut follower = Follower::new(&server);
    follower.next().await;
    for bytes in [&b"\x80\x00"[..], &[0xff; 40]] {
        let socket = TcpStream::connect(server.address).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(socket).await.unwrap();
        let driven = tokio::spawn(connection);
        let token = EDGE_TOKENS.split(',').next().unwrap();
        let head = http::Request::post("http://control-plane/edge/v1/feed/stream")
            .header("authorization", format!("Bearer {token}"));
        let sent = sender.send_request(head.body(()).unwrap(), false).unwrap();
        let (answer, mut acknowledgements) = sent;
        let mut body = answer.await.unwrap().into_body();
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        acknowledgements.send_data(bytes, false).unwrap();
        while body.data().await.is_some() {}
        driven.abort();
    }
}
