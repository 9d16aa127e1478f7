//! `GET /links`.

use crate::helpers::Running;
use serde_json::{Value, json};

fn codes(page: &Value) -> Vec<&str> {
    let links = page["links"].as_array().unwrap();
    links
        .iter()
        .map(|link| link["shortCode"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn links_when_paged_come_once_newest_first() {
    let server = Running::start().await;
    for number in 0..5 {
        let slug = format!("l{number}");
        server.link(&slug).create().await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for expected in [2, 2, 1] {
        let page = server
            .get(&format!("/links?limit=2{cursor}"))
            .await
            .expect(200);
        assert_eq!(codes(&page).len(), expected);
        seen.extend(codes(&page).into_iter().map(str::to_owned));
        cursor = page["nextCursor"]
            .as_str()
            .map(|next| format!("&cursor={next}"))
            .unwrap_or_default();
    }
    assert_eq!(seen, ["l4", "l3", "l2", "l1", "l0"]);
    assert_eq!(cursor, "");
    let page = server.get("/links?limit=5").await.expect(200);
    assert_eq!(page["nextCursor"], Value::Null);
}

#[tokio::test]
async fn links_when_listed_by_domain_are_its_own() {
    let server = Running::start().await;
    for (slug, domain) in [("a", "go.example:8080"), ("b", "other.example")] {
        server.link(slug).on(domain).create().await;
    }
    assert_eq!(
        codes(&server.get("/links?domain=other.example").await.expect(200)),
        ["b"]
    );
    assert_eq!(codes(&server.get("/links").await.expect(200)), ["b", "a"]);
    let deleted = server.delete("/links/a").await;
    assert_eq!(deleted.status, 204);
    assert_eq!(codes(&server.get("/links").await.expect(200)), ["b"]);
}

/// Three links: one with tags and a title, one that is disabled, one that has expired.
async fn with_links() -> Running {
    let server = Running::start().await;
    let to = "https://www.target.example/path";
    for body in [
        json!({ "longUrl": to, "customSlug": "Sale-1", "title": "Big Sale", "tags": ["a", "b c"] }),
        json!({ "longUrl": "https://x.example/", "customSlug": "off", "state": "disabled", "tags": ["a"] }),
        json!({ "longUrl": "https://x.example/", "customSlug": "over", "validUntil": "2001-01-01T00:00:00Z" }),
        json!({ "longUrl": to, "customSlug": "later", "validSince": "2999-01-01T00:00:00Z", "domain": "other.example" }),
    ] {
        server.post(&body).await.expect(201);
    }
    server
}

#[tokio::test]
async fn list_when_a_parameter_is_given_is_narrowed() {
    let server = with_links().await;
    for (query, expected) in [
        ("tags=a", &["off", "Sale-1"][..]),
        ("tags=a&tags=b+c", &["off", "Sale-1"]),
        ("tags=a&tags=b%20c&tagsMode=all", &["Sale-1"]),
        ("tags=A", &[]),
        ("excludeTags=b+c", &["later", "over", "off"]),
        ("excludeTags=a&excludeTags=x", &["later", "over"]),
        ("withoutTags=true", &["later", "over"]),
        ("withoutTags=false&tags=b+c", &["Sale-1"]),
        ("state=active", &["Sale-1"]),
        ("state=disabled", &["off"]),
        ("state=expired", &["over"]),
        ("state=scheduled", &["later"]),
        ("state=archived", &[]),
        (
            "createdAfter=2020-01-01T00:00:00Z",
            &["later", "over", "off", "Sale-1"],
        ),
        ("createdAfter=2999-01-01T00:00:00Z", &[]),
        ("createdBefore=2020-01-01T00:00:00Z", &[]),
        (
            "createdBefore=2999-01-01T00:00:00Z&domain=other.example",
            &["later"],
        ),
        ("externalId=none", &[]),
        ("searchTerm=sale", &["Sale-1"]),
        ("searchTerm=big+SALE", &["Sale-1"]),
        ("searchTerm=target.example", &["later", "Sale-1"]),
        (
            "searchTerm=https%3A%2F%2Ftarget.example%2Fpath",
            &["later", "Sale-1"],
        ),
        ("searchTerm=target.example%2Fother", &[]),
        ("searchTerm=target.example&tags=a", &["Sale-1"]),
        ("searchTerm=o", &["over", "off"]),
        ("orderBy=createdAt-asc", &["Sale-1", "off", "over", "later"]),
        (
            "orderBy=shortCode-asc&domain=go.example:8080",
            &["Sale-1", "off", "over"],
        ),
        (
            "orderBy=shortCode-desc&domain=go.example:8080",
            &["over", "off", "Sale-1"],
        ),
    ] {
        let page = server.get(&format!("/links?{query}")).await.expect(200);
        assert_eq!(codes(&page), expected, "{query}");
        assert_eq!(page["nextCursor"], Value::Null);
    }
}

#[tokio::test]
async fn cursor_when_continued_keeps_its_sort_order() {
    let server = with_links().await;
    for order in [
        "createdAt-desc",
        "createdAt-asc",
        "shortCode-asc",
        "shortCode-desc",
    ] {
        let path = format!("/links?domain=go.example:8080&orderBy={order}");
        let all = server.get(&path).await.expect(200);
        let first = server.get(&format!("{path}&limit=1")).await.expect(200);
        let next = first["nextCursor"].as_str().unwrap();
        let rest = format!("/links?domain=go.example:8080&cursor={next}");
        let rest = server.get(&rest).await.expect(200);
        assert_eq!(
            [codes(&first), codes(&rest)].concat(),
            codes(&all),
            "{order}"
        );
        let same = server
            .get(&format!("{path}&cursor={next}"))
            .await
            .expect(200);
        assert_eq!(same, rest);
        let other = if order == "createdAt-asc" {
            "createdAt-desc"
        } else {
            "createdAt-asc"
        };
        let path = format!("/links?orderBy={other}&cursor={next}");
        let refused = server.get(&path).await;
        assert_eq!(refused.problem(422, "validation"), ["cursor"]);
        assert!(
            refused.text().contains("another order"),
            "{}",
            refused.text()
        );
    }
}

#[tokio::test]
async fn page_when_no_limit_is_given_has_20_links() {
    let server = Running::start().await;
    let links: Vec<Value> = (0..101)
        .map(|n| json!({ "longUrl": format!("https://example.com/{n}") }))
        .collect();
    let created = server
        .api(reqwest::Method::POST, "/links/bulk")
        .json(&links);
    crate::helpers::send(created).await.expect(200);
    for (path, expected) in [("/links", 20), ("/links?limit=100", 100)] {
        let page = server.get(path).await.expect(200);
        assert_eq!(codes(&page).len(), expected);
        assert!(page["nextCursor"].is_string());
    }
}
