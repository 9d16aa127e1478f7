//! Reports of abuse.

use super::{assert_page, visit};
use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

const TARGET: &str = "https://example.com/<phish>";

async fn with_link(slug: &str, variables: &[(&str, &str)]) -> Running {
    let server = Running::with(variables).await;
    server.link(slug).to(TARGET).create().await;
    server
}

async fn report(server: &Running, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let mut request = server.plain(Method::POST, "/+/report").body(form);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(request).await
}

async fn reports(server: &Running, query: &str) -> Vec<Value> {
    let list = server.get(&format!("/reports{query}")).await.expect(200);
    list["reports"].as_array().unwrap().clone()
}

#[tokio::test]
async fn report_when_sent_from_a_preview_is_stored() {
    let server = with_link("a", &[]).await;
    let preview = server.follow("/a+").await;
    let to = "/+/report?code=a";
    assert!(preview.text().contains(&format!("href=\"{to}\"")));
    let form = server.follow(to).await;
    let form = assert_page(&form, 200);
    assert!(form.contains("name=\"code\" value=\"a\""), "{form}");
    let text = "It asks for my PIN.\r\n</textarea><script>alert(1)</script>";
    let fields = [
        ("code", "a"),
        ("reason", "phishing"),
        ("text", text),
        ("email", "me@example.com"),
    ];
    let sent = report(&server, &fields, &[]).await;
    assert_eq!(sent.header("location"), "/+/report?done=yes", "{sent:?}");
    let thanks = server.follow("/+/report?done=yes").await;
    assert!(assert_page(&thanks, 200).contains("Your report has arrived."));
    let list = reports(&server, "").await;
    let [kept] = &list[..] else {
        panic!("{list:?}");
    };
    for (field, value) in [
        ("state", json!("open")),
        ("domain", json!("go.example:8080")),
        ("shortCode", json!("a")),
        ("shortUrl", json!("https://go.example:8080/a")),
        ("reason", json!("phishing")),
        ("text", json!(text)),
        ("email", json!("me@example.com")),
        ("tenant", json!(1)),
        ("closedAt", Value::Null),
    ] {
        assert_eq!(kept[field], value, "{field}");
    }
    assert_eq!(
        kept["longUrl"],
        server.get("/links/a").await.expect(200)["longUrl"]
    );
}

#[tokio::test]
async fn report_when_a_field_is_wrong_names_it_and_keeps_input() {
    let server = with_link("a", &[("EDGELINK_REPORTS_PER_HOUR", "100")]).await;
    let long = "x".repeat(2_001);
    let hostile = "\"><script>alert(1)</script>";
    for (fields, named) in [
        (
            [
                ("code", "b"),
                ("reason", "spam"),
                ("text", ""),
                ("email", ""),
            ],
            "code",
        ),
        (
            [
                ("code", hostile),
                ("reason", "spam"),
                ("text", ""),
                ("email", ""),
            ],
            "code",
        ),
        (
            [
                ("code", "a"),
                ("reason", hostile),
                ("text", ""),
                ("email", ""),
            ],
            "reason",
        ),
        (
            [
                ("code", "a"),
                ("reason", "spam"),
                ("text", &long),
                ("email", ""),
            ],
            "text",
        ),
        (
            [
                ("code", "a"),
                ("reason", "spam"),
                ("text", "a\0"),
                ("email", ""),
            ],
            "text",
        ),
        (
            [
                ("code", "a"),
                ("reason", "spam"),
                ("text", ""),
                ("email", "no-address"),
            ],
            "email",
        ),
        (
            [
                ("code", "a"),
                ("reason", "spam"),
                ("text", ""),
                ("email", "a b@c"),
            ],
            "email",
        ),
        (
            [
                ("code", "a"),
                ("reason", "spam"),
                ("text", ""),
                ("email", "a@b\r\nBcc:c@d"),
            ],
            "email",
        ),
    ] {
        let answer = report(&server, &fields, &[]).await;
        let page = assert_page(&answer, 422);
        assert!(
            page.contains(&format!("href=\"#{named}\"")),
            "{named}: {page}"
        );
    }
    let foreign = [("origin", "https://evil.example")];
    let fields = [("code", "a"), ("reason", "spam")];
    assert_page(&report(&server, &fields, &foreign).await, 403);
    // The preview's address is a natural thing to paste.
    let fields = [("code", "a+"), ("reason", "spam")];
    assert_eq!(report(&server, &fields, &[]).await.status, 303);
    let elsewhere = [("host", "other.example")];
    assert_page(&report(&server, &fields, &elsewhere).await, 422);
    assert_eq!(reports(&server, "").await.len(), 1);
}

#[tokio::test]
async fn report_when_closed_may_disable_its_link() {
    let server = with_link("a", &[]).await;
    let fields = [("code", "a"), ("reason", "malware")];
    assert_eq!(report(&server, &fields, &[]).await.status, 303);
    let patch = json!({ "state": "closed", "disableLink": true });
    let closed = server.patch("/reports/1", &patch).await.expect(200);
    assert_eq!(closed["state"], "closed");
    assert!(closed["closedAt"].is_string());
    assert_eq!(server.follow("/a").await.status, 410);
    assert!(reports(&server, "?state=open").await.is_empty());
    assert_eq!(reports(&server, "?state=closed").await.len(), 1);
    let opened = server
        .patch("/reports/1", &json!({ "state": "open" }))
        .await;
    assert!(opened.expect(200)["closedAt"].is_null());
    let log = server.get("/audit?subject=report:1").await.expect(200);
    let entries = log["entries"].as_array().unwrap();
    let actions: Vec<&Value> = entries.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["report.open", "report.close"]);
    server.delete("/links/a").await;
    server
        .patch("/reports/1", &patch)
        .await
        .problem(404, "link-not-found");
    for (path, body, status) in [
        ("/reports/2", json!({}), 404),
        ("/reports/x", json!({}), 404),
        ("/reports/1", json!({ "state": "done" }), 422),
        ("/reports/1", json!({ "state": null }), 422),
        ("/reports/1", json!({ "reason": "spam" }), 422),
    ] {
        server.patch(path, &body).await.refused(status);
    }
    server.get("/reports?state=x").await.refused(422);
}

