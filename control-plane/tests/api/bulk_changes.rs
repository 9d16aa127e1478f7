//! `PATCH` and `DELETE /links/bulk`.

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

async fn bulk(server: &Running, method: Method, body: &Value) -> Answer {
    send(server.api(method, "/links/bulk").json(body)).await
}

/// Links `a`, `b` and so on.
async fn create(server: &Running, codes: &[&str]) {
    for code in codes {
        let link = server.link(code).to(&format!("https://example.com/{code}"));
        link.create().await;
    }
}

fn statuses(answer: &Value) -> Vec<u64> {
    let results = answer["results"].as_array().unwrap();
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        let is_done = result["status"].as_u64().unwrap() < 300;
        assert_eq!(result["error"].is_object(), !is_done, "{result}");
    }
    let status = |result: &Value| result["status"].as_u64().unwrap();
    results.iter().map(status).collect()
}

#[tokio::test]
async fn bulk_change_when_valid_or_not_has_its_own_outcome() {
    let server = Running::start().await;
    create(&server, &["a", "b", "c"]).await;
    server.link("a").on("other.example").create().await;
    let tag = server.get("/links/c").await.header("etag").to_owned();
    let body = json!([
        { "shortCode": "a", "longUrl": "https://example.com/new", "title": "t" },
        { "shortCode": "a", "domain": "other.example", "tags": ["x"] },
        { "shortCode": "absent", "title": "t" },
        { "shortCode": "b", "longUrl": "ftp://x", "unknown": 1 },
        { "title": "t" },
        17,
        { "shortCode": "b", "ifMatch": tag, "title": "lost" },
        { "shortCode": "c", "ifMatch": tag, "externalId": "1" },
        { "shortCode": "b", "externalId": "1" },
        { "shortCode": "a", "notes": "second" },
    ]);
    let answer = bulk(&server, Method::PATCH, &body).await.expect(200);
    assert_eq!(
        statuses(&answer),
        [200, 200, 404, 422, 422, 422, 412, 200, 409, 200]
    );
    assert_eq!(answer["changed"], 4);
    assert_eq!(answer["failed"], 6);
    let results = &answer["results"];
    let errors = results[3]["error"]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2);
    // The second change of a link begins where the first has ended.
    let link = server.get("/links/a").await.expect(200);
    assert_eq!(results[9]["link"], link);
    assert_eq!(
        (&link["title"], &link["notes"]),
        (&json!("t"), &json!("second"))
    );
    assert_eq!(server.get("/links/c").await.expect(200), results[7]["link"]);
    let other = server
        .get("/links/a?domain=other.example")
        .await
        .expect(200);
    assert_eq!(other, results[1]["link"]);
    // Edges are told before the answer.
    server
        .follow("/a")
        .await
        .redirects(302, "https://example.com/new");
}

#[tokio::test]
async fn bulk_deletion_when_valid_or_not_has_its_own_outcome() {
    let server = Running::start().await;
    create(&server, &["a", "b", "c"]).await;
    let tag = server.get("/links/c").await.header("etag").to_owned();
    let body = json!([
        { "shortCode": "a" },
        { "shortCode": "a" },
        { "shortCode": "b", "ifMatch": tag },
        { "shortCode": "c", "ifMatch": tag },
        { "shortCode": "absent" },
        { "shortCode": "b", "title": "t" },
    ]);
    let answer = bulk(&server, Method::DELETE, &body).await.expect(200);
    assert_eq!(statuses(&answer), [204, 404, 412, 204, 404, 422]);
    assert_eq!(
        (&answer["deleted"], &answer["failed"]),
        (&json!(2), &json!(4))
    );
    for (code, status) in [("a", 404), ("b", 200), ("c", 404)] {
        assert_eq!(
            server.get(&format!("/links/{code}")).await.status,
            status,
            "{code}"
        );
    }
    server.follow("/a").await.page(404, "");
}

