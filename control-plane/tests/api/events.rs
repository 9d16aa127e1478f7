//! The live stream of clicks.

use crate::analytics::{click, report, report_with};
use crate::helpers::Running;
use crate::scopes::{Client, client, tenant};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A stream that is read.
struct Stream {
    response: Response,
    read: String,
}

impl Stream {
    /// Opens a stream; it is in effect then.
    async fn open(server: &Running, key: &str, query: &str) -> Self {
        let request = server.plain(Method::GET, &format!("/api/v1/events{query}"));
        let response = request.bearer_auth(key).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Self {
            response,
            read: String::new(),
        };
        assert_eq!(stream.next().await.unwrap(), ": listening");
        stream
    }

    async fn of(client: &Client<'_>, query: &str) -> Self {
        Self::open(client.server, &client.key, query).await
    }

    /// The next event or comment; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let event = event.to_owned();
                self.read = rest.to_owned();
                return Some(event);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            let chunk = chunk.expect("an event comes").ok()??;
            self.read += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// The next click.
    async fn click(&mut self) -> Value {
        let event = self.next().await.unwrap();
        let data = event.strip_prefix("event: click\ndata: ").unwrap();
        serde_json::from_str(data).unwrap()
    }
}

#[tokio::test]
async fn click_when_streamed_reaches_listeners_of_its_link() {
    let server = Running::start().await;
    for (code, tag) in [("a", "x"), ("b", "y")] {
        server.link(code).tags(&[tag]).create().await;
    }
    let admin = &server.admin_key;
    let mut all = Stream::open(&server, admin, "").await;
    let mut of_link = Stream::open(&server, admin, "?shortCode=b").await;
    let mut of_tag = Stream::open(&server, admin, "?tags=y").await;
    let mut of_domain = Stream::open(&server, admin, "?domain=other.example").await;
    let clicks = [click("go.example:8080/a"), click("go.example:8080/b")];
    report(&server, 1, &clicks).await;
    let first = all.click().await;
    assert_eq!(first["shortCode"], "a");
    for (name, value) in [
        ("domain", json!("go.example:8080")),
        ("count", json!(1)),
        ("tags", json!(["x"])),
        ("country", json!("DE")),
        ("device", json!("mobile")),
        ("bot", json!(false)),
        ("utmSource", json!("newsletter")),
    ] {
        assert_eq!(first[name], value, "{name}");
    }
    for name in first.as_object().unwrap().keys() {
        assert!(
            !["visitor", "token", "address", "ip"].contains(&name.as_str()),
            "{name}"
        );
    }
    assert_eq!(all.click().await["shortCode"], "b");
    assert_eq!(of_link.click().await["shortCode"], "b");
    assert_eq!(of_tag.click().await["shortCode"], "b");
    // Of what it does not want it gets nothing: what it wants comes next.
    server.link("c").on("other.example").create().await;
    report(&server, 2, &[click("other.example/c")]).await;
    assert_eq!(of_domain.click().await["shortCode"], "c");
    server.begin_stop();
    assert_eq!(of_domain.next().await, None);
}

#[tokio::test]
async fn click_when_streamed_has_its_targets_campaign_and_nulls() {
    let server = Running::start().await;
    let target = "https://shop.example/?utm_medium=mail";
    server.link("a").to(target).create().await;
    let mut stream = Stream::open(&server, &server.admin_key, "").await;
    report(&server, 1, &[click("go.example:8080/a")]).await;
    let described = stream.click().await;
    report_with(&server, 2, &[], &[("go.example:8080/a", 3)]).await;
    let counted = stream.click().await;
    assert_eq!(described["utmMedium"], "mail");
    assert_eq!(counted["count"], 3);
    for name in ["status", "bot", "country", "utmMedium"] {
        assert_eq!(counted.get(name), Some(&Value::Null), "{name}");
    }
}

#[tokio::test]
async fn stream_when_opened_by_a_key_has_clicks_of_its_links_only() {
    let server = Running::start().await;
    server.link("a").create().await;
    let editor = client(&server, "editor", &json!({})).await;
    editor.link("own").create().await;
    let stranger = tenant(&server, "other").await;
    stranger.link("theirs").create().await;
    let mut of_editor = Stream::of(&editor, "").await;
    let mut of_stranger = Stream::of(&stranger, "").await;
    editor
        .get("/events?shortCode=a")
        .await
        .problem(404, "link-not-found");
    let clicks = ["a", "own", "theirs"].map(|code| format!("go.example:8080/{code}"));
    // What comes twice comes after all of the first.
    for seq in [1, 2] {
        let clicks = clicks.each_ref().map(|key| click(key));
        report(&server, seq, &clicks).await;
        assert_eq!(of_editor.click().await["shortCode"], "own");
        assert_eq!(of_stranger.click().await["shortCode"], "theirs");
    }
}

#[tokio::test]
async fn key_when_it_has_10_streams_is_refused_more() {
    let server = Running::start().await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(Stream::open(&server, &server.admin_key, "").await);
    }
    server.get("/events").await.problem(503, "overloaded");
    let editor = client(&server, "editor", &json!({})).await;
    let _other = Stream::of(&editor, "").await;
}

#[tokio::test]
async fn click_batch_when_sent_again_is_streamed_once() {
    let server = Running::start().await;
    server.link("a").create().await;
    let mut stream = Stream::open(&server, &server.admin_key, "").await;
    let clicks = [click("go.example:8080/a")];
    report(&server, 1, &clicks).await;
    report(&server, 1, &clicks).await;
    server.link("b").create().await;
    report(&server, 2, &[click("go.example:8080/b")]).await;
    assert_eq!(stream.click().await["shortCode"], "a");
    assert_eq!(stream.click().await["shortCode"], "b");
}

#[tokio::test]
async fn stream_when_server_stops_ends_without_delay() {
    let server = Running::with(&[("EDGELINK_SERVER_SHUTDOWN_GRACE_MS", "60000")]).await;
    let mut stream = Stream::open(&server, &server.admin_key, "").await;
    server.begin_stop();
    assert_eq!(stream.next().await, None);
    drop(stream);
    server.stopped().await;
}
