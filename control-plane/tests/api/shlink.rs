//! `/rest/v3`, where Shlink's SDK does not see what matters: the end-to-end suite runs that.

use crate::helpers::{Answer, EDGE_TOKENS, Running, send, until};
use edgelink_settings::config::StoreConfig;
use edgelink_store::connect;
use edgelink_wire::clicks::{ClickBatch, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

async fn call(server: &Running, method: Method, path: &str, body: &Value) -> Answer {
    let request = server.plain(method, &format!("/rest/v3{path}"));
    let request = request.header("x-api-key", &server.admin_key);
    match body {
        Value::Null => send(request).await,
        body => send(request.json(body)).await,
    }
}

async fn get(server: &Running, path: &str) -> Answer {
    call(server, Method::GET, path, &Value::Null).await
}

/// Counts clicks of links on the default domain.
async fn count(server: &Running, seq: u64, at: u64, clicks: &[(&str, u64)]) {
    let keys: Vec<(String, u64)> = clicks
        .iter()
        .map(|(code, clicks)| (format!("go.example:8080/{code}"), *clicks))
        .collect();
    let batch = ClickBatch {
        worker: [1; 16],
        seq,
        at,
        total: 0,
        dropped: 0,
        clicks: keys
            .iter()
            .map(|(key, clicks)| (key.as_str(), *clicks))
            .collect(),
        ..ClickBatch::default()
    };
    let (token, _) = EDGE_TOKENS.split_once(',').unwrap();
    let request = server
        .plain(Method::POST, "/edge/v1/clicks")
        .bearer_auth(token);
    let answer = send(request.body(encode(&[batch]))).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    await_written(server).await;
}

/// Returns when no clicks wait to be written any more.
async fn await_written(server: &Running) {
    let store = connect(&StoreConfig::at(&server.database())).await.unwrap();
    until("the clicks are written", async || {
        store.clicks().oldest_report().await.unwrap().is_none()
    })
    .await;
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

#[tokio::test]
async fn problem_when_answered_has_the_shape_of_shlinks() {
    let server = Running::start().await;
    let answer = get(&server, "/short-urls/absent?domain=other.example").await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let expected = json!({
        "type": "https://shlink.io/api/error/short-url-not-found",
        "title": "Short URL not found",
        "status": 404,
        "detail": "Short URL not found",
        "shortCode": "absent",
        "domain": "other.example",
        "requestId": answer.header("x-request-id"),
    });
    assert_eq!((answer.status.as_u16(), answer.json()), (404, expected));

    let body = json!({ "longUrl": 1, "maxVisits": -5, "shortCodeLength": 4, "colour": "red" });
    let answer = call(&server, Method::POST, "/short-urls", &body).await;
    let problem = answer.json();
    assert_eq!(answer.status, 400);
    assert_eq!(problem["type"], "https://shlink.io/api/error/invalid-data");
    assert_eq!(
        problem["invalidElements"],
        json!(["longUrl", "maxVisits", "colour", "shortCodeLength"])
    );
    let reason = "must be 7, the length of all codes here";
    let length = json!({ "field": "shortCodeLength", "reason": reason });
    assert_eq!(problem["errors"][3], length);

    let raw = |body: &'static str| {
        let request = server.plain(Method::POST, "/rest/v3/short-urls").body(body);
        request
            .header("x-api-key", &server.admin_key)
            .header("content-type", "application/json")
    };
    let answer = send(raw("{")).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["type"],
        "https://shlink.io/api/error/malformed-request-body"
    );
    let answer = get(&server, "/no-such-path").await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.json()["type"],
        "https://shlink.io/api/error/not-found"
    );
    let answer = call(&server, Method::PUT, "/domains", &Value::Null).await;
    answer.problem(405, "method-not-allowed");
    let answer = send(server.plain(Method::GET, "/rest/v3/tags")).await;
    assert_eq!(answer.status, 401);
    assert!(!answer.header("www-authenticate").is_empty());
}