#[tokio::test]
async fn bulk_change_when_over_10000_items_changes_none() {
    let server = Running::with(&[("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "60000")]).await;
    let create =
        |n: usize| json!({ "longUrl": "https://example.com/", "customSlug": format!("c{n}") });
    let links: Vec<Value> = (0..10_000).map(create).collect();
    let answer = bulk(&server, Method::POST, &json!(links)).await.expect(200);
    assert_eq!(answer["created"], 10_000);
    let patch = |n: usize| json!({ "shortCode": format!("c{n}"), "title": n.to_string() });
    let mut patches: Vec<Value> = (0..10_001).map(patch).collect();
    bulk(&server, Method::PATCH, &json!(patches))
        .await
        .problem(413, "body-too-large");
    assert_eq!(
        server.get("/links/c0").await.expect(200)["title"],
        json!(null)
    );
    patches.pop();
    let answer = bulk(&server, Method::PATCH, &json!(patches)).await;
    assert_eq!(answer.expect(200)["changed"], 10_000);
    for n in [0, 499, 500, 9_999] {
        let link = server.get(&format!("/links/c{n}")).await.expect(200);
        assert_eq!(link["title"], n.to_string());
    }
    let named = |n: usize| json!({ "shortCode": format!("c{n}") });
    let deletions: Vec<Value> = (0..10_000).map(named).collect();
    let answer = bulk(&server, Method::DELETE, &json!(deletions)).await;
    assert_eq!(answer.expect(200)["deleted"], 10_000);
    let page = server.get("/links").await.expect(200);
    assert_eq!(page["links"], json!([]));
}

#[tokio::test]
async fn bulk_body_when_malformed_changes_nothing() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BODY_BYTES", "1024")]).await;
    create(&server, &["a"]).await;
    let raw = async |method: Method, body: &str| {
        let request = server.api(method, "/links/bulk");
        let request = request.header("content-type", "application/json");
        send(request.body(body.to_owned())).await
    };
    let good = r#"{"shortCode":"a"}"#;
    let large = format!(r#"{{"shortCode":"a","title":"{}"}}"#, "x".repeat(1024));
    for method in [Method::PATCH, Method::DELETE] {
        for body in ["", "{}", &format!("[{good}"), &format!("[{good}] x")] {
            raw(method.clone(), body).await.problem(400, "invalid-body");
        }
        let body = format!("[{good},{large}]");
        raw(method.clone(), &body)
            .await
            .problem(413, "body-too-large");
        let request = server.api(method.clone(), "/links/bulk").body("[]");
        send(request).await.problem(415, "unsupported-media-type");
        let answer = raw(method, "[]").await.expect(200);
        assert_eq!(answer["results"], json!([]));
    }
    server.get("/links/a").await.expect(200);
}

#[tokio::test]
async fn bulk_answer_when_full_leaves_out_links_and_later_items() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BULK_ANSWER_BYTES", "65536")]).await;
    let notes = "n".repeat(4096);
    server.link("large").with("notes", notes).create().await;
    // A chunk is begun while there is room, and all of it is answered; links that do not fit are left out.
    let items = vec![json!({ "shortCode": "large", "archived": true }); 1_200];
    let answer = bulk(&server, Method::PATCH, &Value::from(items))
        .await
        .expect(200);
    assert_eq!(
        (&answer["changed"], &answer["failed"]),
        (&json!(500), &json!(700))
    );
    let results = answer["results"].as_array().unwrap();
    let shown = results.iter().filter(|item| item["link"].is_object());
    assert!((1..16).contains(&shown.count()));
    assert_eq!(results[499], json!({ "index": 499, "status": 200 }));
    assert!(answer.to_string().len() < 65_536 + 1_200 * 300);
    let last = &results[1_199];
    assert_eq!(last["status"], 503);
    assert_eq!(last["error"]["type"], "urn:edgelink:problem:overloaded");
}
