//! Bad input to the API: a clear refusal each time, and nothing is created.

use edgelink_tests::stack::ControlPlane;
use serde_json::{Value, json};

#[tokio::test]
async fn target_when_unsafe_is_refused() {
    let control_plane = ControlPlane::start().await;
    let long = format!("https://example.com/{}", "a".repeat(60_000));
    for target in [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "JavaScript://example.com/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "https://example.com/\r\nset-cookie: a=b",
        "https://example.com/\u{0}",
        "https://user:password@example.com/",
        "https://trusted.example@evil.example/",
        "https://",
        "https://exa mple.com/",
        "https://example.com:99999/",
        "http://go.example/abc",
        "https://GO.example./abc",
        long.as_str(),
    ] {
        let answer = control_plane
            .api("POST", "/links", &json!({ "longUrl": target }))
            .await;
        assert_eq!(answer.status, 422, "{target:.60}: {answer:?}");
        assert!(answer.body.to_string().contains("longUrl"), "{answer:?}");
    }
    assert_nothing_was_created(&control_plane).await;
}

#[tokio::test]
async fn body_when_not_a_link_is_refused() {
    let control_plane = ControlPlane::start().await;
    let large = format!(
        r#"{{"longUrl":"https://example.com/","title":"{}"}}"#,
        "a".repeat(4 << 20)
    );
    let too_long = format!(
        r#"{{"longUrl":"https://example.com/{}"}}"#,
        "a".repeat(65_536)
    );
    for (body, statuses) in [
        (&b""[..], 400..=400),
        (b"{", 400..=400),
        (b"\xff\xfe", 400..=400),
        (b"[]", 400..=422),
        (b"null", 400..=422),
        (br#"{"longUrl":7}"#, 400..=422),
        (
            br#"{"longUrl":"https://example.com/","colour":"red"}"#,
            400..=422,
        ),
        (
            br#"{"longUrl":"https://example.com/","customSlug":"a/b"}"#,
            422..=422,
        ),
        (
            br#"{"longUrl":"https://example.com/","customSlug":"api"}"#,
            422..=422,
        ),
        (
            br#"{"longUrl":"https://example.com/","redirectStatus":200}"#,
            422..=422,
        ),
        (
            br#"{"longUrl":"https://example.com/","domain":"unknown.example"}"#,
            422..=422,
        ),
        (
            br#"{"longUrl":"https://example.com/","validUntil":"tomorrow"}"#,
            400..=422,
        ),
        (too_long.as_bytes(), 413..=413),
        (large.as_bytes(), 413..=413),
    ] {
        let mut connection = control_plane.connect().await;
        let answer = control_plane
            .api_raw(&mut connection, "POST", "/links", body)
            .await;
        let answer = answer.expect("an answer");
        let shown = body[..body.len().min(80)].escape_ascii();
        assert!(statuses.contains(&answer.status), "{shown}: {answer:?}");
        assert!(answer.body["type"].is_string(), "{shown}: {answer:?}");
    }
    assert_nothing_was_created(&control_plane).await;
}

async fn assert_nothing_was_created(control_plane: &ControlPlane) {
    let links = control_plane.api("GET", "/links", &Value::Null).await;
    assert_eq!(links.status, 200);
    let text = links.body.to_string();
    assert!(!text.contains("shortCode"), "{text}");
}