/// Spellings of values that Shlink accepts, and what it makes of them.
#[tokio::test]
async fn value_when_in_shlinks_spelling_is_accepted() {
    let server = Running::start().await;
    let title = "x".repeat(600);
    let body = json!({
        "longUrl": "https://example.com/", "customSlug": "my slug", "title": title, "tags": ["Spring Sale", " spring sale "],
        "validUntil": "2999-12-12", "validSince": "2020-01-01T00:00:00+0100", "domain": "", "validateUrl": false,
    });
    let made = call(&server, Method::POST, "/short-urls", &body).await;
    let made = made.expect(200);
    assert_eq!(made["shortCode"], "my-slug");
    assert_eq!(made["title"].as_str().unwrap().len(), 512);
    assert_eq!(made["tags"], json!(["spring-sale"]));
    assert_eq!(made["meta"]["validUntil"], "2999-12-12T00:00:00+00:00");
    assert_eq!(made["meta"]["validSince"], "2019-12-31T23:00:00+00:00");
    for query in [
        "tags%5B0%5D=Spring+Sale&tags%5B1%5D=none&tagsMode=any&itemsPerPage=-1&page=1",
        "tags[]=spring-sale&searchTerm=&startDate=",
        "startDate=2020-01-01&endDate=2999-01-01T00:00:00%2B0100",
        "itemsPerPage=5000&excludePastValidUntil=1",
    ] {
        let list = get(&server, &format!("/short-urls?{query}")).await;
        let list = list.expect(200);
        assert_eq!(list["shortUrls"]["pagination"]["totalItems"], 1, "{query}");
    }
    let stats = get(
        &server,
        "/tags/stats?itemsPerPage=-1&page=1&orderBy=visits-DESC",
    )
    .await;
    assert_eq!(stats.expect(200)["tags"]["data"][0]["tag"], "spring-sale");
    let deleted = call(
        &server,
        Method::DELETE,
        "/tags?tags%5B0%5D=spring-sale",
        &json!([]),
    )
    .await;
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    let problem = get(&server, "/short-urls?startDate=yesterday").await;
    assert_eq!(problem.json()["invalidElements"], json!(["startDate"]));
}

