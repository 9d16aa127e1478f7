//! Which changes of links are events, and which webhooks get them.

use crate::helpers::{Answer, Running, send, until};
use crate::receiver::{Receiver, SETTINGS, deliveries, subscribe};
use reqwest::Method;
use serde_json::{Value, json};

/// A server whose events a receiver gets.
struct Watched {
    server: Running,
    receiver: Receiver,
}

impl Watched {
    async fn start() -> Self {
        let server = Running::with(&SETTINGS).await;
        let receiver = Receiver::start().await;
        let all = json!(["link.created", "link.changed", "link.deleted"]);
        subscribe(&server, &receiver, &all).await;
        Self { server, receiver }
    }

    /// Sends a request that succeeds, and waits until exactly these events of links have come of it.
    async fn raises(&self, method: Method, path: &str, body: &Value, events: &[(&str, &str)]) {
        let before = self.receiver.received.accepted().len();
        let answer = self.send(method, path, body).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
        self.have_come(before, path, events).await;
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = if path.starts_with("/rest/") {
            self.server
                .plain(method, path)
                .header("x-api-key", &self.server.admin_key)
        } else {
            self.server.api(method, path)
        };
        send(request.json(body)).await
    }

    async fn have_come(&self, before: usize, what: &str, events: &[(&str, &str)]) {
        until(what, async || {
            self.receiver.received.accepted().len() >= before + events.len()
        })
        .await;
        let accepted = self.receiver.received.accepted();
        let mut come: Vec<_> = accepted[before..]
            .iter()
            .map(|(_, body)| (body["type"].as_str(), body["data"]["shortCode"].as_str()))
            .collect();
        let mut expected: Vec<_> = events
            .iter()
            .map(|(event, code)| (Some(*event), Some(*code)))
            .collect();
        come.sort_unstable();
        expected.sort_unstable();
        assert_eq!(come, expected, "{what}");
    }
}

#[tokio::test]
async fn link_when_changed_in_any_way_raises_an_event() {
    let watched = Watched::start().await;
    let to = "https://example.com/";
    let (post, patch, put, delete) = (Method::POST, Method::PATCH, Method::PUT, Method::DELETE);
    let (created, changed, deleted) = ("link.created", "link.changed", "link.deleted");
    let none = &json!({});
    let one = json!({ "longUrl": to, "customSlug": "a", "tags": ["t"] });
    watched
        .raises(post.clone(), "/links", &one, &[(created, "a")])
        .await;
    let same = json!({ "longUrl": to, "customSlug": "b", "externalId": "x" });
    watched
        .raises(put.clone(), "/links", &same, &[(created, "b")])
        .await;
    let title = json!({ "longUrl": to, "externalId": "x", "title": "t" });
    watched
        .raises(put.clone(), "/links", &title, &[(changed, "b")])
        .await;
    watched.raises(put, "/links", &title, &[]).await;
    let rules = json!([{ "longUrl": "https://example.com/phone", "conditions": [
        { "type": "device", "matchValue": "ios", "matchKey": null }
    ] }]);
    let set = json!({ "redirectRules": rules });
    watched
        .raises(
            post.clone(),
            "/rest/v3/short-urls/a/redirect-rules",
            &set,
            &[(changed, "a")],
        )
        .await;
    let bulk = json!([{ "shortCode": "a", "title": "1" }, { "shortCode": "b", "title": "2" }]);
    watched
        .raises(
            patch.clone(),
            "/links/bulk",
            &bulk,
            &[(changed, "a"), (changed, "b")],
        )
        .await;
    let tag = json!({ "tag": "u" });
    watched
        .raises(patch, "/tags/t", &tag, &[(changed, "a")])
        .await;
    let place = json!({ "customSlug": "c" });
    watched
        .raises(
            post.clone(),
            "/links/a/move",
            &place,
            &[(deleted, "a"), (created, "c")],
        )
        .await;
    let both = json!([{ "shortCode": "b" }, { "shortCode": "c" }]);
    watched
        .raises(
            delete.clone(),
            "/links/bulk",
            &both,
            &[(deleted, "b"), (deleted, "c")],
        )
        .await;
    watched
        .raises(post.clone(), "/links/c/restore", none, &[(created, "c")])
        .await;
    watched
        .raises(delete, "/rest/v3/short-urls/c", none, &[(deleted, "c")])
        .await;
    let shlink = json!({ "longUrl": to, "customSlug": "d" });
    watched
        .raises(
            post.clone(),
            "/rest/v3/short-urls",
            &shlink,
            &[(created, "d")],
        )
        .await;
    let links = json!([{ "longUrl": to, "customSlug": "e" }, { "longUrl": to, "customSlug": "f" }]);
    watched
        .raises(
            post,
            "/links/bulk",
            &links,
            &[(created, "e"), (created, "f")],
        )
        .await;
}

#[tokio::test]
async fn webhook_when_it_does_not_answer_delays_no_other() {
    let mut settings = SETTINGS.to_vec();
    settings.push(("EDGELINK_WEBHOOKS_TIMEOUT_MS", "60"));
    settings.push(("EDGELINK_WEBHOOKS_MAX_CONCURRENT", "1"));
    let server = Running::with(&settings).await;
    let receiver = Receiver::start().await;
    let make = async |path: &str| {
        let url = format!("http://{}{path}", receiver.address);
        let webhook = send(
            server
                .api(Method::POST, "/webhooks")
                .json(&json!({ "url": url })),
        );
        format!("/webhooks/{}", webhook.await.expect(201)["id"])
    };
    let (silent, elsewhere) = (make("/silence").await, make("/elsewhere").await);
    subscribe(&server, &receiver, &json!(["link.created"])).await;
    for code in ["one", "two"] {
        server.link(code).create().await;
        until(code, async || receiver.received.has("link.created", code)).await;
    }
    for (path, status, reason) in [
        (silent, Value::Null, "there was no answer in time"),
        (elsewhere, json!(307), "the answer is 307"),
    ] {
        until(reason, async || {
            let list = deliveries(&server, &path).await;
            list.iter()
                .any(|one| one["error"] == reason && one["responseStatus"] == status)
        })
        .await;
    }
    assert_eq!(receiver.received.accepted().len(), 2);
}

#[tokio::test]
async fn webhook_when_too_much_waits_for_it_is_disabled() {
    let mut settings = SETTINGS.to_vec();
    settings.push(("EDGELINK_WEBHOOKS_MAX_WAITING", "3"));
    let server = Running::with(&settings).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    receiver.kill().await;
    let links: Vec<Value> = (0..4)
        .map(|number| json!({ "longUrl": "https://example.com/", "customSlug": format!("c{number}") }))
        .collect();
    send(server.api(Method::POST, "/links/bulk").json(&json!(links)))
        .await
        .expect(200);
    until("it is disabled", async || {
        server.get(&path).await.expect(200)["state"] == "disabled"
    })
    .await;
}

#[tokio::test]
async fn webhook_when_a_control_plane_stops_is_served_by_another() {
    let server = Running::with(&SETTINGS).await;
    let other = server.another_with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    let removed = send(server.api(Method::POST, "/webhooks").json(&json!({
        "url": format!("http://{}/silence", receiver.address)
    })));
    let removed = format!("/webhooks/{}", removed.await.expect(201)["id"]);
    server.begin_stop();
    // Made by the other one, which knows the webhook although it has not made it.
    other.link("later").create().await;
    assert_eq!(other.delete(&removed).await.status, 204);
    until("the event", async || {
        receiver.received.has("link.created", "later")
    })
    .await;
    assert_eq!(deliveries(&other, &path).await.len(), 1);
    server.stopped().await;
}
