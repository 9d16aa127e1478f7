//! `PATCH` and `DELETE /links/{code}`.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn patch_when_fields_are_named_changes_them_and_null_clears() {
    let server = Running::start().await;
    let link = server
        .post(&json!({
            "longUrl": "https://example.com/1", "customSlug": "x", "title": "t", "tags": ["a"], "notes": "a\nb", "redirectStatus": 301,
            "forwardQuery": false, "state": "disabled",
            "validSince": "2026-01-01T00:00:00Z", "validUntil": "2027-01-01T00:00:00Z",
        }))
        .await
        .expect(201);
    let changed = server
        .patch(
            "/links/x",
            &json!({ "longUrl": "https://example.com/2", "tags": ["c", "b"] }),
        )
        .await
        .expect(200);
    let mut expected = link.clone();
    expected["longUrl"] = json!("https://example.com/2");
    expected["tags"] = json!(["b", "c"]);
    expected["updatedAt"] = changed["updatedAt"].clone();
    assert_eq!(changed, expected);

    let nulls = json!({
        "title": null, "tags": null, "notes": null, "redirectStatus": null, "forwardQuery": null, "state": null,
        "validSince": null, "validUntil": null,
    });
    let cleared = server.patch("/links/x", &nulls).await.expect(200);
    expected["updatedAt"] = cleared["updatedAt"].clone();
    for (field, value) in [
        ("title", json!(null)),
        ("tags", json!([])),
        ("notes", json!(null)),
        ("redirectStatus", json!(302)),
        ("forwardQuery", json!(true)),
        ("state", json!("active")),
        ("validSince", json!(null)),
        ("validUntil", json!(null)),
    ] {
        expected[field] = value;
    }
    assert_eq!(cleared, expected);
    assert_eq!(server.get("/links/x").await.expect(200), expected);
}

#[tokio::test]
async fn patch_when_fields_are_wrong_changes_nothing() {
    let server = Running::start().await;
    let link = server.link("x").valid_since("2027-01-01T00:00:00Z");
    let link = link.create().await;
    for (body, fields) in [
        (json!({ "longUrl": null }), vec!["longUrl"]),
        (
            json!({ "longUrl": "ftp://x", "title": 1 }),
            vec!["longUrl", "title"],
        ),
        (
            json!({ "shortCode": "y", "domain": "other.example" }),
            vec!["domain", "shortCode"],
        ),
        (json!({ "customSlug": "y" }), vec!["customSlug"]),
        // Against the beginning that the link has already.
        (
            json!({ "title": "new", "validUntil": "2026-01-01T00:00:00Z" }),
            vec!["validUntil"],
        ),
    ] {
        let mut named = server
            .patch("/links/x", &body)
            .await
            .problem(422, "validation");
        named.sort();
        assert_eq!(named, fields, "{body}");
    }
    assert_eq!(server.get("/links/x").await.expect(200), link.body);
    server
        .patch("/links/absent", &json!({ "title": "x" }))
        .await
        .problem(404, "link-not-found");
}

