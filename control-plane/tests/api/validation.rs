//! Fields that break a rule: 422 with the names of all of them.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn parameter_when_unknown_is_refused_by_every_route() {
    let server = Running::start().await;
    let document = server.follow("/openapi.json").await.json();
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path = path.strip_prefix("/api/v1").unwrap();
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let path = path.replace("{code}", "x").replace("{id}", "1");
            let path = path.replace("{name}", "go.example%3A8080");
            let path = path.replace("{tag}", "x");
            let request = server.api(method.clone(), &format!("{path}?colour=red"));
            let answer = send(request.json(&json!({}))).await;
            assert_eq!(answer.status, 422, "{method} {path}: {}", answer.text());
            let fields = answer.problem(422, "validation");
            assert!(
                fields.contains(&"colour".to_owned()),
                "{method} {path}: {fields:?}"
            );
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[tokio::test]
async fn field_when_wrong_is_named() {
    let server = Running::start().await;
    let url = "https://example.com/";
    let title = "a".repeat(513);
    let notes = "a".repeat(4097);
    let tags: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    for (body, fields) in [
        (json!({}), vec!["longUrl"]),
        (json!({ "longUrl": null }), vec!["longUrl"]),
        (json!({ "longUrl": 1 }), vec!["longUrl"]),
        (
            json!({ "longUrl": url, "customSlug": "a b" }),
            vec!["customSlug"],
        ),
        (
            json!({ "longUrl": url, "customSlug": "" }),
            vec!["customSlug"],
        ),
        (
            json!({ "longUrl": url, "customSlug": "API" }),
            vec!["customSlug"],
        ),
        (
            json!({ "longUrl": url, "customSlug": "a".repeat(65) }),
            vec!["customSlug"],
        ),
        (
            json!({ "longUrl": url, "domain": "unknown.example" }),
            vec!["domain"],
        ),
        (json!({ "longUrl": url, "domain": "a b" }), vec!["domain"]),
        (
            json!({ "longUrl": url, "validSince": "yesterday" }),
            vec!["validSince"],
        ),
        (
            json!({ "longUrl": url, "validSince": 1 }),
            vec!["validSince"],
        ),
        (
            json!({ "longUrl": url, "validUntil": "1969-01-01T00:00:00Z" }),
            vec!["validUntil"],
        ),
        (
            json!({ "longUrl": url, "validSince": "2030-01-01T00:00:00Z", "validUntil": "2030-01-01T00:00:00Z" }),
            vec!["validUntil"],
        ),
        (
            json!({ "longUrl": url, "redirectStatus": 303 }),
            vec!["redirectStatus"],
        ),
        (
            json!({ "longUrl": url, "redirectStatus": "302" }),
            vec!["redirectStatus"],
        ),
        (
            json!({ "longUrl": url, "redirectStatus": 65_838 }),
            vec!["redirectStatus"],
        ),
        (
            json!({ "longUrl": url, "forwardQuery": "yes" }),
            vec!["forwardQuery"],
        ),
        (json!({ "longUrl": url, "state": "gone" }), vec!["state"]),
        (json!({ "longUrl": url, "title": "" }), vec!["title"]),
        (json!({ "longUrl": url, "title": title }), vec!["title"]),
        (json!({ "longUrl": url, "title": "a\nb" }), vec!["title"]),
        (json!({ "longUrl": url, "notes": "" }), vec!["notes"]),
        (json!({ "longUrl": url, "notes": notes }), vec!["notes"]),
        (json!({ "longUrl": url, "notes": "a\u{0}" }), vec!["notes"]),
        (
            json!({ "longUrl": url, "externalId": "" }),
            vec!["externalId"],
        ),
        (
            json!({ "longUrl": url, "externalId": "ä".repeat(128) }),
            vec!["externalId"],
        ),
        (json!({ "longUrl": url, "archived": 1 }), vec!["archived"]),
        (
            json!({ "longUrl": url, "utmSource": "", "utmTerm": "a\nb", "utmContent": title }),
            vec!["utmSource", "utmTerm", "utmContent"],
        ),
        (json!({ "longUrl": url, "tags": "a" }), vec!["tags"]),
        (json!({ "longUrl": url, "tags": [1] }), vec!["tags"]),
        (json!({ "longUrl": url, "tags": [""] }), vec!["tags"]),
        (json!({ "longUrl": url, "tags": tags }), vec!["tags"]),
        (json!({ "longUrl": url, "longurl": url }), vec!["longurl"]),
        (
            json!({ "longUrl": "x", "customSlug": "!", "domain": "?", "state": 1, "unknown": {} }),
            vec!["longUrl", "customSlug", "domain", "state", "unknown"],
        ),
    ] {
        let answer = server.post(&body).await;
        assert_eq!(answer.problem(422, "validation"), fields, "{body}");
    }
    let nothing = server.get("/links").await.expect(200);
    assert_eq!(nothing["links"], json!([]));
}

