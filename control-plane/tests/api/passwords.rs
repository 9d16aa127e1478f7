//! Links with a password, as the API has them.

use crate::helpers::{Answer, Running, send};
use edgelink_tests::link::LinkBuilder;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const TARGET: &str = "https://example.com/secret";
const PASSWORD: &str = "open sesame";

fn link(slug: &str) -> Value {
    json!({ "longUrl": TARGET, "customSlug": slug, "password": PASSWORD })
}

/// Starts a link with the password.
fn locked<'s>(server: &'s Running, slug: &str) -> LinkBuilder<'s, Running> {
    server.link(slug).to(TARGET).password(PASSWORD)
}

async fn with_link(slug: &str) -> Running {
    let server = Running::start().await;
    locked(&server, slug).create().await;
    server
}

async fn bulk(server: &Running, method: Method, path: &str, items: &Value) -> Value {
    send(server.api(method, path).json(items)).await.expect(200)
}

/// Whether the answers of an edge for the link have it locked.
async fn is_locked(server: &Running, slug: &str) -> bool {
    let page = server.follow(&format!("/{slug}")).await;
    match page.status.as_u16() {
        200 => true,
        302 => false,
        _ => panic!("{page:?}"),
    }
}

/// Fails if an answer has a password, or the hash of one.
#[track_caller]
fn assert_tells_nothing(answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    for secret in [PASSWORD, "argon2", "second"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn link_when_its_password_is_set_or_removed_says_so() {
    let server = Running::start().await;
    let created = locked(&server, "a").answer().await;
    assert_tells_nothing(&created);
    assert_eq!(created.expect(201)["hasPassword"], true);
    assert!(is_locked(&server, "a").await);
    for (patch, has_password) in [
        (json!({ "title": "t" }), true),
        (json!({ "password": "second" }), true),
        (json!({ "password": null }), false),
        (json!({ "password": "second" }), true),
    ] {
        let changed = server.patch("/links/a", &patch).await;
        assert_tells_nothing(&changed);
        assert_eq!(changed.expect(200)["hasPassword"], has_password, "{patch}");
        assert_eq!(is_locked(&server, "a").await, has_password, "{patch}");
    }
    let put = json!({ "longUrl": TARGET, "externalId": "e", "password": PASSWORD });
    for status in [201, 200] {
        let put = send(server.api(Method::PUT, "/links").json(&put)).await;
        assert_tells_nothing(&put);
        assert_eq!(put.expect(status)["hasPassword"], true);
    }
    let items = json!([link("b"), { "longUrl": TARGET, "customSlug": "c" }]);
    let made = bulk(&server, Method::POST, "/links/bulk", &items).await;
    assert_eq!(made["results"][0]["link"]["hasPassword"], true);
    assert_eq!(made["results"][1]["link"]["hasPassword"], false);
    let items = json!([
        { "shortCode": "b", "password": null },
        { "shortCode": "c", "password": PASSWORD },
    ]);
    let changed = bulk(&server, Method::PATCH, "/links/bulk", &items).await;
    assert_eq!(changed["changed"], 2, "{changed}");
    assert!(!is_locked(&server, "b").await);
    assert!(is_locked(&server, "c").await);
    let imported = bulk(&server, Method::POST, "/import", &json!([link("d")])).await;
    assert_eq!(imported["created"], 1, "{imported}");
    assert!(is_locked(&server, "d").await);
}

#[tokio::test]
async fn password_when_invalid_names_its_field() {
    let server = with_link("a").await;
    for wrong in [json!(""), json!("x".repeat(256)), json!(1), json!([])] {
        let request = server.link("").with("password", wrong.clone());
        let refused = request.answer().await;
        assert_eq!(refused.problem(422, "validation"), ["password"]);
        let patch = json!({ "password": wrong });
        let refused = server.patch("/links/a", &patch).await;
        assert_eq!(refused.problem(422, "validation"), ["password"]);
    }
    let longest = json!({ "password": "x".repeat(255) });
    server.patch("/links/a", &longest).await.expect(200);
    let body = format!("password={}", "x".repeat(255));
    assert_eq!(submit(&server, "/a", body).await.status, 303);
}

#[tokio::test]
async fn password_when_set_is_in_no_answer_and_no_file() {
    let server = with_link("a").await;
    let patch = json!({ "password": "second" });
    server.patch("/links/a", &patch).await.expect(200);
    let keyed = server
        .api(Method::POST, "/links")
        .header("idempotency-key", "k");
    send(keyed.json(&link("b"))).await.expect(201);
    for path in [
        "/links/a",
        "/links",
        "/links?searchTerm=second",
        "/links/a/history",
        "/audit",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_tells_nothing(&answer);
    }
    let history = server.get("/links/a/history").await.expect(200).to_string();
    assert!(
        history.contains(r#""password":{"from":true,"to":true}"#),
        "{history}"
    );
    assert_tells_nothing(&server.resolve("go.example:8080/a").await);
    let people = server
        .plain(Method::GET, "/edge/v1/links/go.example:8080/a")
        .header("accept", "application/json");
    let people = send(people.bearer_auth("first-token-of-the-edges")).await;
    assert_tells_nothing(&people);
    // While the server runs, no file goes away.
    let mut has_hash = false;
    for file in std::fs::read_dir(server.folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let has = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(!has(PASSWORD) && !has("second"));
        has_hash |= has("$argon2id$");
    }
    assert!(has_hash, "the database");
}

#[tokio::test]
async fn request_when_repeated_needs_the_same_password() {
    let server = Running::start().await;
    let request = async |password: &str| {
        let body = json!({ "longUrl": TARGET, "password": password });
        let request = server
            .api(Method::POST, "/links")
            .header("idempotency-key", "k");
        send(request.json(&body)).await
    };
    let first = request("one").await.expect(201);
    let again = request("one").await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.expect(201)["shortCode"], first["shortCode"]);
    let other = request("two").await;
    other.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn existing_link_when_it_has_a_password_is_not_found() {
    let server = Running::start().await;
    let open = || server.link("").with("findIfExists", true);
    let first = open().create().await;
    open().password(PASSWORD).create().await;
    open().password(PASSWORD).create().await;
    let found = open().answer().await.expect(200);
    assert_eq!(found["shortCode"], first["shortCode"]);
}

async fn submit(server: &Running, path: &str, body: String) -> Answer {
    let form = server
        .plain(Method::POST, path)
        .header("content-type", "application/x-www-form-urlencoded");
    send(form.body(body)).await
}

/// Sends the form of the page with a password.
async fn give(server: &Running, path: &str, password: &str) -> Answer {
    let body = format!("password={}", password.replace(' ', "+"));
    submit(server, path, body).await
}

/// Gives a password at a path that is sent as it is, even an invalid one.
async fn give_raw(server: &Running, path: &str, password: &str) -> String {
    let body = format!("password={}", password.replace(' ', "+"));
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: go.example:8080\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    server.exchange(request.as_bytes()).await
}

async fn follow_with(server: &Running, path: &str, cookie: &str) -> Answer {
    send(server.plain(Method::GET, path).header("cookie", cookie)).await
}

/// The name and the value of the cookie of a right password.
async fn cookie(server: &Running, path: &str, password: &str) -> String {
    let opened = give(server, path, password).await;
    assert_eq!(opened.status, 303, "{opened:?}");
    let cookie = opened.header("set-cookie");
    cookie.split(';').next().unwrap().to_owned()
}

#[track_caller]
fn assert_page(answer: &Answer, status: u16) {
    assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.header("x-robots-tag"), "noindex");
    let policy = answer.header("content-security-policy");
    assert_eq!(
        policy,
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
    );
    for absent in ["location", "set-cookie"] {
        assert_eq!(answer.header(absent), "");
    }
    assert!(answer.text().contains("<form method=\"post\">"));
    assert!(!answer.text().contains("example.com"));
}

#[track_caller]
fn assert_opened(answer: &Answer, location: &str) {
    assert_eq!(answer.status, 302, "{answer:?}");
    assert_eq!(answer.header("location"), location);
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
}

#[tokio::test]
async fn visitor_when_password_was_given_is_let_in_by_cookie() {
    let server = with_link("a").await;
    assert_page(&server.follow("/a").await, 200);
    for wrong in ["", "wrong", "Open sesame", &"x".repeat(256)] {
        assert_page(&give(&server, "/a", wrong).await, 403);
    }
    let opened = give(&server, "/a?b=1", PASSWORD).await;
    assert_eq!(opened.status, 303, "{opened:?}");
    assert_eq!(opened.header("location"), "/a?b=1");
    assert_eq!(opened.header("cache-control"), "no-store");
    let attributes = opened.header("set-cookie").split_once("; ").unwrap().1;
    assert_eq!(attributes, "Path=/a; Max-Age=3600; HttpOnly; SameSite=Lax");
    let cookie = cookie(&server, "/a", PASSWORD).await;
    let answer = follow_with(&server, "/a?b=1", &format!("x=y; {cookie}")).await;
    assert_opened(&answer, &format!("{TARGET}?b=1"));
    let head = server.plain(Method::HEAD, "/a");
    let head = send(head.header("cookie", &cookie)).await;
    assert_opened(&head, TARGET);
    let head = send(server.plain(Method::HEAD, "/a")).await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("location"), "");
    let secure = server
        .plain(Method::POST, "/a")
        .header("x-forwarded-proto", "https")
        .header(
            "content-type",
            "application/x-www-form-urlencoded; charset=utf-8",
        )
        .body("password=open+sesame");
    let secure = send(secure).await;
    assert!(
        secure
            .header("set-cookie")
            .ends_with("; SameSite=Lax; Secure")
    );
}

#[tokio::test]
async fn cookie_when_foreign_forged_or_outdated_opens_no_link() {
    let server = with_link("a").await;
    locked(&server, "b").create().await;
    let own = cookie(&server, "/a", PASSWORD).await;
    let other = cookie(&server, "/b", PASSWORD).await;
    assert_opened(&follow_with(&server, "/a", &own).await, TARGET);
    let (name, value) = own.split_once('=').unwrap();
    let (_, other_value) = other.split_once('=').unwrap();
    let (end, code) = value.split_once('.').unwrap();
    let later = end.parse::<u64>().unwrap() + 1;
    for forged in [
        other.clone(),
        format!("{name}={other_value}"),
        format!("{name}={later}.{code}"),
        format!("{name}={end}.{}", "0".repeat(64)),
        format!("{name}="),
    ] {
        assert_page(&follow_with(&server, "/a", &forged).await, 200);
    }
    let patch = json!({ "password": PASSWORD });
    server.patch("/links/a", &patch).await.expect(200);
    assert_page(&follow_with(&server, "/a", &own).await, 200);
    let moved = server.api(Method::POST, "/links/b/move");
    let moved = send(moved.json(&json!({ "customSlug": "c" }))).await;
    moved.expect(201);
    let renamed = follow_with(&server, "/c", &other).await;
    assert_page(&renamed, 200);
    cookie(&server, "/c", PASSWORD).await;
}

#[tokio::test]
async fn password_form_when_sent_leads_to_its_own_link_only() {
    let server = Running::start().await;
    let forwarding = locked(&server, "a").with("forwardPath", true);
    forwarding.create().await;
    server.link("open").to(TARGET).create().await;
    for path in ["/a/x/y?z=1", "/a//evil.example", "/a/https://evil.example"] {
        let opened = give(&server, path, PASSWORD).await;
        assert_eq!(opened.status, 303, "{path}: {opened:?}");
        assert_eq!(opened.header("location"), path);
    }
    for path in ["/a?b=\u{e4}", "/a/\u{e4}"] {
        let opened = give_raw(&server, path, PASSWORD).await;
        assert!(opened.starts_with("HTTP/1.1 303 "), "{path}: {opened}");
        assert!(opened.contains("\r\nlocation: /a\r\n"), "{path}: {opened}");
    }
    locked(&server, "b").create().await;
    for (path, status) in [
        ("/b/x", 404),
        ("//evil.example/a", 404),
        ("/none/x", 404),
        ("/open/x", 404),
        ("/open", 405),
        ("/none", 404),
        ("/edge/v1", 401),
    ] {
        let answer = give(&server, path, PASSWORD).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), "", "{path}");
    }
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        let answer = send(server.plain(method, "/a")).await;
        assert_eq!(answer.status, 405);
    }
    let json = server
        .plain(Method::POST, "/a")
        .json(&json!({ "password": PASSWORD }));
    let answer = send(json).await;
    answer.problem(405, "method-not-allowed");
    let long = submit(&server, "/a", format!("password={}", "x".repeat(2_000))).await;
    assert_eq!(long.status, 405);
}

