//! What people enter is text, whatever it holds.

use super::browser::{Browser, start};
use serde_json::json;

const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "' onmouseover='alert(1)",
    "</textarea><script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "\u{202e}gnp.exe",
    "a\u{200b}b\u{feff}",
    "\u{1f469}\u{200d}\u{1f4bb} {{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; &amp; javascript:alert(1)",
];

/// The browser of the tests refuses any page that has a second script; here nothing of the text may be markup.
#[track_caller]
fn is_text(page: &str, what: &str) {
    for markup in ["<img src=x", "<script>", "'alert", " onmouseover='", "\"><"] {
        let found = page.matches(markup).count();
        // The pages' own markup is written without these, but for the end of an attribute before a tag.
        if markup != "\"><" {
            assert_eq!(found, 0, "{markup} of {what}: {page}");
        }
    }
}

#[tokio::test]
async fn text_when_hostile_is_shown_escaped() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for (number, text) in HOSTILE.into_iter().enumerate() {
        let slug = format!("h{number}");
        let target = format!("https://example.com/?q={text}");
        let link = json!({
            "longUrl": target, "customSlug": slug, "title": text, "tags": [text], "notes": text, "externalId": text,
            "utmCampaign": text,
        });
        server.post(&link).await.expect(201);
        let user = json!({ "name": text });
        let made = server.api(reqwest::Method::POST, "/users").json(&user);
        crate::helpers::send(made).await.expect(201);
        let key = json!({ "name": text, "tags": [text] });
        let made = server.api(reqwest::Method::POST, "/keys").json(&key);
        crate::helpers::send(made).await.expect(201);
    }
    let escaped = "&#60;script&#62;alert(1)&#60;/script&#62;";
    for path in [
        "/console/links",
        "/console/tags",
        "/console/keys",
        "/console/users",
        "/console/audit",
        "/console/links/h0",
        "/console/links/h0/edit",
        "/console/links/h0/rules",
        "/console/links/h3/edit",
        "/console/links/h4",
    ] {
        let page = browser.page(path).await;
        is_text(&page, path);
        let is_first = path.ends_with("h4") || path.ends_with("h3/edit");
        assert!(is_first || page.contains(escaped), "{path}: {page}");
    }
}

#[tokio::test]
async fn input_when_hostile_and_refused_is_sent_back_escaped() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for text in HOSTILE {
        let fields = [
            ("longUrl", text),
            ("customSlug", text),
            ("title", text),
            ("tags", text),
            ("notes", text),
            ("domain", text),
            ("validSince", text),
            ("maxVisits", text),
            ("state", text),
        ];
        let answer = browser.post("/console/create", &fields).await;
        assert_eq!(answer.status, 422);
        is_text(answer.text(), text);
        let answer = browser
            .post("/console/create-many", &[("lines", text)])
            .await;
        is_text(answer.text(), text);
        let answer = browser
            .post(
                "/console/login",
                &[("user", text), ("to", text), ("tenant", text)],
            )
            .await;
        is_text(answer.text(), text);
        for path in [
            "/console/links?searchTerm=",
            "/console/links?orderBy=",
            "/console/links?cursor=",
            "/console/links/",
            "/console/links/x/deleted?domain=",
            "/console/tags?prefix=",
            "/console/audit?subject=",
            "/console/domains/",
            "/console/users/",
            "/console/create?title=",
            "/console/login?to=",
        ] {
            let encoded = url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let answer = browser.get(&format!("{path}{encoded}")).await;
            is_text(answer.text(), path);
        }
        // The login takes tries; a session is still there.
        if browser.get("/console").await.status != 200 {
            panic!("the session has ended");
        }
    }
}