#[tokio::test]
async fn alias_when_reserved_is_refused_by_every_route() {
    let server = Running::with(&[("EDGELINK_LINKS_RESERVED", "checkout,cart")]).await;
    let to = |slug: &str| json!({ "longUrl": "https://example.com/", "customSlug": slug });
    server.post(&to("free")).await.expect(201);
    server.post(&to("checkouts")).await.expect(201);
    for slug in ["checkout", "Checkout", "CART"] {
        let named = [
            server.post(&to(slug)).await,
            send(
                server
                    .api(Method::POST, "/links/free/move")
                    .json(&json!({ "customSlug": slug })),
            )
            .await,
        ];
        for answer in named {
            assert_eq!(answer.problem(422, "validation"), ["customSlug"], "{slug}");
            assert!(answer.text().contains("links.reserved"), "{slug}");
        }
        for path in ["/links/bulk", "/import"] {
            let items = json!([to(slug)]);
            let answer = send(server.api(Method::POST, path).json(&items)).await;
            let result = &answer.json()["results"][0];
            assert_eq!(result["status"], 422, "{path}: {answer:?}");
            assert!(answer.text().contains("customSlug"), "{path}");
        }
        let shlink = server.plain(Method::POST, "/rest/v3/short-urls");
        let shlink = shlink.header("x-api-key", &server.admin_key);
        let answer = send(shlink.json(&to(slug))).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.json()["invalidElements"], json!(["customSlug"]));
    }
}

#[tokio::test]
async fn target_when_not_a_foreign_web_page_is_refused() {
    let server = Running::start().await;
    let long = format!("https://example.com/{}", "a".repeat(8_000));
    for (target, part) in [
        ("javascript:alert(1)", "http://"),
        ("data:text/html,x", "http://"),
        ("https://example.com/\u{0}", "control"),
        ("https://example.com/\r\nset-cookie:x", "control"),
        ("https://user:pw@example.com/", "password"),
        ("https://go.example:8080/x", "domain of this shortener"),
        ("http://OTHER.example./x", "domain of this shortener"),
        ("https://\"quoted/", "host"),
        (long.as_str(), "8000"),
    ] {
        let answer = server.post(&json!({ "longUrl": target })).await;
        assert_eq!(answer.problem(422, "validation"), ["longUrl"], "{target}");
        let reason = answer.json()["errors"][0]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(reason.contains(part), "{target}: {reason}");
    }
}

#[tokio::test]
async fn parameter_when_wrong_is_named() {
    let server = Running::start().await;
    let tags: Vec<String> = (0..11).map(|n| format!("tags={n}")).collect();
    let eleven = format!("/links?{}", tags.join("&"));
    let long_id = format!("/links?externalId={}", "e".repeat(256));
    for (path, field) in [
        ("/links?limit=0", "limit"),
        ("/links?limit=101", "limit"),
        ("/links?limit=%2B1", "limit"),
        ("/links?limit=", "limit"),
        ("/links?cursor=x", "cursor"),
        ("/links?domain=unknown.example", "domain"),
        ("/links?limit=1&limit=2", "limit"),
        ("/links?page=2", "page"),
        ("/links?tags=", "tags"),
        ("/links?excludeTags=a%0Ab", "excludeTags"),
        (eleven.as_str(), "tags"),
        ("/links?tagsMode=some", "tagsMode"),
        ("/links?withoutTags=1", "withoutTags"),
        ("/links?withoutTags=true&tags=a", "withoutTags"),
        ("/links?state=gone", "state"),
        ("/links?createdAfter=yesterday", "createdAfter"),
        ("/links?createdBefore=1", "createdBefore"),
        ("/links?externalId=", "externalId"),
        (long_id.as_str(), "externalId"),
        ("/links?searchTerm=+", "searchTerm"),
        ("/links?searchTerm=a+b+c+d+e", "searchTerm"),
        ("/links?orderBy=title-asc", "orderBy"),
        ("/links?orderBy=shortCode-asc", "orderBy"),
        ("/tags?limit=101", "limit"),
        ("/tags?prefix=", "prefix"),
        ("/tags?cursor=x", "cursor"),
        ("/tags?cursor=00", "cursor"),
        ("/tags?x=1", "x"),
        ("/links/abc?domain=unknown.example", "domain"),
        ("/links/abc?x=1", "x"),
        ("/keys/abc?x=1", "x"),
        ("/users/1?x=1", "x"),
    ] {
        assert_eq!(
            server.get(path).await.problem(422, "validation"),
            [field],
            "{path}"
        );
    }
}

#[tokio::test]
async fn code_when_malformed_is_not_found() {
    let server = Running::start().await;
    for path in ["/keys/%ff", "/users/%ff", "/users/x"] {
        server.get(path).await.problem(404, "not-found");
    }
    for code in ["a%20b", "%ff", "%00", "a%2Fb", "api", &"a".repeat(65)] {
        let path = format!("/links/{code}");
        server.get(&path).await.problem(404, "link-not-found");
        server.delete(&path).await.problem(404, "link-not-found");
        server
            .patch(&path, &Value::Object(serde_json::Map::new()))
            .await
            .problem(404, "link-not-found");
    }
}