#[tokio::test]
async fn link_when_expired_asks_for_no_password() {
    let server = with_link("a").await;
    let cookie = cookie(&server, "/a", PASSWORD).await;
    for patch in [
        json!({ "state": "disabled" }),
        json!({ "state": "active", "validUntil": "2020-01-01T00:00:00Z" }),
    ] {
        server.patch("/links/a", &patch).await.expect(200);
        let answer = follow_with(&server, "/a", &cookie).await;
        answer.page(410, "no longer available");
        server.follow("/a").await.page(410, "no longer available");
        assert_eq!(give(&server, "/a", PASSWORD).await.status, 405, "{patch}");
    }
    let patch = json!({ "validUntil": null });
    server.patch("/links/a", &patch).await.expect(200);
    server.delete("/links/a").await;
    assert_eq!(follow_with(&server, "/a", &cookie).await.status, 404);
    assert_eq!(give(&server, "/a", PASSWORD).await.status, 404);
    send(server.api(Method::POST, "/links/a/restore"))
        .await
        .expect(200);
    assert_page(&server.follow("/a").await, 200);
    assert_opened(&follow_with(&server, "/a", &cookie).await, TARGET);
}

#[tokio::test]
async fn use_when_no_password_was_given_is_not_taken() {
    let server = Running::start().await;
    locked(&server, "a").max_visits(2).create().await;
    let used = async || server.get("/links/a").await.expect(200)["visits"]["used"].clone();
    assert_page(&server.follow("/a").await, 200);
    assert_page(&give(&server, "/a", "wrong").await, 403);
    let cookie = cookie(&server, "/a", PASSWORD).await;
    assert_eq!(used().await, 0);
    for visit in 1..=2 {
        assert_opened(&follow_with(&server, "/a", &cookie).await, TARGET);
        assert_eq!(used().await, visit);
    }
    let answer = follow_with(&server, "/a", &cookie).await;
    answer.page(410, "no longer available");
}