#[tokio::test]
async fn report_when_listed_is_seen_by_its_tenant_and_operators() {
    let server = with_link("a", &[]).await;
    let tenant = server.api(Method::POST, "/tenants");
    let tenant = send(tenant.json(&json!({ "name": "other" })))
        .await
        .expect(201);
    let key = tenant["adminKey"]["key"].as_str().unwrap().to_owned();
    let theirs = async |method: Method, path: &str, body: Value| {
        let url = format!("/api/v1{path}");
        send(server.plain(method, &url).bearer_auth(&key).json(&body)).await
    };
    let link = json!({ "longUrl": TARGET, "customSlug": "b" });
    theirs(Method::POST, "/links", link).await.expect(201);
    for (code, share) in [("a", ""), ("b", ""), ("b", "on")] {
        let fields = [
            ("code", code),
            ("reason", "spam"),
            ("email", "me@example.com"),
            ("shareEmail", share),
        ];
        assert_eq!(report(&server, &fields, &[]).await.status, 303);
    }
    let list = theirs(Method::GET, "/reports", json!({})).await.expect(200);
    let emails = |reports: &[Value]| -> Vec<Value> {
        reports
            .iter()
            .map(|report| report["email"].clone())
            .collect()
    };
    let mine = list["reports"].as_array().unwrap();
    assert!(mine.iter().all(|report| report["shortCode"] == "b"));
    assert_eq!(
        emails(mine),
        [json!("me@example.com"), Value::Null],
        "the address is the operator's, unless the visitor shares it"
    );
    assert_eq!(
        emails(&reports(&server, "").await),
        vec![json!("me@example.com"); 3]
    );
    let patch = json!({ "state": "closed" });
    theirs(Method::PATCH, "/reports/1", patch.clone())
        .await
        .problem(404, "not-found");
    // A tenant that closes what is reported of it takes nothing from the operator's list.
    let closed = theirs(Method::PATCH, "/reports/2", patch).await.expect(200);
    assert_eq!(
        (&closed["state"], &closed["tenantState"]),
        (&json!("closed"), &json!("closed"))
    );
    let open = reports(&server, "?state=open").await;
    assert_eq!(open.len(), 3);
    assert_eq!(
        (&open[1]["state"], &open[1]["tenantState"]),
        (&json!("open"), &json!("closed"))
    );
    // Those who operate the installation can stop abuse of any tenant.
    let patch = json!({ "state": "closed", "disableLink": true });
    server.patch("/reports/2", &patch).await.expect(200);
    assert_eq!(server.follow("/b").await.status, 410);
    server.get("/links/b").await.problem(404, "link-not-found");
}

#[tokio::test]
async fn report_when_link_is_not_yet_valid_is_refused() {
    let server = Running::with(&[]).await;
    let link = server.link("a").valid_since("2100-01-01T00:00:00Z");
    link.create().await;
    let fields = [("code", "a"), ("reason", "spam")];
    let answer = report(&server, &fields, &[]).await;
    assert!(assert_page(&answer, 422).contains("href=\"#code\""));
    assert!(reports(&server, "").await.is_empty());
}

#[tokio::test]
async fn reports_when_many_are_bounded_by_address_link_and_number() {
    let variables = [
        ("EDGELINK_REPORTS_PER_HOUR", "12"),
        ("EDGELINK_REPORTS_MAX_REPORTS", "11"),
        ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
    ];
    let server = with_link("a", &variables).await;
    server.link("b").to(TARGET).create().await;
    let send = async |code: &str, address: &str| {
        let fields = [("code", code), ("reason", "spam")];
        report(&server, &fields, &[("x-forwarded-for", address)]).await
    };
    for _ in 0..12 {
        assert_eq!(send("a", "192.0.2.1").await.status, 303);
    }
    let limited = send("a", "192.0.2.1").await;
    assert_page(&limited, 429);
    assert!(!limited.header("retry-after").is_empty());
    assert_eq!(
        reports(&server, "?limit=100").await.len(),
        10,
        "open ones of a link"
    );
    assert_eq!(send("b", "192.0.2.2").await.status, 303);
    assert_page(&send("b", "192.0.2.2").await, 503);
    // One that is closed gives way.
    for path in ["/reports/2", "/reports/1"] {
        let patch = json!({ "state": "closed" });
        server.patch(path, &patch).await.expect(200);
    }
    assert_eq!(send("b", "192.0.2.2").await.status, 303);
    let closed = reports(&server, "?state=closed").await;
    assert_eq!(closed.len(), 1);
}

#[tokio::test]
async fn report_when_switched_off_is_not_found() {
    let server = with_link("a", &[("EDGELINK_REPORTS_ENABLED", "false")]).await;
    assert!(!server.follow("/a+").await.text().contains("/+/report"));
    assert_page(&server.follow("/+/report").await, 404);
    let fields = [("code", "a"), ("reason", "spam")];
    assert_page(&report(&server, &fields, &[]).await, 404);
    assert_page(&visit(&server, "other.example", "/+/report").await, 404);
}