#[tokio::test]
async fn patch_when_sent_as_merge_patch_is_accepted() {
    let server = Running::start().await;
    server.link("x").create().await;
    let request = server
        .api(Method::PATCH, "/links/x")
        .header("content-type", "application/merge-patch+json");
    assert_eq!(
        send(request.body(r#"{"title":"t"}"#)).await.expect(200)["title"],
        "t"
    );
}

#[tokio::test]
async fn link_when_deleted_is_gone_and_frees_its_alias() {
    let server = Running::start().await;
    server.link("x").on("other.example").create().await;
    server
        .delete("/links/x")
        .await
        .problem(404, "link-not-found");
    let answer = server.delete("/links/x?domain=other.example").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    server
        .delete("/links/x?domain=other.example")
        .await
        .problem(404, "link-not-found");
    server
        .get("/links/x?domain=other.example")
        .await
        .problem(404, "link-not-found");
    server.link("x").on("other.example").create().await;
}

#[tokio::test]
async fn etag_when_link_changes_differs() {
    let server = Running::start().await;
    let created = server.link("x").answer().await;
    let first = created.header("etag");
    assert!(first.starts_with('"') && first.ends_with('"'), "{first}");
    assert_eq!(server.get("/links/x").await.header("etag"), first);
    let changed = server.patch("/links/x", &json!({ "title": "t" })).await;
    assert_ne!(changed.header("etag"), first);
    let read = server.get("/links/x").await;
    assert_eq!(read.header("etag"), changed.header("etag"));
}

#[tokio::test]
async fn link_when_etag_matches_is_not_sent_again() {
    let server = Running::start().await;
    let created = server.link("x").answer().await;
    let tag = created.header("etag").to_owned();
    let get = |tags: &str| {
        let request = server.api(Method::GET, "/links/x");
        send(request.header("if-none-match", tags))
    };
    for tags in [&tag, &format!("W/{tag}"), &format!("\"1\", {tag}"), "*"] {
        let answer = get(tags).await;
        assert_eq!(answer.status, 304, "{tags}");
        assert_eq!(answer.header("etag"), tag);
        assert!(answer.body.is_empty());
    }
    get("\"1\"").await.expect(200);
    server
        .patch("/links/x", &json!({ "title": "t" }))
        .await
        .expect(200);
    assert_eq!(get(&tag).await.expect(200)["title"], "t");
    server.delete("/links/x").await;
    get(&tag).await.problem(404, "link-not-found");
}

#[tokio::test]
async fn change_when_if_match_is_outdated_is_refused() {
    let server = Running::start().await;
    let created = server.link("x").answer().await;
    let patch = |tag: &str, title: &str| {
        let request = server
            .api(Method::PATCH, "/links/x")
            .header("if-match", tag);
        send(request.json(&json!({ "title": title })))
    };
    let one = created.header("etag").to_owned();
    let changed = patch(&one, "first").await;
    changed.expect(200);
    let two = changed.header("etag").to_owned();
    for tag in [
        &one,
        &format!("W/{two}"),
        two.trim_matches('"'),
        "\"\"",
        "x",
    ] {
        patch(tag, "lost").await.problem(412, "precondition-failed");
    }
    patch(&format!("{one}, {two}"), "second").await.expect(200);
    let third = patch("*", "third").await;
    assert_eq!(third.expect(200)["title"], "third");
    let four = third.header("etag").to_owned();

    let delete = |tag: &str| {
        let request = server.api(Method::DELETE, "/links/x");
        send(request.header("if-match", tag))
    };
    for tag in [&two, &format!("W/{four}"), "x"] {
        delete(tag).await.problem(412, "precondition-failed");
    }
    assert_eq!(delete(&four).await.status, 204);
    delete("*").await.problem(404, "link-not-found");
    let absent = server
        .api(Method::PATCH, "/links/y")
        .header("if-match", "*");
    let absent = send(absent.json(&json!({}))).await;
    absent.problem(404, "link-not-found");
}

#[tokio::test]
async fn patches_when_concurrent_with_one_etag_let_one_win() {
    let server = std::sync::Arc::new(Running::start().await);
    let created = server.link("x").answer().await;
    let tag = created.header("etag");
    let patch = |number: usize| {
        let (server, tag) = (server.clone(), tag.to_owned());
        tokio::spawn(async move {
            let request = server
                .api(Method::PATCH, "/links/x")
                .header("if-match", tag);
            let title = number.to_string();
            send(request.json(&json!({ "title": title })))
                .await
                .status
                .as_u16()
        })
    };
    let tasks: Vec<_> = (0..20).map(patch).collect();
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200, "{statuses:?}");
    assert!(
        statuses[1..].iter().all(|status| *status == 412),
        "{statuses:?}"
    );
}