#[tokio::test]
async fn password_tries_when_many_of_an_address_are_limited() {
    let server = Running::with(&[("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1")]).await;
    locked(&server, "a").create().await;
    locked(&server, "b").create().await;
    let give_from = async |address: &str, path: &str, password: &str| {
        let form = server
            .plain(Method::POST, path)
            .header("x-forwarded-for", address)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("password={password}"));
        send(form).await
    };
    let mut limited = None;
    for attempt in 0..20 {
        let answer = give_from("192.0.2.1", ["/a", "/b"][attempt % 2], "wrong").await;
        if answer.status == 429 {
            limited = Some((attempt, answer));
            break;
        }
        assert_page(&answer, 403);
    }
    let (attempt, answer) = limited.expect("a bound");
    assert!(attempt >= 10, "{attempt}");
    assert_page(&answer, 429);
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    let opened = give_from("192.0.2.2", "/a", "open+sesame").await;
    assert_eq!(opened.status, 303);
    // The control plane that has no Redis has forgotten them when it starts again.
    let server = server.restart().await;
    assert_eq!(give(&server, "/a", PASSWORD).await.status, 303);
}

async fn unlock(server: &Running, key: &str, visitor: &str, password: &str) -> Answer {
    let request = server
        .plain(Method::POST, &format!("/edge/v1/unlock/{key}"))
        .header("x-edgelink-visitor", visitor)
        .bearer_auth("first-token-of-the-edges");
    send(request.body(format!("password={password}"))).await
}

