//! Webhooks: events arrive at a real receiver, signed, at least once.

use crate::helpers::{Running, send, until};
use crate::receiver::{Receiver, SETTINGS, deliveries, subscribe};
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn event_when_its_receiver_fails_arrives_signed_later() {
    let server = Running::with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    let all = json!(["link.created", "link.changed", "link.deleted"]);
    let path = subscribe(&server, &receiver, &all).await;
    *receiver.received.refuses.lock().unwrap() = 3;
    server.link("one").create().await;
    let received = Arc::clone(&receiver.received);
    until("the first event", async || {
        received.has("link.created", "one")
    })
    .await;

    let (address, received) = receiver.kill().await;
    server
        .patch("/links/one", &json!({ "title": "t" }))
        .await
        .expect(200);
    let bulk = json!([
        { "longUrl": "https://example.com/", "customSlug": "two" },
        { "longUrl": "https://example.com/", "customSlug": "three" },
    ]);
    send(server.api(Method::POST, "/links/bulk").json(&bulk))
        .await
        .expect(200);
    assert_eq!(server.delete("/links/two").await.status, 204);
    until("a failed attempt while the receiver is away", async || {
        let list = deliveries(&server, &path).await;
        list.iter()
            .any(|one| one["error"].is_string() && one["responseStatus"].is_null())
    })
    .await;

    let receiver = Receiver::at(address, received).await;
    let expected = [
        ("link.changed", "one"),
        ("link.created", "two"),
        ("link.created", "three"),
        ("link.deleted", "two"),
    ];
    for (event, code) in expected {
        until(event, async || receiver.received.has(event, code)).await;
    }
    let accepted = receiver.received.accepted();
    let (_, changed) = accepted
        .iter()
        .find(|(_, body)| body["type"] == "link.changed")
        .unwrap();
    assert_eq!(changed["data"]["title"], "t");
    until("all deliveries are done", async || {
        let list = deliveries(&server, &path).await;
        list.len() == 5 && list.iter().all(|one| one["state"] == "delivered")
    })
    .await;
    for delivery in deliveries(&server, &path).await {
        let id = delivery["id"].as_str().unwrap();
        assert!(accepted.iter().any(|(one, _)| one == id), "{id}");
    }
}

#[tokio::test]
async fn link_when_its_last_use_is_taken_raises_an_event() {
    let server = Running::with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    subscribe(&server, &receiver, &json!(["link.limit-reached"])).await;
    server.link("few").max_visits(1).create().await;
    assert_eq!(server.follow("/few").await.status, 302);
    let received = &receiver.received;
    until("the event", async || {
        received.has("link.limit-reached", "few")
    })
    .await;
    assert_eq!(received.accepted().len(), 1);
}

