//! `POST /links/{code}/restore` and `/links/{code}/move`.

use crate::helpers::{Answer, Running, send};
use edgelink_tests::link::CreatedLink;
use reqwest::Method;
use serde_json::{Value, json};

async fn restore(server: &Running, path: &str) -> Answer {
    send(server.api(Method::POST, &format!("/links/{path}"))).await
}

async fn relocate(server: &Running, code: &str, body: &Value) -> Answer {
    let request = server.api(Method::POST, &format!("/links/{code}/move"));
    send(request.json(body)).await
}

/// Creates the link `x` with every property.
async fn full(server: &Running) -> CreatedLink<Answer> {
    let link = server.link("x").to("https://example.com/?a=1").title("t");
    let link = link.tags(&["a"]).with("notes", "n").redirect_status(308);
    let link = link.with("externalId", "1").with("archived", true);
    let link = link.valid_since("2026-01-01T00:00:00Z");
    let link = link.valid_until("2099-01-01T00:00:00Z");
    link.with("forwardQuery", false).create().await
}

#[tokio::test]
async fn deleted_link_when_restored_is_as_before() {
    let server = Running::start().await;
    let link = full(&server).await;
    server.delete("/links/x").await;
    server.follow("/x").await.page(404, "");
    let restored = restore(&server, "x/restore").await;
    let mut expected = link.body.clone();
    expected["updatedAt"] = restored.expect(200)["updatedAt"].clone();
    assert_eq!(restored.json(), expected);
    assert_ne!(restored.header("etag"), link.answer.header("etag"));
    server
        .follow("/x")
        .await
        .redirects(308, "https://example.com/?a=1");
    assert_eq!(server.get("/links/x").await.expect(200), expected);
    let page = server.get("/links").await.expect(200);
    assert_eq!(page["links"], json!([expected]));
    // And once more, with its end and its external id.
    let deleted = server.delete("/links/x").await;
    let request = |tag: &str| {
        let request = server.api(Method::POST, "/links/x/restore");
        send(request.header("if-match", tag))
    };
    let outdated = restored.header("etag");
    request(outdated).await.problem(412, "precondition-failed");
    let again = request(deleted.header("etag")).await.expect(200);
    assert_eq!(again["validUntil"], link["validUntil"]);
    assert_eq!(again["externalId"], "1");
}

#[tokio::test]
async fn restoration_when_not_possible_is_refused() {
    let server = Running::start().await;
    restore(&server, "x/restore")
        .await
        .problem(404, "link-not-found");
    full(&server).await;
    restore(&server, "x/restore")
        .await
        .problem(409, "not-deleted");
    restore(&server, "x/restore?domain=other.example")
        .await
        .problem(404, "link-not-found");
    server.delete("/links/x").await;
    // Another link has taken its external id, and then its code.
    server.link("y").with("externalId", "1").create().await;
    restore(&server, "x/restore")
        .await
        .problem(409, "external-id-taken");
    server.link("x").create().await;
    restore(&server, "x/restore")
        .await
        .problem(409, "not-deleted");
}

#[tokio::test]
async fn link_when_moved_keeps_all_and_leaves_its_old_key() {
    let server = Running::start().await;
    let link = full(&server).await;
    let body = json!({ "customSlug": "y", "domain": "other.example" });
    let moved = relocate(&server, "x", &body).await;
    let mut expected = link.body.clone();
    for (field, value) in [
        ("shortCode", json!("y")),
        ("domain", json!("other.example")),
        ("shortUrl", json!("https://other.example/y")),
        ("updatedAt", moved.expect(201)["updatedAt"].clone()),
    ] {
        expected[field] = value;
    }
    assert_eq!(moved.json(), expected);
    assert_eq!(
        moved.header("location"),
        "/api/v1/links/y?domain=other%2Eexample"
    );
    let found = server
        .get("/links/y?domain=other.example")
        .await
        .expect(200);
    assert_eq!(found, expected);
    server.get("/links/x").await.problem(404, "link-not-found");
    server.follow("/x").await.page(404, "");
    // Back, over the tombstone.
    let request = server.api(Method::POST, "/links/y/move?domain=other.example");
    let body = json!({ "customSlug": "x", "domain": "go.example:8080" });
    let back = send(request.json(&body)).await.expect(201);
    assert_eq!(back["shortUrl"], link["shortUrl"]);
    server
        .follow("/x")
        .await
        .redirects(308, "https://example.com/?a=1");
}

