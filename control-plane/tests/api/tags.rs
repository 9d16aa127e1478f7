//! `/tags`.

use crate::helpers::Running;
use serde_json::{Value, json};

async fn all(server: &Running) -> Vec<(String, u64)> {
    let page = server.get("/tags?limit=100").await.expect(200);
    let tags = page["tags"].as_array().unwrap().iter();
    let pair = |tag: &Value| {
        let name = tag["tag"].as_str().unwrap().to_owned();
        (name, tag["links"].as_u64().unwrap())
    };
    tags.map(pair).collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = |(tag, links): &(&str, u64)| ((*tag).to_owned(), *links);
    expected.iter().map(owned).collect()
}

#[tokio::test]
async fn tags_when_listed_have_their_number_of_links() {
    let server = Running::start().await;
    assert_eq!(
        server.get("/tags").await.expect(200),
        json!({ "tags": [], "nextCursor": null })
    );
    server.link("one").tags(&["team/red", "a"]).create().await;
    server.link("two").tags(&["team/blue", "a"]).create().await;
    assert_eq!(
        all(&server).await,
        pairs(&[("a", 2), ("team/blue", 1), ("team/red", 1)])
    );
    let page = server.get("/tags?prefix=team/&limit=1").await.expect(200);
    assert_eq!(
        page["tags"],
        json!([{ "tag": "team/blue", "links": 1, "atLeast": false }])
    );
    let next = page["nextCursor"].as_str().unwrap();
    let page = server
        .get(&format!("/tags?prefix=team/&limit=1&cursor={next}"))
        .await;
    let page = page.expect(200);
    assert_eq!(page["tags"][0]["tag"], "team/red");
    assert_eq!(page["nextCursor"], Value::Null);
    server.delete("/links/one").await;
    server
        .patch("/links/two", &json!({ "tags": ["b"] }))
        .await
        .expect(200);
    assert_eq!(all(&server).await, pairs(&[("b", 1)]));
}

#[tokio::test]
async fn tag_when_renamed_changes_the_etag_of_its_links() {
    let server = Running::start().await;
    server.link("one").tags(&["team/red", "z"]).create().await;
    let before = server.get("/links/one").await;
    let renamed = server
        .patch("/tags/team%2Fred", &json!({ "tag": "\u{e4} b" }))
        .await;
    assert_eq!(renamed.expect(200), json!({ "links": 1, "complete": true }));
    let after = server.get("/links/one").await;
    assert_eq!(after.expect(200)["tags"], json!(["z", "\u{e4} b"]));
    assert_ne!(before.header("etag"), after.header("etag"));
    let found = server.get("/links?tags=%C3%A4+b").await.expect(200);
    assert_eq!(found["links"].as_array().unwrap().len(), 1);
    // A client that has read the tags before does not overwrite them.
    let stale = server
        .api(reqwest::Method::PATCH, "/links/one")
        .header("if-match", before.header("etag"));
    let stale = crate::helpers::send(stale.json(&json!({ "tags": [] }))).await;
    stale.problem(412, "precondition-failed");
}

#[tokio::test]
async fn tags_when_no_merge_is_asked_for_stay_apart() {
    let server = Running::start().await;
    server.link("one").tags(&["a"]).create().await;
    server.link("two").tags(&["a", "b"]).create().await;
    let refused = server.patch("/tags/a", &json!({ "tag": "b" })).await;
    assert_eq!(refused.problem(409, "tag-taken"), ["tag"]);
    assert_eq!(all(&server).await, pairs(&[("a", 2), ("b", 1)]));
    let merged = server
        .patch("/tags/a", &json!({ "tag": "b", "merge": true }))
        .await;
    assert_eq!(merged.expect(200), json!({ "links": 2, "complete": true }));
    assert_eq!(all(&server).await, pairs(&[("b", 2)]));
}

#[tokio::test]
async fn tag_when_deleted_is_removed_from_all_links() {
    let server = Running::start().await;
    server.link("one").tags(&["a"]).create().await;
    server.link("two").tags(&["a", "b"]).create().await;
    let removed = server.delete("/tags/a").await;
    assert_eq!(removed.expect(200), json!({ "links": 2, "complete": true }));
    assert_eq!(all(&server).await, pairs(&[("b", 1)]));
    server.delete("/tags/a").await.problem(404, "tag-not-found");
}

#[tokio::test]
async fn tag_when_of_too_many_links_is_changed_by_several_requests() {
    let server = Running::start().await;
    for _ in 0..2 {
        let links: Vec<Value> = (0..5_200)
            .map(|n| json!({ "longUrl": format!("https://example.com/{n}"), "tags": ["many"] }))
            .collect();
        let created = server
            .api(reqwest::Method::POST, "/links/bulk")
            .json(&links);
        let created = crate::helpers::send(created).await.expect(200);
        assert_eq!(created["created"], 5_200);
    }
    let page = server.get("/tags").await.expect(200);
    assert_eq!(
        page["tags"],
        json!([{ "tag": "many", "links": 1000, "atLeast": true }])
    );
    let first = server
        .patch("/tags/many", &json!({ "tag": "more" }))
        .await
        .expect(200);
    assert_eq!(first["complete"], false);
    let second = json!({ "tag": "more" });
    let second = server.patch("/tags/many", &second).await.expect(200);
    assert_eq!(second["complete"], true);
    let changed = |answer: &Value| answer["links"].as_u64().unwrap();
    assert_eq!(changed(&first) + changed(&second), 10_400);
    server
        .patch("/tags/many", &json!({ "tag": "x" }))
        .await
        .problem(404, "tag-not-found");
}

#[tokio::test]
async fn tag_when_unknown_or_its_fields_are_wrong_is_refused() {
    let server = Running::start().await;
    server.link("one").tags(&["a"]).create().await;
    for (body, fields) in [
        (json!({}), vec!["tag"]),
        (json!({ "tag": "" }), vec!["tag"]),
        (json!({ "tag": "a" }), vec!["tag"]),
        (
            json!({ "tag": 1, "merge": "yes", "x": 1 }),
            vec!["tag", "merge", "x"],
        ),
        (json!({ "tag": "a".repeat(65) }), vec!["tag"]),
    ] {
        let answer = server.patch("/tags/a", &body).await;
        assert_eq!(answer.problem(422, "validation"), fields, "{body}");
    }
    for tag in ["b", "A", "%FF", "%0A", &"a".repeat(65)] {
        let path = format!("/tags/{tag}");
        let renamed = server.patch(&path, &json!({ "tag": "c" })).await;
        renamed.problem(404, "tag-not-found");
        server.delete(&path).await.problem(404, "tag-not-found");
    }
    assert_eq!(
        server
            .delete("/tags/a?x=1")
            .await
            .problem(422, "validation"),
        ["x"]
    );
    server
        .get("/tags/a")
        .await
        .problem(405, "method-not-allowed");
}