#[tokio::test]
async fn event_when_link_has_a_password_does_not_carry_it() {
    let server = Running::with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    let all = json!(["link.created", "link.changed"]);
    subscribe(&server, &receiver, &all).await;
    server.link("a").password("sesame").create().await;
    let patch = json!({ "password": "another" });
    server.patch("/links/a", &patch).await.expect(200);
    let received = &receiver.received;
    until("the events", async || {
        received.has("link.created", "a") && received.has("link.changed", "a")
    })
    .await;
    for (_, event) in received.accepted() {
        assert_eq!(event["data"]["hasPassword"], true, "{event}");
        let text = event.to_string();
        for secret in ["sesame", "another", "argon2"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test]
async fn event_when_undelivered_at_a_restart_is_delivered_after() {
    let server = Running::with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    let (address, received) = receiver.kill().await;
    server.link("kept").create().await;
    let server = server.restart_with(&SETTINGS).await;
    let receiver = Receiver::at(address, received).await;
    until("the event", async || {
        receiver.received.has("link.created", "kept")
    })
    .await;
    assert_eq!(deliveries(&server, &path).await.len(), 1);
}

#[tokio::test]
async fn secret_when_replaced_still_signs_for_a_while() {
    let server = Running::with(&SETTINGS).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    let first = receiver.received.secret.lock().unwrap().clone();
    let rotate = server.api(Method::POST, &format!("{path}/rotate"));
    let rotated = send(rotate.json(&json!({ "overlapSeconds": 60 })))
        .await
        .expect(200);
    let ping = || async {
        let ping = server.api(Method::POST, &format!("{path}/ping"));
        send(ping).await.expect(202)["id"].clone()
    };
    for secret in [None, rotated["secret"].as_str()] {
        if let Some(secret) = secret {
            *receiver.received.secret.lock().unwrap() = secret.to_owned();
        }
        let id = ping().await;
        let has_come = || {
            receiver
                .received
                .accepted()
                .iter()
                .any(|(one, _)| *one == id)
        };
        until("the ping", async || has_come()).await;
    }
    assert!(server.get(&path).await.expect(200)["secret"].is_null());

    // The answer of a rotation is lost, and it is repeated: what the receiver has signs on.
    for _ in 0..2 {
        let rotate = server.api(Method::POST, &format!("{path}/rotate"));
        send(rotate.json(&json!({ "overlapSeconds": 60 })))
            .await
            .expect(200);
    }
    *receiver.received.secret.lock().unwrap() = first;
    let id = ping().await;
    let has_come = || {
        let accepted = receiver.received.accepted();
        accepted.iter().any(|(one, _)| *one == id)
    };
    until("the ping after two rotations", async || has_come()).await;
}

#[tokio::test]
async fn webhook_when_it_fails_for_too_long_is_disabled() {
    let mut settings = SETTINGS.to_vec();
    settings.push(("EDGELINK_WEBHOOKS_DISABLE_AFTER_SECONDS", "1"));
    settings.push(("EDGELINK_WEBHOOKS_MAX_ATTEMPTS", "100"));
    let server = Running::with(&settings).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    let (address, received) = receiver.kill().await;
    server.link("late").create().await;
    until("it is disabled", async || {
        let webhook = server.get(&path).await.expect(200);
        webhook["state"] == "disabled" && webhook["failingSince"].is_string()
    })
    .await;
    let receiver = Receiver::at(address, received).await;
    server
        .patch(&path, &json!({ "state": "active" }))
        .await
        .expect(200);
    until("what waited", async || {
        receiver.received.has("link.created", "late")
    })
    .await;
}

#[tokio::test]
async fn delivery_when_its_last_attempt_fails_is_given_up() {
    let mut settings = SETTINGS.to_vec();
    settings.push(("EDGELINK_WEBHOOKS_MAX_ATTEMPTS", "2"));
    let server = Running::with(&settings).await;
    let receiver = Receiver::start().await;
    let path = subscribe(&server, &receiver, &json!(["link.created"])).await;
    *receiver.received.refuses.lock().unwrap() = 2;
    send(server.api(Method::POST, &format!("{path}/ping")))
        .await
        .expect(202);
    until("it is given up", async || {
        let list = deliveries(&server, &path).await;
        list[0]["state"] == "failed"
    })
    .await;
    let delivery = deliveries(&server, &path).await.remove(0);
    assert_eq!(
        (&delivery["attempts"], &delivery["responseStatus"]),
        (&json!(2), &json!(500))
    );
    assert!(delivery["nextAt"].is_null());
}

#[tokio::test]
async fn webhook_when_its_address_is_private_is_refused() {
    let mut settings = SETTINGS.to_vec();
    settings.retain(|(name, _)| !name.ends_with("_NETWORKS"));
    let server = Running::with(&settings).await;
    let make = |url: String| {
        let body = json!({ "url": url });
        send(server.api(Method::POST, "/webhooks").json(&body))
    };
    for url in [
        "http://127.0.0.1/",
        "https://elsewhere.example/",
        "ftp://localhost/",
    ] {
        let refused = make(url.to_owned()).await;
        assert_eq!(refused.problem(422, "validation"), ["url"], "{url}");
    }
    let receiver = Receiver::start().await;
    let port = receiver.address.port();
    let webhook = make(format!("http://localhost:{port}/")).await.expect(201);
    let path = format!("/webhooks/{}", webhook["id"]);
    send(server.api(Method::POST, &format!("{path}/ping")))
        .await
        .expect(202);
    until("it is refused", async || {
        let list = deliveries(&server, &path).await;
        let error = list[0]["error"].as_str().unwrap_or_default();
        error.ends_with("is not public")
    })
    .await;
    assert!(receiver.received.accepted().is_empty());
}

#[tokio::test]
async fn tenant_when_it_has_20_webhooks_creates_no_more() {
    let server = Running::with(&SETTINGS).await;
    let make = || {
        let body = json!({ "url": "http://localhost/", "state": "paused" });
        send(server.api(Method::POST, "/webhooks").json(&body))
    };
    for _ in 0..20 {
        make().await.expect(201);
    }
    make().await.problem(409, "too-many-webhooks");
    let tenant = send(
        server
            .api(Method::POST, "/tenants")
            .json(&json!({ "name": "other" })),
    )
    .await;
    let key = tenant.expect(201)["adminKey"]["key"]
        .as_str()
        .unwrap()
        .to_owned();
    let others = server
        .plain(Method::GET, "/api/v1/webhooks")
        .header("x-api-key", key);
    assert_eq!(send(others).await.expect(200)["webhooks"], json!([]));
    let first = server.get("/webhooks?limit=1").await.expect(200);
    let path = format!("/webhooks/{}", first["webhooks"][0]["id"]);
    assert_eq!(server.delete(&path).await.status, 204);
    server.get(&path).await.problem(404, "not-found");
    make().await.expect(201);
}