#[tokio::test]
async fn password_form_when_sent_by_an_edge_is_checked() {
    let server = with_link("a").await;
    let key = "go.example:8080/a";
    let opened = unlock(&server, key, "192.0.2.1", "open+sesame").await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert_eq!(
        opened.header("content-type"),
        "application/vnd.edgelink.cookie"
    );
    assert_eq!(opened.header("cache-control"), "no-store");
    let name = cookie(&server, "/a", PASSWORD).await;
    let name = name.split('=').next().unwrap();
    let own = format!("{name}={}", opened.text());
    assert_opened(&follow_with(&server, "/a", &own).await, TARGET);
    assert_eq!(unlock(&server, key, "192.0.2.1", "x").await.status, 403);
    let none = unlock(&server, "go.example:8080/none", "192.0.2.1", "x").await;
    none.problem(404, "link-not-found");
    let path = format!("/edge/v1/unlock/{key}");
    let stranger = server.plain(Method::POST, &path).body("password=x");
    send(stranger).await.problem(401, "unauthorized");
    let long = unlock(&server, key, "192.0.2.1", &"x".repeat(2_000)).await;
    long.problem(413, "body-too-large");
}

#[tokio::test]
async fn password_when_right_costs_no_try() {
    let server = with_link("a").await;
    let key = "go.example:8080/a";
    // More than an address has tries, one after another and at the same time.
    for _ in 0..15 {
        let opened = unlock(&server, key, "192.0.2.1", "open+sesame").await;
        assert_eq!(opened.status, 200, "{opened:?}");
    }
    let people = (0..15).map(|_| give(&server, "/a", PASSWORD));
    for opened in join_all(people).await {
        assert_eq!(opened.status, 303, "{opened:?}");
    }
    let mut wrong = 0;
    while unlock(&server, key, "192.0.2.1", "x").await.status == 403 {
        wrong += 1;
    }
    assert!(wrong >= 10, "{wrong}");
    // Without a try the right one is not told from a wrong one.
    let limited = unlock(&server, key, "192.0.2.1", "open+sesame").await;
    limited.problem(429, "rate-limited");
}

#[tokio::test]
async fn password_tries_when_many_at_a_link_are_limited() {
    let server = with_link("a").await;
    let mut limited = None;
    for attempt in 0..100 {
        let visitor = format!("192.0.2.{attempt}");
        let answer = unlock(&server, "go.example:8080/a", &visitor, "").await;
        if answer.status == 429 {
            limited = Some((attempt, answer));
            break;
        }
        assert_eq!(answer.status, 403);
    }
    let (attempt, answer) = limited.expect("a bound");
    assert!(attempt >= 60, "{attempt}");
    answer.problem(429, "rate-limited");
    let page = give(&server, "/a", PASSWORD).await;
    assert_page(&page, 429);
}

#[tokio::test]
async fn dry_run_when_visitor_has_the_password_redirects() {
    let server = with_link("a").await;
    for (visitor, outcome) in [
        (json!({}), "locked"),
        (json!({ "hasPassword": false }), "locked"),
        (json!({ "hasPassword": true }), "redirect"),
    ] {
        let resolve = server.api(Method::POST, "/links/a/resolve");
        let resolved = send(resolve.json(&visitor)).await.expect(200);
        assert_eq!(resolved["outcome"], outcome, "{visitor}");
    }
}
