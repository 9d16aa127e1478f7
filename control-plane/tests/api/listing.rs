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
async fn pages_hold_every_link_once_newest_first() {
    let server = Running::start().await;
    for number in 0..5 {
        let slug = format!("l{number}");
        server
            .post(&json!({ "longUrl": "https://example.com/", "customSlug": slug }))
            .await
            .expect(201);
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
async fn a_domain_has_its_own_list() {
    let server = Running::start().await;
    for (slug, domain) in [("a", "go.example:8080"), ("b", "other.example")] {
        let body =
            json!({ "longUrl": "https://example.com/", "customSlug": slug, "domain": domain });
        server.post(&body).await.expect(201);
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