#[tokio::test]
async fn old_link_when_kept_at_a_move_still_redirects() {
    let server = Running::start().await;
    let link = full(&server).await;
    let body = json!({ "customSlug": "y", "keepOld": true });
    let moved = relocate(&server, "x", &body).await.expect(201);
    assert_eq!(moved["externalId"], "1");
    let kept = server.get("/links/x").await.expect(200);
    let mut expected = link.body;
    expected["externalId"] = json!(null);
    expected["updatedAt"] = kept["updatedAt"].clone();
    assert_eq!(kept, expected);
    for path in ["/x", "/y"] {
        server
            .follow(path)
            .await
            .redirects(308, "https://example.com/?a=1");
    }
    // Without an external id the old link does not change at all.
    let tag = server.get("/links/x").await.header("etag").to_owned();
    let body = json!({ "customSlug": "z", "keepOld": true });
    relocate(&server, "x", &body).await.expect(201);
    assert_eq!(server.get("/links/x").await.header("etag"), tag);
}

#[tokio::test]
async fn move_when_not_possible_changes_nothing() {
    let server = Running::start().await;
    let link = full(&server).await;
    server.link("y").create().await;
    let to = |slug: &str| json!({ "customSlug": slug });
    relocate(&server, "absent", &to("z"))
        .await
        .problem(404, "link-not-found");
    relocate(&server, "x", &to("y"))
        .await
        .problem(409, "slug-taken");
    for (body, field) in [
        (json!({}), "customSlug"),
        (to("x"), "customSlug"),
        (json!({ "domain": "go.example:8080" }), "customSlug"),
        (to("a b"), "customSlug"),
        (json!({ "domain": "unknown.example" }), "domain"),
        (json!({ "customSlug": "z", "keepOld": 1 }), "keepOld"),
        (json!({ "customSlug": "z", "title": "t" }), "title"),
    ] {
        let refused = relocate(&server, "x", &body).await;
        assert_eq!(refused.problem(422, "validation"), [field], "{body}");
    }
    let request = server.api(Method::POST, "/links/x/move");
    let request = request.header("if-match", "\"1\"").json(&to("z"));
    send(request).await.problem(412, "precondition-failed");
    let found = server.get("/links/x").await;
    assert_eq!(found.header("etag"), link.answer.header("etag"));
    server.get("/links/z").await.problem(404, "link-not-found");
}

#[tokio::test]
async fn history_when_a_link_changes_names_actor_and_change() {
    let server = Running::start().await;
    full(&server).await;
    let history = async |code: &str| {
        let page = server.get(&format!("/links/{code}/history")).await;
        let entries = page.expect(200)["entries"].as_array().unwrap().clone();
        for entry in &entries {
            let actor = entry["actor"].as_str().unwrap();
            assert!(server.admin_key.contains(actor), "{actor}");
            assert_eq!(entry["subject"], format!("link:go.example:8080/{code}"));
        }
        let brief = |entry: &Value| (entry["action"].clone(), entry["detail"].clone());
        entries.iter().map(brief).collect::<Vec<_>>()
    };
    assert_eq!(
        history("x").await,
        [],
        "the link itself says who created it"
    );
    let body = json!({ "title": "u", "notes": null });
    server.patch("/links/x", &body).await.expect(200);
    let body = json!({ "title": "refused", "longUrl": "ftp://x" });
    server
        .patch("/links/x", &body)
        .await
        .problem(422, "validation");
    server.delete("/links/x").await;
    server
        .get("/links/x/history")
        .await
        .problem(404, "link-not-found");
    restore(&server, "x/restore").await.expect(200);
    let items = json!([{ "shortCode": "x", "tags": [] }, { "shortCode": "absent", "tags": [] }]);
    let request = server.api(Method::PATCH, "/links/bulk").json(&items);
    send(request).await.expect(200);
    let body = json!({ "externalId": "1", "longUrl": "https://example.com/2" });
    send(server.api(Method::PUT, "/links").json(&body))
        .await
        .expect(200);
    let body = json!({ "customSlug": "y", "keepOld": true });
    relocate(&server, "x", &body).await.expect(201);
    let target = json!({ "longUrl": "https://example.com/?a=1" });
    let moved = json!({ "to": "go.example:8080/y", "keepOld": true });
    let changes = [
        ("link.move", moved),
        (
            "link.update",
            json!({ "longUrl": { "from": "https://example.com/?a=1", "to": "https://example.com/2" } }),
        ),
        (
            "link.update",
            json!({ "tags": { "from": ["a"], "to": [] } }),
        ),
        ("link.restore", target.clone()),
        ("link.delete", target),
        (
            "link.update",
            json!({ "title": { "from": "t", "to": "u" }, "notes": { "from": "n", "to": null } }),
        ),
    ];
    let expected = changes.map(|(action, detail)| (json!(action), detail));
    assert_eq!(history("x").await, expected);
    let from = json!({ "from": "go.example:8080/x" });
    assert_eq!(history("y").await, [(json!("link.move"), from)]);

    let page = server.get("/links/x/history?limit=4").await.expect(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let path = format!("/links/x/history?limit=4&cursor={cursor}");
    let rest = server.get(&path).await.expect(200);
    assert_eq!(rest["entries"].as_array().unwrap().len(), 2);
    let wrong = server.get("/links/x/history?limit=0&page=2").await;
    assert_eq!(wrong.problem(422, "validation"), ["limit", "page"]);
}
