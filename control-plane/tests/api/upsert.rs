//! `PUT /links`.

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

async fn put(server: &Running, body: &Value) -> Answer {
    send(server.api(Method::PUT, "/links").json(body)).await
}

#[tokio::test]
async fn link_when_put_is_created_and_then_changed() {
    let server = Running::start().await;
    let body = json!({ "externalId": "1", "longUrl": "https://example.com/", "title": "t", "utmSource": "s" });
    let created = put(&server, &body).await;
    let link = created.expect(201);
    let code = link["shortCode"].as_str().unwrap();
    assert_eq!(created.header("location"), format!("/api/v1/links/{code}"));
    let again = put(&server, &body).await;
    assert_eq!(again.expect(200), link);
    assert_eq!(
        again.header("etag"),
        created.header("etag"),
        "what changes nothing is no revision"
    );
    let body = json!({ "externalId": "1", "longUrl": "https://example.com/2", "tags": ["a"] });
    let changed = put(&server, &body).await.expect(200);
    let mut expected = link.clone();
    for (field, value) in [
        ("longUrl", json!("https://example.com/2")),
        ("tags", json!(["a"])),
        ("utmSource", json!(null)),
        ("updatedAt", changed["updatedAt"].clone()),
    ] {
        expected[field] = value;
    }
    assert_eq!(changed, expected);
    assert_eq!(
        server.get(&format!("/links/{code}")).await.expect(200),
        changed
    );
    server
        .follow(&format!("/{code}"))
        .await
        .redirects(302, "https://example.com/2");
}

#[tokio::test]
async fn link_when_put_with_another_code_or_domain_is_refused() {
    let server = Running::start().await;
    let body = json!({ "externalId": "1", "longUrl": "https://example.com/", "customSlug": "x", "domain": "other.example" });
    let link = put(&server, &body).await.expect(201);
    assert_eq!(put(&server, &body).await.expect(200), link);
    let bare = json!({ "externalId": "1", "longUrl": "https://example.com/" });
    assert_eq!(put(&server, &bare).await.expect(200), link);
    let with = |field: &str, value: &str| {
        let mut body = bare.clone();
        body[field] = json!(value);
        body
    };
    for (field, value) in [("customSlug", "y"), ("domain", "go.example:8080")] {
        let refused = put(&server, &with(field, value)).await;
        assert_eq!(refused.problem(409, "external-id-taken"), [field]);
    }
    // A code that another link has.
    let body = json!({ "externalId": "2", "longUrl": "https://example.com/", "customSlug": "x", "domain": "other.example" });
    put(&server, &body).await.problem(409, "slug-taken");
}

#[tokio::test]
async fn put_when_fields_are_wrong_names_them() {
    let server = Running::start().await;
    for (body, fields) in [
        (
            json!({ "longUrl": "https://example.com/" }),
            vec!["externalId"],
        ),
        (json!({ "externalId": "1" }), vec!["longUrl"]),
        (
            json!({ "externalId": "1", "longUrl": "https://example.com/", "findIfExists": true }),
            vec!["findIfExists"],
        ),
        (
            json!({ "externalId": "", "longUrl": "x", "state": "gone" }),
            vec!["longUrl", "externalId", "state"],
        ),
    ] {
        let refused = put(&server, &body).await;
        assert_eq!(refused.problem(422, "validation"), fields, "{body}");
    }
}

/// Also with a slug: the request that comes second finds both taken.
#[tokio::test]
async fn puts_when_concurrent_create_once_and_change() {
    let server = Arc::new(Running::start().await);
    for slug in [None, Some("x")] {
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let server = server.clone();
                tokio::spawn(async move {
                    let id = format!("of {slug:?}");
                    let target = format!("https://example.com/{number}");
                    let body = json!({ "externalId": id, "longUrl": target, "customSlug": slug });
                    let answer = put(&server, &body).await;
                    let status = answer.status.as_u16();
                    (
                        status,
                        answer.json()["shortCode"].as_str().unwrap().to_owned(),
                    )
                })
            })
            .collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        let created = answers.iter().filter(|(status, _)| *status == 201).count();
        let changed = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!((created, changed), (1, 15), "{answers:?}");
        let codes: HashSet<&String> = answers.iter().map(|(_, code)| code).collect();
        assert_eq!(codes.len(), 1);
    }
}
