//! `Idempotency-Key`.

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

async fn post(server: &Running, path: &str, key: &str, body: &Value) -> Answer {
    let request = server
        .api(Method::POST, path)
        .header("idempotency-key", key);
    send(request.json(body)).await
}

async fn count(server: &Running) -> usize {
    server.all_links().await.len()
}

#[tokio::test]
async fn request_when_repeated_has_its_first_answer() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/", "title": "first" });
    let first = post(&server, "/links", "\"key-1\"", &body).await;
    let link = first.expect(201);
    assert_eq!(first.header("idempotency-replayed"), "");

    let path = format!("/links/{}", link["shortCode"].as_str().unwrap());
    server
        .patch(&path, &json!({ "title": "changed" }))
        .await
        .expect(200);
    let again = post(&server, "/links", "key-1", &body).await;
    assert_eq!(again.expect(201), link, "as it was then");
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(count(&server).await, 1);

    let other = post(&server, "/links", "key-2", &body).await.expect(201);
    assert_ne!(other["shortCode"], link["shortCode"]);
}

#[tokio::test]
async fn alias_when_repeated_with_its_key_is_not_taken() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/", "customSlug": "sale" });
    let first = post(&server, "/links", "k", &body).await.expect(201);
    assert_eq!(post(&server, "/links", "k", &body).await.expect(201), first);
    post(&server, "/links", "other", &body)
        .await
        .problem(409, "slug-taken");
}

#[tokio::test]
async fn idempotency_key_when_of_another_request_is_refused() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/", "title": "a" });
    post(&server, "/links", "k", &body).await.expect(201);
    let other = json!({ "longUrl": "https://example.com/", "title": "b" });
    post(&server, "/links", "k", &other)
        .await
        .problem(422, "idempotency-key-reused");
    assert_eq!(count(&server).await, 1);
}

#[tokio::test]
async fn idempotency_key_when_its_request_failed_stays_free() {
    let server = Running::start().await;
    let wrong = json!({ "longUrl": "nowhere" });
    post(&server, "/links", "k", &wrong)
        .await
        .problem(422, "validation");
    let right = json!({ "longUrl": "https://example.com/" });
    post(&server, "/links", "k", &right).await.expect(201);
}

#[tokio::test]
async fn idempotency_key_when_server_restarts_is_kept() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/" });
    let first = post(&server, "/links", "k", &body).await.expect(201);
    let server = server.restart().await;
    assert_eq!(post(&server, "/links", "k", &body).await.expect(201), first);
    assert_eq!(count(&server).await, 1);
}

#[tokio::test]
async fn requests_when_concurrent_with_one_key_create_one_link() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/", "customSlug": "once" });
    let generated = json!({ "longUrl": "https://example.com/" });
    for (key, body) in [("a", &body), ("b", &generated)] {
        let answers =
            futures_util::future::join_all((0..16).map(|_| post(&server, "/links", key, body)))
                .await;
        let links: Vec<Value> = answers.iter().map(|answer| answer.expect(201)).collect();
        assert!(links.iter().all(|link| *link == links[0]), "{links:?}");
        let new = answers
            .iter()
            .filter(|answer| answer.header("idempotency-replayed").is_empty());
        assert_eq!(new.count(), 1);
    }
    assert_eq!(count(&server).await, 2);
}

#[tokio::test]
async fn requests_when_concurrent_and_finding_create_one_link() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/", "findIfExists": true });
    let requests = (0..16).map(|_| send(server.api(Method::POST, "/links").json(&body)));
    let answers = futures_util::future::join_all(requests).await;
    let created = answers.iter().filter(|answer| answer.status == 201u16);
    assert_eq!(created.count(), 1);
    assert_eq!(count(&server).await, 1);
}

#[tokio::test]
async fn bulk_request_when_repeated_has_its_first_answer() {
    let server = Running::start().await;
    let item = |n: usize| json!({ "longUrl": format!("https://example.com/{n}"), "customSlug": format!("s{n}") });
    let items: Vec<Value> = (0..3).map(item).collect();
    let first = post(&server, "/links/bulk", "k", &json!(items))
        .await
        .expect(200);
    let again = post(&server, "/links/bulk", "k", &json!(items))
        .await
        .expect(200);
    assert_eq!(again, first);
    let more: Vec<Value> = (0..6).map(item).collect();
    for other in [json!(more), json!(items[..2]), json!([item(7)])] {
        post(&server, "/links/bulk", "k", &other)
            .await
            .problem(422, "idempotency-key-reused");
    }
    assert_eq!(count(&server).await, 3);
}

#[tokio::test]
async fn found_link_when_deleted_stays_the_repeated_answer() {
    let server = Running::start().await;
    let plain = json!({ "longUrl": "https://example.com/" });
    let made = server.post(&plain).await.expect(201);
    let find = json!({ "longUrl": "https://example.com/", "findIfExists": true });
    let found = post(&server, "/links", "k", &find).await.expect(200);
    assert_eq!(found["shortCode"], made["shortCode"]);
    let path = format!("/links/{}", made["shortCode"].as_str().unwrap());
    assert_eq!(server.delete(&path).await.status, 204);

    let again = post(&server, "/links", "k", &find).await;
    assert_eq!(again.expect(200), found);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(count(&server).await, 0);
}

#[tokio::test]
async fn bulk_answer_when_its_found_link_is_deleted_is_repeated() {
    let server = Running::start().await;
    let made = server
        .post(&json!({ "longUrl": "https://example.com/" }))
        .await
        .expect(201);
    let items = json!([
        { "longUrl": "https://example.com/", "findIfExists": true },
        { "longUrl": "https://example.com/other", "findIfExists": true },
    ]);
    let first = post(&server, "/links/bulk", "k", &items).await.expect(200);
    assert_eq!(
        (&first["created"], &first["existing"]),
        (&json!(1), &json!(1))
    );
    let path = format!("/links/{}", made["shortCode"].as_str().unwrap());
    assert_eq!(server.delete(&path).await.status, 204);
    let again = post(&server, "/links/bulk", "k", &items).await.expect(200);
    assert_eq!(again, first);
    assert_eq!(count(&server).await, 1);
}

#[tokio::test]
async fn idempotency_key_when_used_on_another_route_is_free() {
    let server = Running::start().await;
    let item = json!({ "longUrl": "https://example.com/" });
    let one = post(&server, "/links", "k", &item).await.expect(201);
    let many = post(&server, "/links/bulk", "k", &json!([item]))
        .await
        .expect(200);
    assert_ne!(many["results"][0]["link"]["shortCode"], one["shortCode"]);
    assert_eq!(count(&server).await, 2);
}

#[tokio::test]
async fn idempotency_key_when_invalid_is_refused() {
    let server = Running::start().await;
    let body = json!({ "longUrl": "https://example.com/" });
    for key in ["", "a b", "\"", &"k".repeat(256)] {
        post(&server, "/links", key, &body)
            .await
            .problem(400, "invalid-idempotency-key");
    }
    let twice = server
        .api(Method::POST, "/links")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    send(twice.json(&body))
        .await
        .problem(400, "invalid-idempotency-key");
    assert_eq!(count(&server).await, 0);
}
