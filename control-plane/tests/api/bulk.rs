//! `POST /links/bulk` and `findIfExists`.

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

async fn bulk(server: &Running, body: &Value) -> Answer {
    send(server.api(Method::POST, "/links/bulk").json(body)).await
}

async fn bulk_raw(server: &Running, body: impl Into<reqwest::Body>) -> Answer {
    let request = server.api(Method::POST, "/links/bulk");
    send(
        request
            .header("content-type", "application/json")
            .body(body),
    )
    .await
}

async fn count(server: &Running) -> usize {
    server.all_links().await.len()
}

fn statuses(answer: &Value) -> Vec<u64> {
    let results = answer["results"].as_array().unwrap();
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        let is_link = result["status"].as_u64().unwrap() < 300;
        assert_eq!(result["link"].is_object(), is_link, "{result}");
        assert_eq!(result["error"].is_object(), !is_link, "{result}");
    }
    results
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn bulk_item_when_valid_or_not_has_its_own_answer() {
    let server = Running::start().await;
    let body = json!([
        { "longUrl": "https://example.com/1" },
        { "longUrl": "https://example.com/2", "customSlug": "two" },
        { "longUrl": "javascript:alert(1)", "unknown": 1 },
        { "longUrl": "https://example.com/3", "customSlug": "two" },
        17,
        { "longUrl": "https://example.com/4", "domain": "other.example", "customSlug": "two" },
    ]);
    let answer = bulk(&server, &body).await.expect(200);
    assert_eq!(statuses(&answer), [201, 201, 422, 409, 422, 201]);
    assert_eq!(answer["created"], 3);
    assert_eq!(answer["failed"], 3);
    let errors = answer["results"][2]["error"]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2);
    assert_eq!(
        answer["results"][3]["error"]["type"],
        "urn:edgelink:problem:slug-taken"
    );
    for index in [0, 1, 5] {
        let link = &answer["results"][index]["link"];
        let (code, domain) = (
            link["shortCode"].as_str().unwrap(),
            link["domain"].as_str().unwrap(),
        );
        let stored = server
            .get(&format!("/links/{code}?domain={domain}"))
            .await
            .expect(200);
        assert_eq!(&stored, link);
    }
}

#[tokio::test]
async fn bulk_request_when_over_10000_items_creates_none() {
    let server = Running::start().await;
    let item = |n: usize| json!({ "longUrl": format!("https://example.com/{n}") });
    let most: Vec<Value> = (0..10_000).map(item).collect();
    let answer = bulk(&server, &json!(most)).await.expect(200);
    assert_eq!(answer["created"], 10_000);
    let codes: std::collections::HashSet<&str> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["link"]["shortCode"].as_str().unwrap())
        .collect();
    assert_eq!(codes.len(), 10_000);

    let server = Running::start().await;
    let too_many: Vec<Value> = (0..10_001).map(item).collect();
    bulk(&server, &json!(too_many))
        .await
        .problem(413, "body-too-large");
    assert_eq!(count(&server).await, 0);
}

#[tokio::test]
async fn bulk_body_when_malformed_creates_nothing() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_BULK_BODY_BYTES", "2000"),
        ("EDGELINK_SERVER_MAX_BODY_BYTES", "1024"),
    ])
    .await;
    let good = r#"{"longUrl":"https://example.com/"}"#;
    for body in [
        "",
        "{}",
        "[",
        &format!("[{good}"),
        &format!("[{good},]"),
        &format!("[{good}] x"),
    ] {
        bulk_raw(&server, body.to_owned())
            .await
            .problem(400, "invalid-body");
    }
    bulk_raw(&server, format!("[{good}, nul]"))
        .await
        .problem(400, "invalid-body");
    let large = format!(
        r#"[{good},{{"longUrl":"https://example.com/{}"}}]"#,
        "x".repeat(1024)
    );
    bulk_raw(&server, large)
        .await
        .problem(413, "body-too-large");
    let many = format!("[{}]", vec![good; 80].join(","));
    bulk_raw(&server, many).await.problem(413, "body-too-large");
    let request = server.api(Method::POST, "/links/bulk").body("[]");
    send(request).await.problem(415, "unsupported-media-type");
    assert_eq!(count(&server).await, 0);
    let answer = bulk_raw(&server, "[]").await.expect(200);
    assert_eq!(answer["results"], json!([]));
}

#[tokio::test]
async fn existing_link_when_all_fields_are_equal_is_found() {
    let server = Running::start().await;
    let link = json!({ "longUrl": "https://example.com/a", "title": "A", "tags": ["x"] });
    let first = server.post(&link).await.expect(201);
    let with = |field: &str, value: Value| {
        let mut body = link.clone();
        body["findIfExists"] = json!(true);
        body[field] = value;
        body
    };
    let found = server.post(&with("tags", json!(["x"]))).await.expect(200);
    assert_eq!(found, first);
    for (field, value) in [
        ("longUrl", json!("https://example.com/b")),
        ("title", json!("B")),
        ("tags", json!([])),
        ("notes", json!("n")),
        ("archived", json!(true)),
        ("utmSource", json!("s")),
        ("domain", json!("other.example")),
        ("customSlug", json!("a")),
        ("redirectStatus", json!(301)),
        ("forwardQuery", json!(false)),
        ("validUntil", json!("2099-01-01T00:00:00Z")),
    ] {
        let body = with(field, value);
        let other = server.post(&body).await.expect(201);
        assert_ne!(other["shortUrl"], first["shortUrl"], "{field}");
        assert_eq!(server.post(&body).await.expect(200), other, "{field}");
    }
    for code in [first["shortCode"].as_str().unwrap(), "a"] {
        server.delete(&format!("/links/{code}")).await;
    }
    let again = server.post(&with("tags", json!(["x"]))).await.expect(201);
    assert_ne!(again["shortCode"], first["shortCode"]);
}

