//! The home page, and links that visitors create there.

use super::{assert_page, visit};
use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

const TARGET: &str = "https://example.com/page";

/// A server whose visitors create links with a key of these properties.
async fn with_strangers(key: Value, variables: &[(&str, &str)]) -> Running {
    let server = Running::start().await;
    let made = server.api(Method::POST, "/keys").json(&key);
    let made = send(made).await.expect(201);
    let file = server.folder.path().join("home-key");
    std::fs::write(&file, made["key"].as_str().unwrap()).unwrap();
    let file = file.display().to_string();
    let mut all = vec![
        ("EDGELINK_HOME_PAGE", "true"),
        ("EDGELINK_HOME_STRANGER_KEY_FILE", &file),
    ];
    all.extend(variables);
    server.restart_with(&all).await
}

fn creator() -> Value {
    json!({ "name": "home", "role": "creator", "tags": ["stranger"] })
}

fn encoded(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

async fn post(server: &Running, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
    let mut request = server.plain(Method::POST, "/+/new").body(encoded(fields));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(request).await
}

#[tokio::test]
async fn home_page_when_on_and_no_root_target_is_set_is_shown() {
    let server = Running::start().await;
    server.follow("/").await.page(404, "Link not found");
    assert_page(&post(&server, &[("longUrl", TARGET)], &[]).await, 404);
    let server = server.restart_with(&[("EDGELINK_HOME_PAGE", "true")]).await;
    let answer = server.follow("/").await;
    let page = assert_page(&answer, 200);
    assert!(!page.contains("<form"), "strangers create nothing: {page}");
    assert_page(&post(&server, &[("longUrl", TARGET)], &[]).await, 404);
    let root = json!({ "rootUrl": "https://example.com/root" });
    let changed = server.patch("/domains/other.example", &root).await;
    changed.expect(200);
    visit(&server, "other.example", "/")
        .await
        .redirects(302, "https://example.com/root");
    let unknown = Running::with(&[
        ("EDGELINK_HOME_PAGE", "true"),
        ("EDGELINK_LINKS_UNKNOWN_HOSTS", "not_found"),
    ])
    .await;
    assert_page(&visit(&unknown, "unknown.example", "/").await, 404);
}

#[tokio::test]
async fn link_when_created_by_a_visitor_has_an_end() {
    let server = with_strangers(creator(), &[("EDGELINK_HOME_STRANGER_DAYS", "2")]).await;
    let answer = visit(&server, "other.example", "/").await;
    let page = assert_page(&answer, 200);
    assert!(page.contains("action=\"/+/new\""), "{page}");
    assert!(!page.contains("customSlug"), "{page}");
    let fields = [("longUrl", TARGET), ("customSlug", "mine")];
    let made = post(&server, &fields, &[("host", "other.example")]).await;
    assert_eq!(made.status, 303, "{}", made.text());
    let to = made.header("location").to_owned();
    let code = to.strip_prefix("/+/made/").unwrap();
    assert_ne!(code, "mine", "visitors may choose no alias");
    let answer = visit(&server, "other.example", &to).await;
    let page = assert_page(&answer, 200);
    for part in [
        &format!("https://other.example/{code}"),
        &format!("src=\"/+/qr/{code}\""),
        &format!("href=\"/{code}+\""),
    ] {
        assert!(page.contains(part.as_str()), "{part}: {page}");
    }
    let qr = visit(&server, "other.example", &format!("/+/qr/{code}")).await;
    assert_eq!(qr.header("content-type"), "image/svg+xml");
    assert_eq!(qr.header("content-security-policy"), "default-src 'none'");
    let expected = edgelink_console::qr::Options::read("{}").unwrap();
    let expected = expected.draw(&format!("https://other.example/{code}"));
    assert_eq!(qr.text(), expected.unwrap());
    let path = format!("/links/{code}?domain=other.example");
    let link = server.get(&path).await.expect(200);
    assert_eq!(
        (&link["longUrl"], &link["tags"]),
        (&json!(TARGET), &json!(["stranger"]))
    );
    let times = [&link["createdAt"], &link["validUntil"]].map(|time| {
        let time = time.as_str().unwrap();
        time.parse::<jiff::Timestamp>().unwrap().as_second()
    });
    assert!((times[1] - times[0] - 2 * 86_400).abs() <= 1, "{link}");
    let followed = visit(&server, "other.example", &format!("/{code}")).await;
    followed.redirects(302, TARGET);
    for path in ["/+/made/absent", "/+/made/no.code", "/+/made/"] {
        let answer = visit(&server, "other.example", path).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    for path in ["/+/qr/no.code", "/+/qr/"] {
        assert_eq!(server.follow(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn visitor_form_when_a_field_is_wrong_names_it() {
    let variables = [
        ("EDGELINK_HOME_STRANGER_ALIASES", "true"),
        ("EDGELINK_HOME_STRANGER_MAX_LENGTH", "100"),
        ("EDGELINK_LINKS_BLOCKED_HOSTS", "evil.example"),
        ("EDGELINK_HOME_STRANGER_PER_HOUR", "100"),
    ];
    let server = with_strangers(creator(), &variables).await;
    let long = format!("https://example.com/{}", "x".repeat(100));
    let script = "javascript:alert('<script>')";
    for (target, slug) in [
        ("", ""),
        (script, ""),
        ("https://evil.example/", ""),
        ("https://go.example:8080/a", ""),
        (&long, ""),
        (TARGET, "no slug"),
        (TARGET, "api"),
    ] {
        let fields = [("longUrl", target), ("customSlug", slug)];
        let answer = post(&server, &fields, &[]).await;
        let page = assert_page(&answer, 422);
        let named = if slug.is_empty() {
            "longUrl"
        } else {
            "customSlug"
        };
        assert!(
            page.contains(&format!("href=\"#{named}\"")),
            "{target}: {page}"
        );
    }
    let fields = [("longUrl", TARGET), ("customSlug", "mine")];
    let made = post(&server, &fields, &[]).await;
    assert_eq!(made.header("location"), "/+/made/mine", "{}", made.text());
    let again = post(&server, &fields, &[]).await;
    assert!(assert_page(&again, 409).contains("is taken"));
    assert_eq!(server.all_links().await.len(), 1);
}

#[tokio::test]
async fn visitor_form_when_sent_by_another_site_creates_no_link() {
    let server = with_strangers(creator(), &[]).await;
    let fields = [("longUrl", TARGET)];
    for header in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let answer = post(&server, &fields, &[header]).await;
        assert_page(&answer, 403);
    }
    assert_eq!(server.all_links().await.len(), 0);
    let own = [
        ("host", "go.example:8080"),
        ("origin", "https://go.example:8080"),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(post(&server, &fields, &own).await.status, 303);
}

#[tokio::test]
async fn address_when_over_its_hourly_limit_creates_no_link() {
    let variables = [
        ("EDGELINK_HOME_STRANGER_PER_HOUR", "2"),
        ("EDGELINK_HOME_STRANGERS_PER_HOUR", "3"),
        ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
    ];
    let server = with_strangers(creator(), &variables).await;
    for (address, status) in [
        ("192.0.2.1", 303),
        ("192.0.2.1", 303),
        ("192.0.2.1", 429),
        ("2001:db8::1", 303),
        ("2001:db8::2", 429),
        ("192.0.2.3", 429),
    ] {
        let headers = [("x-forwarded-for", address)];
        let answer = post(&server, &[("longUrl", TARGET)], &headers).await;
        assert_eq!(answer.status, status, "{address}: {}", answer.text());
        assert_eq!(!answer.header("retry-after").is_empty(), status == 429);
    }
    assert_eq!(server.all_links().await.len(), 3);
}

#[tokio::test]
async fn visitor_when_home_key_has_bounds_creates_within_them() {
    let quota = json!({ "name": "home", "role": "creator", "quota": 1 });
    let server = with_strangers(quota, &[]).await;
    let fields = [("longUrl", TARGET)];
    assert_eq!(post(&server, &fields, &[]).await.status, 303);
    let refused = post(&server, &fields, &[]).await;
    assert!(assert_page(&refused, 503).contains("No links can be made here"));
    let bound = json!({ "name": "home", "role": "creator", "domains": ["other.example"] });
    let server = with_strangers(bound, &[]).await;
    assert_page(&post(&server, &fields, &[]).await, 503);
    let there = post(&server, &fields, &[("host", "other.example")]).await;
    assert_eq!(there.status, 303);
    let reader = json!({ "name": "home", "role": "reader" });
    let server = with_strangers(reader, &[]).await;
    assert_page(&post(&server, &fields, &[]).await, 503);
}
