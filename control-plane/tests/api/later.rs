//! Links with properties of a later version, as a control plane of before meets them during an upgrade and on the way
//! back.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, Executor, SqliteConnection};

const DETAILS: &str = r#"{"notes":"n","next":{"a":[1]}}"#;

async fn details(server: &Running) -> String {
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let query = "SELECT CAST(details AS CHAR) FROM links WHERE code = 'later'";
    sqlx::query_scalar(query)
        .fetch_one(&mut database)
        .await
        .unwrap()
}

/// A server with the links `known` and `later`.
async fn with_links() -> Running {
    let server = Running::start().await;
    for slug in ["known", "later"] {
        server.link(slug).tags(&["t"]).create().await;
    }
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let update = sqlx::query("UPDATE links SET details = ? WHERE code = 'later'").bind(DETAILS);
    database.execute(update).await.unwrap();
    // It has forgotten their records then.
    server.restart().await
}

#[tokio::test]
async fn link_when_of_a_later_version_is_shown_and_not_followed() {
    let server = with_links().await;
    assert_eq!(server.all_links().await.len(), 2);
    assert_eq!(server.get("/links/later").await.expect(200)["notes"], "n");
    server.follow("/later").await.page(503, "");
    let record = server.resolve("go.example:8080/later").await;
    assert!(record.status.is_server_error(), "{record:?}");
    server
        .follow("/known")
        .await
        .redirects(302, "https://example.com/");
}

#[tokio::test]
async fn link_when_of_a_later_version_keeps_its_fields() {
    let server = with_links().await;
    let patch = json!({ "title": "T" });
    let refused = server.patch("/links/later", &patch).await.refused(500);
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("later version"),
        "{refused}"
    );
    let patches = json!([
        { "shortCode": "later", "title": "T" },
        { "shortCode": "known", "title": "T" },
    ]);
    let changed = server.api(Method::PATCH, "/links/bulk").json(&patches);
    let changed = send(changed).await.expect(200);
    assert_eq!(
        (&changed["changed"], &changed["failed"]),
        (&json!(1), &json!(1))
    );
    let moved = server.api(Method::POST, "/links/later/move");
    let moved = send(moved.json(&json!({ "customSlug": "moved" }))).await;
    moved.refused(500);
    let renamed = server
        .api(Method::PATCH, "/tags/t")
        .json(&json!({ "tag": "u" }));
    let renamed = send(renamed).await;
    assert!(renamed.status.is_success(), "{renamed:?}");
    assert_eq!(
        server.get("/links/later").await.expect(200)["tags"],
        json!(["u"])
    );
    assert_eq!(details(&server).await, DETAILS);
    assert_eq!(server.delete("/links/later").await.status, 204);
    assert_eq!(details(&server).await, DETAILS);
    let restored = send(server.api(Method::POST, "/links/later/restore")).await;
    restored.refused(500);
    assert_eq!(server.follow("/later").await.status, 404);
}