#[tokio::test]
async fn bulk_items_when_equal_find_each_other() {
    let server = Running::start().await;
    let item = json!({ "longUrl": "https://example.com/", "findIfExists": true });
    let answer = bulk(&server, &json!([item, item, item])).await.expect(200);
    assert_eq!(statuses(&answer), [201, 200, 200]);
    assert_eq!(answer["created"], 1);
    assert_eq!(answer["existing"], 2);
    assert_eq!(count(&server).await, 1);
}

/// As many campaigns as it takes lead to one page.
#[tokio::test]
async fn existing_link_when_hundreds_share_its_target_is_found() {
    let server = Running::start().await;
    let link = |title: &str| json!({ "longUrl": "https://example.com/landing", "title": title });
    let others: Vec<Value> = (0..150).map(|n| link(&n.to_string())).collect();
    bulk(&server, &json!(others)).await.expect(200);
    let mut new = link("new");
    new["findIfExists"] = json!(true);
    let first = server.post(&new).await.expect(201);
    assert_eq!(
        server.post(&new).await.expect(200)["shortCode"],
        first["shortCode"]
    );
    let many = bulk(&server, &json!([new, link("x"), new]))
        .await
        .expect(200);
    assert_eq!(many["existing"], 2, "{many}");
}

/// An object with so many fields that no link has.
fn unknown(fields: usize, name_length: usize) -> Value {
    let name = |number| (format!("{number:x>name_length$}"), json!(0));
    Value::Object((0..fields).map(name).collect())
}

#[tokio::test]
async fn problem_when_errors_are_many_names_32_at_most() {
    let server = Running::start().await;
    let body = json!([unknown(6_500, 5), { "longUrl": "https://example.com/" }]);
    let answer = bulk(&server, &body).await.expect(200);
    assert_eq!(statuses(&answer), [422, 201]);
    let single = send(server.api(Method::POST, "/links").json(&unknown(6_500, 5))).await;
    let single = single.refused(422);
    for problem in [&answer["results"][0]["error"], &single] {
        assert_eq!(problem["errors"].as_array().unwrap().len(), 32);
        // Those, and that there is no longUrl.
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("6469 more"), "{detail}");
    }
    let long = bulk(&server, &json!([unknown(5, 10_000)]))
        .await
        .expect(200);
    assert!(long.to_string().len() < 4_000);
}

#[tokio::test]
async fn bulk_item_when_answer_has_no_room_is_not_created() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BULK_ANSWER_BYTES", "65536")]).await;
    let notes = "n".repeat(4_096);
    let item = |number: usize| json!({ "longUrl": "https://example.com/", "customSlug": format!("n{number}"), "notes": notes });
    for path in ["/links/bulk", "/import"] {
        let before = count(&server).await;
        let body: Vec<Value> = (0..50).map(|number| item(before + number)).collect();
        let answer = send(server.api(Method::POST, path).json(&body))
            .await
            .expect(200);
        let statuses = statuses(&answer);
        let made = statuses.iter().filter(|status| **status == 201).count();
        assert!((5..20).contains(&made), "{path}: {made}");
        assert!(
            statuses[made..].iter().all(|status| *status == 503),
            "{path}"
        );
        assert_eq!(count(&server).await, before + made, "{path}");
        let problem = &answer["results"][49]["error"];
        assert_eq!(problem["type"], "urn:edgelink:problem:overloaded");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("max_bulk_answer_bytes")
        );
        let rest = &body[made..made + 5];
        let answer = send(server.api(Method::POST, path).json(&rest))
            .await
            .expect(200);
        assert_eq!(answer["created"], 5, "{path}");
    }
}

#[tokio::test]
async fn bulk_errors_when_many_are_cut_to_the_answers_room() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BULK_ANSWER_BYTES", "65536")]).await;
    let items = vec![unknown(20, 200); 300];
    for (method, path) in [
        (Method::POST, "/links/bulk"),
        (Method::POST, "/import"),
        (Method::POST, "/import?dryRun=true"),
        (Method::PATCH, "/links/bulk"),
        (Method::DELETE, "/links/bulk"),
    ] {
        let answer = send(server.api(method.clone(), path).json(&items))
            .await
            .expect(200);
        assert_eq!(answer["failed"], 300, "{method} {path}");
        let results = answer["results"].as_array().unwrap();
        assert!(
            results.iter().all(|item| item["status"] == 422),
            "{method} {path}"
        );
        assert_eq!(results[0]["error"]["errors"].as_array().unwrap().len(), 21);
        assert!(
            answer.to_string().len() < 65_536 + 300 * 300,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn existing_link_when_answer_has_no_room_is_left_out() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BULK_ANSWER_BYTES", "65536")]).await;
    let (notes, target) = ("n".repeat(4_096), "https://example.com/");
    let slug = |number: usize| format!("n{number}");
    for number in 0..30 {
        let link = json!({ "longUrl": target, "customSlug": slug(number), "notes": notes });
        server.post(&link).await.expect(201);
    }
    let item = |number| json!({ "longUrl": target, "customSlug": slug(number) });
    let body: Vec<Value> = (0..30).map(item).collect();
    for path in ["/import", "/import?dryRun=true"] {
        let answer = send(server.api(Method::POST, path).json(&body))
            .await
            .expect(200);
        assert_eq!(answer["existing"], 30, "{path}");
        let results = answer["results"].as_array().unwrap();
        let shown = results
            .iter()
            .filter(|item| item["link"].is_object())
            .count();
        assert!(shown < 10, "{path}: {shown}");
        assert!(answer.to_string().len() < 65_536, "{path}");
    }
}