/// The distinct requests that Shlink's SDK for PHP (3.3) sends, as it writes them. Each has the status that it is answered with;
/// what is refused is among the differences in the book.
#[tokio::test]
async fn request_when_of_the_php_sdk_is_answered() {
    let server = Running::start().await;
    for (code, domain) in [("abc123", ""), ("abc123", "other.example"), ("tagged", "")] {
        let link = json!({ "longUrl": "https://example.com/", "customSlug": code, "domain": domain, "tags": ["foo", "old"] });
        call(&server, Method::POST, "/short-urls", &link)
            .await
            .expect(200);
    }
    let requests = include_str!("../../../tests/shlink/php-sdk.json");
    let requests: Vec<(String, String, String, u16)> = serde_json::from_str(requests).unwrap();
    assert!(requests.len() > 50);
    for (method, path, body, status) in requests {
        let request = server.plain(method.parse().unwrap(), &format!("/rest/v3{path}"));
        let mut request = request.header("x-api-key", &server.admin_key);
        if !body.is_empty() {
            request = request
                .header("content-type", "application/json")
                .body(body.clone());
        }
        let answer = send(request).await;
        assert_eq!(
            answer.status,
            status,
            "{method} {path} {body}: {}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn version_when_older_has_its_types_of_problems() {
    let server = Running::start().await;
    for (version, kind) in [
        ("v1", "INVALID_SHORTCODE"),
        ("v2", "INVALID_SHORTCODE"),
        ("v3", "https://shlink.io/api/error/short-url-not-found"),
    ] {
        let request = server.plain(Method::GET, &format!("/rest/{version}/short-urls/absent"));
        let answer = send(request.header("x-api-key", &server.admin_key)).await;
        let problem = answer.json();
        assert_eq!(
            (&problem["type"], &problem["shortCode"]),
            (&json!(kind), &json!("absent"))
        );
        let health = send(server.plain(Method::GET, &format!("/rest/{version}/health"))).await;
        assert_eq!(health.status, 200);
        let refused = send(server.plain(Method::GET, &format!("/rest/{version}/tags"))).await;
        assert_eq!(refused.status, 401);
    }
}

#[tokio::test]
async fn url_when_shortened_by_a_bookmark_is_answered_as_text() {
    let server = Running::start().await;
    let ask = async |query: &str| {
        let path = format!("/rest/v3/short-urls/shorten?{query}");
        send(server.plain(Method::GET, &path)).await
    };
    let target = "longUrl=https%3A%2F%2Fexample.com%2Fa%3Fb";
    let key = &server.admin_key;
    let text = ask(&format!("apiKey={key}&{target}&format=txt")).await;
    assert_eq!(text.status, 200, "{}", text.text());
    assert!(text.text().starts_with("http"), "{}", text.text());
    let found = ask(&format!("{target}&apiKey={key}")).await.expect(200);
    assert_eq!(
        (&found["shortUrl"], &found["longUrl"]),
        (&json!(text.text()), &json!("https://example.com/a?b"))
    );
    assert_eq!(ask(&format!("apiKey=wrong&{target}")).await.status, 401);
    assert_eq!(ask(target).await.status, 401);
    let wrong = ask(&format!("apiKey={key}&longUrl=nonsense&format=xml")).await;
    let wrong = wrong.json()["invalidElements"].clone();
    assert_eq!(wrong, json!(["format"]));
}

#[tokio::test]
async fn request_when_over_the_limit_is_refused() {
    let server = Running::with(&[
        ("EDGELINK_LIMITS_KEY_CAPACITY", "1"),
        ("EDGELINK_LIMITS_KEY_PER_SECOND", "1"),
    ])
    .await;
    let first = get(&server, "/domains").await;
    assert_eq!(first.status, 200);
    assert!(!first.header("ratelimit").is_empty());
    let mut answer = first;
    until("a refusal", async || {
        answer = get(&server, "/domains").await;
        answer.status == 429
    })
    .await;
    answer.problem(429, "rate-limited");
}

#[tokio::test]
async fn health_when_asked_for_by_another_origin_is_answered() {
    let server = Running::with(&[("EDGELINK_SERVER_CORS_ORIGINS", "https://web.example")]).await;
    let request = server.plain(Method::GET, "/rest/v3/health");
    let answer = send(request.header("origin", "https://web.example")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/health+json");
    assert_eq!(
        answer.header("access-control-allow-origin"),
        "https://web.example"
    );
    assert_eq!(answer.json()["status"], "pass");
}

#[tokio::test]
async fn clicks_when_paged_are_listed_by_the_minute() {
    let server = Running::start().await;
    server.link("a").tags(&["x"]).create().await;
    server.link("b").create().await;
    let minute = now() / 60 - 10;
    count(&server, 1, minute * 60, &[("a", 3), ("b", 1), ("gone", 7)]).await;
    count(&server, 2, (minute + 2) * 60 + 59, &[("a", 2)]).await;
    let mut all = Vec::new();
    for page in 1..=3 {
        let path = format!("/short-urls/a/visits?itemsPerPage=2&page={page}");
        let visits = get(&server, &path).await.expect(200)["visits"].clone();
        assert_eq!(visits["pagination"]["totalItems"], 5);
        assert_eq!(visits["pagination"]["pagesCount"], 3);
        all.extend(visits["data"].as_array().unwrap().clone());
    }
    let answer = get(&server, "/short-urls/a/visits").await.expect(200);
    assert_eq!(answer["visits"]["data"], json!(all));
    let dates: Vec<&str> = all
        .iter()
        .map(|visit| visit["date"].as_str().unwrap())
        .collect();
    assert_eq!(dates.len(), 5);
    assert!(
        dates[0] == dates[1] && dates[2] == dates[4] && dates[1] > dates[2],
        "{dates:?}"
    );
    let first = dates[2].replace('+', "%2B");
    let within = format!("/short-urls/a/visits?startDate={first}&endDate={first}");
    let within = get(&server, &within).await.expect(200);
    assert_eq!(within["visits"]["pagination"]["totalItems"], 3);
    let all = get(&server, "/visits/non-orphan").await.expect(200);
    assert_eq!(all["visits"]["pagination"]["totalItems"], 6);
    let tagged = get(&server, "/tags/x/visits").await.expect(200);
    assert_eq!(tagged["visits"]["pagination"]["totalItems"], 5);
}

#[tokio::test]
async fn tag_when_of_too_many_links_is_renamed_by_several_requests() {
    let server = Running::start().await;
    server.link("taken").tags(&["taken"]).create().await;
    for _ in 0..2 {
        let links: Vec<Value> = (0..5_200)
            .map(|n| json!({ "longUrl": format!("https://example.com/{n}"), "tags": ["many"] }))
            .collect();
        let created = server.api(Method::POST, "/links/bulk").json(&links);
        send(created).await.expect(200);
    }
    let rename = async |new: &str| {
        let body = json!({ "oldName": "many", "newName": new });
        call(&server, Method::PUT, "/tags", &body)
            .await
            .status
            .as_u16()
    };
    assert_eq!(rename("taken").await, 409);
    assert_eq!(rename("more").await, 503);
    assert_eq!(rename("taken").await, 409);
    assert_eq!(rename("more").await, 204);
    server.link("another").tags(&["many"]).create().await;
    assert_eq!(rename("more").await, 409, "another tag of that name");
}

#[tokio::test]
async fn clicks_when_asked_for_by_a_key_are_of_its_links_only() {
    let server = Running::start().await;
    server.link("others").create().await;
    let user = json!({ "name": "e", "role": "editor" });
    let user = send(server.api(Method::POST, "/users").json(&user))
        .await
        .expect(201);
    let key = json!({ "name": "e", "role": "editor", "userId": user["id"] });
    let key = send(server.api(Method::POST, "/keys").json(&key))
        .await
        .expect(201);
    let key = key["key"].as_str().unwrap();
    let editor = |method: Method, path: &str| {
        let request = server.plain(method, &format!("/rest/v3{path}"));
        request.header("x-api-key", key)
    };
    let own = json!({ "longUrl": "https://example.com/", "customSlug": "own" });
    send(editor(Method::POST, "/short-urls").json(&own))
        .await
        .expect(200);
    count(&server, 1, now(), &[("others", 5), ("own", 2)]).await;
    let overview = send(editor(Method::GET, "/visits")).await.expect(200);
    assert_eq!(overview["visits"]["nonOrphanVisits"]["total"], 2);
    let visits = send(editor(Method::GET, "/visits/non-orphan"))
        .await
        .expect(200);
    assert_eq!(visits["visits"]["pagination"]["totalItems"], 2);
    let list = send(editor(Method::GET, "/short-urls")).await.expect(200);
    assert_eq!(list["shortUrls"]["pagination"]["totalItems"], 1);
    for method in [Method::GET, Method::DELETE] {
        let answer = send(editor(method, "/short-urls/others/visits")).await;
        assert_eq!(answer.status, 404);
    }
    let total = get(&server, "/short-urls/others").await.expect(200);
    assert_eq!(total["visitsSummary"]["total"], 5);
}

#[tokio::test]
async fn clicks_when_deleted_are_noted_in_the_history() {
    let server = Running::start().await;
    server.link("a").create().await;
    count(&server, 1, now(), &[("a", 4)]).await;
    let deleted = call(
        &server,
        Method::DELETE,
        "/short-urls/a/visits",
        &Value::Null,
    )
    .await;
    assert_eq!(deleted.expect(200), json!({ "deletedVisits": 4 }));
    let history = server.get("/links/a/history").await.expect(200);
    let entry = &history["entries"][0];
    assert_eq!(
        (&entry["action"], &entry["detail"]),
        (&json!("clicks.delete"), &json!({ "clicks": 4 }))
    );
}
