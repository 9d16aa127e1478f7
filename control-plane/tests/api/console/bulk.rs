//! Many links at once: made by lines, and changed by boxes.

use super::browser::{Browser, problem_at, start};
use crate::helpers::Running;
use serde_json::{Value, json};

async fn three(server: &Running) {
    for slug in ["one", "two", "three"] {
        server.link(slug).tags(&["old"]).create().await;
    }
}

const ONE: (&str, &str) = ("link", "go.example:8080/one");
const TWO: (&str, &str) = ("link", "go.example:8080/two");

async fn of(server: &Running, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for slug in ["one", "two", "three"] {
        found.push(server.get(&format!("/links/{slug}")).await.expect(200)[field].take());
    }
    found
}

#[tokio::test]
async fn links_when_selected_are_changed() {
    let server = start().await;
    three(&server).await;
    let mut browser = Browser::admin(&server).await;
    let change = |action, tag| vec![ONE, TWO, ("action", action), ("tag", tag)];
    for (action, tag, field, expected) in [
        (
            "disable",
            "",
            "state",
            json!(["disabled", "disabled", "active"]),
        ),
        ("enable", "", "state", json!(["active", "active", "active"])),
        ("archive", "", "archived", json!([true, true, false])),
        (
            "tag",
            "new",
            "tags",
            json!([["new", "old"], ["new", "old"], ["old"]]),
        ),
        ("untag", "old", "tags", json!([["new"], ["new"], ["old"]])),
    ] {
        let answer = browser.post("/console/links", &change(action, tag)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("Done: 2 of 2"), "{action}");
        assert_eq!(json!(of(&server, field).await), expected, "{action}");
    }
}

#[tokio::test]
async fn bulk_tag_when_undone_is_removed_only_where_added() {
    let server = start().await;
    three(&server).await;
    server
        .patch("/links/two", &json!({ "tags": ["new", "old"] }))
        .await
        .expect(200);
    let mut browser = Browser::admin(&server).await;
    let before = json!([["old"], ["new", "old"], ["old"]]);
    let change = [ONE, TWO, ("action", "tag"), ("tag", "new")];
    let answer = browser.post("/console/links", &change).await;
    let page = answer.text();
    let undo = [
        "name=\"action\" value=\"untag\"",
        "name=\"tag\" value=\"new\"",
        "name=\"link\" value=\"go.example:8080/one\"",
    ];
    assert!(undo.iter().all(|field| page.contains(field)), "{page}");
    assert!(!page.contains("name=\"link\" value=\"go.example:8080/two\""));
    browser
        .post(
            "/console/links",
            &[ONE, ("action", "untag"), ("tag", "new")],
        )
        .await;
    assert_eq!(json!(of(&server, "tags").await), before);
    // Nothing has changed: there is nothing to undo.
    let answer = browser
        .post(
            "/console/links",
            &[ONE, ("action", "untag"), ("tag", "new")],
        )
        .await;
    assert!(!answer.text().contains("Undo"), "{}", answer.text());
}

#[tokio::test]
async fn bulk_deletion_when_undone_restores_links() {
    let server = start().await;
    three(&server).await;
    let mut browser = Browser::admin(&server).await;
    let gone = ("link", "go.example:8080/gone");
    let answer = browser
        .post("/console/links", &[ONE, TWO, gone, ("action", "delete")])
        .await;
    let page = answer.text();
    assert!(
        page.contains("Done: 2 of 3") && page.contains("There is no such link"),
        "{page}"
    );
    assert_eq!(
        page.matches("type=\"hidden\" name=\"link\"").count(),
        2,
        "those that can be restored"
    );
    assert_eq!(server.all_links().await.len(), 1);
    let answer = browser.post("/console/restore", &[ONE, TWO]).await;
    assert!(answer.text().contains("Done: 2 of 2"));
    assert_eq!(server.all_links().await.len(), 3);
}

#[tokio::test]
async fn bulk_change_when_incomplete_names_the_missing_field() {
    let server = start().await;
    three(&server).await;
    let mut browser = Browser::admin(&server).await;
    for (fields, named) in [
        (vec![("action", "delete")], "link: select at least one link"),
        (vec![ONE, ("action", "tag")], "tag: is required"),
        (vec![ONE, ("action", "sell")], "action: is unknown"),
    ] {
        let answer = browser.post("/console/links", &fields).await;
        assert_eq!(answer.status, 422);
        assert!(answer.text().contains(named), "{}", answer.text());
    }
    assert_eq!(server.all_links().await.len(), 3);
}

#[tokio::test]
async fn lines_when_there_are_more_than_10_000_are_refused_as_a_whole() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let lines = "a\n".repeat(10_001);
    let answer = browser
        .post("/console/create-many", &[("lines", &lines)])
        .await;
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("at most 10000 items"));
}

#[tokio::test]
async fn lines_when_submitted_create_a_link_each() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    browser.page("/console/create-many").await;
    let lines = "https://example.com/a\r\n\r\n https://example.com/b  bee \r\nnowhere";
    let fields = [("lines", lines), ("tags", "x"), ("domain", "other.example")];
    let answer = browser.post("/console/create-many", &fields).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("other.example/bee") && answer.text().contains("longUrl: "));
    let links = server.all_links().await;
    assert_eq!(links.len(), 2);
    assert!(links.iter().all(|link| link["tags"] == json!(["x"])));
    let answer = browser
        .post("/console/create-many", &[("lines", " \r\n")])
        .await;
    assert_eq!(answer.status, 422);
    assert_eq!(problem_at(answer.text(), "lines"), "is required");
}
