//! Making, editing, deleting and restoring a link, its rules and its history.

use super::browser::{Browser, problem_at, start};
use serde_json::json;

#[tokio::test]
async fn link_when_created_with_every_field_keeps_them() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let fields = [
        ("longUrl", "https://example.com/a?x=1"),
        ("customSlug", "summer"),
        ("domain", "other.example"),
        ("title", "Summer sale"),
        ("tags", "b, a"),
        ("redirectStatus", "307"),
        ("validSince", "2020-01-01T00:00"),
        ("validUntil", "2999-12-31T23:59:59"),
        ("expiredUrl", "https://example.com/over"),
        ("maxVisits", "1000"),
        ("password", "sesame"),
        ("state", "disabled"),
        ("forwardPath", "on"),
        ("crawlable", "on"),
        ("trackConversions", "on"),
        ("archived", "on"),
        ("externalId", "cms-1"),
        ("notes", "one\r\ntwo"),
        ("utmSource", "news"),
        ("utmMedium", "mail"),
        ("utmCampaign", "june"),
        ("utmTerm", "shoes"),
        ("utmContent", "top"),
    ];
    let to = browser.submit("/console/create", &fields).await;
    assert_eq!(
        to,
        "/console/links/summer?domain=other%2Eexample&done=created"
    );
    let page = browser.page(&to).await;
    assert!(page.contains("Created.") && page.contains("Summer sale"));
    let page = browser
        .page("/console/links/summer/edit?domain=other.example")
        .await;
    // Browsers refuse seconds in a field whose steps are minutes.
    assert!(
        page.contains("value=\"2999-12-31T23:59:59\" step=\"1\""),
        "{page}"
    );
    let link = server
        .get("/links/summer?domain=other.example")
        .await
        .expect(200);
    let expected = json!({
        "longUrl": "https://example.com/a?x=1&utm_source=news&utm_medium=mail&utm_campaign=june&utm_term=shoes&utm_content=top",
        "domain": "other.example", "title": "Summer sale", "tags": ["a", "b"], "redirectStatus": 307,
        "validSince": "2020-01-01T00:00:00Z", "validUntil": "2999-12-31T23:59:59Z",
        "expiredUrl": "https://example.com/over", "maxVisits": 1000, "hasPassword": true, "state": "disabled",
        "forwardQuery": false, "forwardPath": true, "crawlable": true, "trackConversions": true, "archived": true,
        "externalId": "cms-1", "notes": "one\ntwo",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&link[field], value, "{field}");
    }
}

#[tokio::test]
async fn link_form_when_a_field_is_wrong_names_it_and_keeps_input() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let long = "x".repeat(600);
    for (field, value) in [
        ("longUrl", "ftp://example.com/"),
        ("longUrl", ""),
        ("customSlug", "a b"),
        ("domain", "unknown.example"),
        ("title", long.as_str()),
        ("tags", long.as_str()),
        ("redirectStatus", "200"),
        ("validSince", "soon"),
        ("validUntil", "later"),
        ("expiredUrl", "nowhere"),
        ("maxVisits", "many"),
        ("password", long.as_str()),
        ("state", "open"),
        ("externalId", long.as_str()),
        ("utmSource", long.as_str()),
        ("utmMedium", long.as_str()),
        ("utmCampaign", long.as_str()),
        ("utmTerm", long.as_str()),
        ("utmContent", long.as_str()),
    ] {
        let mut fields = vec![("longUrl", "https://example.com/kept"), ("title", "Kept")];
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let answer = browser.post("/console/create", &fields).await;
        assert_eq!(answer.status, 422, "{field}");
        let page = answer.text();
        assert!(!problem_at(page, field).is_empty(), "{field}: {page}");
        let kept = if field == "longUrl" {
            "Kept"
        } else {
            "https://example.com/kept"
        };
        assert!(page.contains(kept), "{field}");
        assert!(
            page.contains(&format!("<a href=\"#{field}\">")),
            "{field} is in the list of problems"
        );
        assert!(!page.contains("type=\"password\" value"), "{field}");
        let others = page.matches("aria-invalid=\"true\"").count();
        assert_eq!(others, 1, "{field}");
    }
    let notes = "n".repeat(5_000);
    let fields = [
        ("longUrl", "https://example.com/"),
        ("notes", notes.as_str()),
    ];
    let answer = browser.post("/console/create", &fields).await;
    assert!(!problem_at(answer.text(), "notes").is_empty());
    assert!(server.all_links().await.is_empty());
}

#[tokio::test]
async fn alias_when_taken_is_named_at_its_field() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let fields = [("longUrl", "https://example.com/"), ("customSlug", "abc")];
    browser.submit("/console/create", &fields).await;
    let fields = [
        ("longUrl", "https://example.com/other"),
        ("customSlug", "abc"),
    ];
    let answer = browser.post("/console/create", &fields).await;
    assert_eq!(answer.status, 409);
    assert!(!problem_at(answer.text(), "customSlug").is_empty());
}

#[tokio::test]
async fn link_form_when_parameters_are_given_is_filled_in() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let page = browser
        .page("/console/create?longUrl=https://example.com/x%22%3E&password=p")
        .await;
    assert!(
        page.contains("value=\"https://example.com/x&#34;&#62;\""),
        "{page}"
    );
    assert!(!page.contains("value=\"p\""));
}

#[tokio::test]
async fn link_when_changed_meanwhile_is_not_overwritten() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let link = json!({ "longUrl": "https://example.com/?utm_source=a", "customSlug": "abc", "title": "Old", "password": "p" });
    server.post(&link).await.expect(201);
    let page = browser.page("/console/links/abc/edit").await;
    let (_, rest) = page.split_once("name=\"entityTag\" value=\"").unwrap();
    let entity_tag = rest.split_once('"').unwrap().0.replace("&#34;", "\"");
    let fields = [
        ("entityTag", entity_tag.as_str()),
        ("longUrl", "https://example.com/?utm_source=b"),
        ("title", "New"),
        ("state", "active"),
        ("redirectStatus", "301"),
        ("forwardQuery", "on"),
    ];
    let to = browser.submit("/console/links/abc/edit", &fields).await;
    assert!(browser.page(&to).await.contains("The changes are saved."));
    let link = server.get("/links/abc").await.expect(200);
    assert_eq!(
        (&link["title"], &link["redirectStatus"]),
        (&json!("New"), &json!(301))
    );
    assert_eq!(link["longUrl"], "https://example.com/?utm_source=b");
    assert_eq!(link["hasPassword"], true, "it was not entered again");
    let again = [
        ("entityTag", entity_tag.as_str()),
        ("longUrl", "https://example.com/late"),
        ("title", "Late"),
    ];
    let answer = browser.post("/console/links/abc/edit", &again).await;
    assert_eq!(answer.status, 412);
    assert!(answer.text().contains("https://example.com/late"));
    assert_eq!(server.get("/links/abc").await.expect(200)["title"], "New");
    let fields = [
        ("longUrl", "https://example.com/"),
        ("removePassword", "on"),
        ("title", "New"),
        ("forwardQuery", "on"),
    ];
    browser.submit("/console/links/abc/edit", &fields).await;
    assert_eq!(
        server.get("/links/abc").await.expect(200)["hasPassword"],
        false
    );
    let answer = browser
        .post(
            "/console/links/abc/edit",
            &[("longUrl", "x:"), ("title", "New")],
        )
        .await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "longUrl").is_empty());
}

#[tokio::test]
async fn deletion_when_undone_restores_the_link() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").on("other.example").create().await;
    let to = browser
        .submit("/console/links/abc/delete?domain=other.example", &[])
        .await;
    assert_eq!(to, "/console/links/abc/deleted?domain=other%2Eexample");
    assert_eq!(
        browser
            .get("/console/links/abc?domain=other.example")
            .await
            .status,
        404
    );
    assert!(
        browser
            .page("/console/audit")
            .await
            .contains("/console/links/abc/deleted?domain=other%2Eexample")
    );
    assert!(
        browser
            .page(&to)
            .await
            .contains("value=\"other.example/abc\"")
    );
    let to = browser
        .submit("/console/restore", &[("link", "other.example/abc")])
        .await;
    assert!(browser.page(&to).await.contains("The link is back."));
    let answer = browser
        .post("/console/restore", &[("link", "other.example/abc")])
        .await;
    assert_eq!(answer.status, 409);
    assert!(answer.text().contains("It has changed meanwhile"));
    let history = browser
        .page("/console/links/abc/history?domain=other.example")
        .await;
    assert!(
        history.contains("link.restore") && history.contains("link.delete"),
        "{history}"
    );
}

#[tokio::test]
async fn rules_when_edited_are_saved_and_tried() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    let rules = r#"[{"longUrl": "https://example.com/de", "conditions": [{"type": "language", "matchKey": null, "matchValue": "de"}]}]"#;
    let to = browser
        .submit("/console/links/abc/rules", &[("rules", rules)])
        .await;
    let page = browser.page(&to).await;
    assert!(page.contains("The rules are saved.") && page.contains("https://example.com/de"));
    let page = browser
        .page("/console/links/abc/dry-run?acceptLanguage=de")
        .await;
    assert!(
        page.contains("302 redirect") && page.contains("(saw de)"),
        "{page}"
    );
    let page = browser
        .page("/console/links/abc/dry-run?acceptLanguage=fr")
        .await;
    assert!(page.contains("does not hold"));
    let answer = browser.get("/console/links/abc/dry-run?ip=here").await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "ip").is_empty());
    for wrong in ["[", "{}", r#"[{"longUrl": "x", "conditions": []}]"#] {
        let answer = browser
            .post("/console/links/abc/rules", &[("rules", wrong)])
            .await;
        assert_eq!(answer.status, 422, "{wrong}");
        assert!(!problem_at(answer.text(), "rules").is_empty(), "{wrong}");
    }
    browser
        .submit("/console/links/abc/rules", &[("rules", "")])
        .await;
    let rules = server.get("/links/abc/rules").await.expect(200);
    assert_eq!(rules["redirectRules"], json!([]));
}

#[tokio::test]
async fn link_when_move_form_is_sent_is_on_the_other_domain() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("old").create().await;
    let path = "/console/links/old/move?domain=go%2Eexample%3A8080";
    let page = browser.page(path).await;
    assert!(page.contains("other.example") && page.contains("value=\"old\""));
    let there = [("domain", "other.example"), ("customSlug", "new")];
    let here = [("domain", "go.example:8080"), ("customSlug", "old")];
    let answer = browser.post(path, &here).await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "customSlug").is_empty());
    let stale = [&there[..], &[("entityTag", "\"0\"")]].concat();
    let refused = browser.post(path, &stale).await;
    assert_eq!(refused.status, 412);
    let (_, stored) = refused
        .text()
        .split_once("name=\"storedTag\" value=\"")
        .expect("what is stored now");
    let stored = stored.split('"').next().unwrap().replace("&#34;", "\"");
    let overwritten = [("storedTag", &*stored), ("overwrite", "on")];
    let kept = [&stale[..], &[("keepOld", "on")], &overwritten].concat();
    let to = browser.submit(path, &kept).await;
    assert_eq!(to, "/console/links/new?domain=other%2Eexample&done=moved");
    assert!(browser.page(&to).await.contains("The link is here now."));
    server.get("/links/old").await.expect(200);
    let further = [("domain", "other.example"), ("customSlug", "third")];
    browser.submit(path, &further).await;
    assert_eq!(server.get("/links/old").await.status, 404);
    assert_eq!(browser.get(path).await.status, 404);
}

#[tokio::test]
async fn qr_code_when_requested_comes_as_svg_without_script() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("code").create().await;
    let path = "/console/links/code/qr.svg?domain=go%2Eexample%3A8080";
    let page = browser
        .page("/console/links/code?domain=go%2Eexample%3A8080")
        .await;
    assert!(page.contains(&format!("src=\"{path}\"")), "{page}");
    let answer = crate::helpers::send(browser.request(reqwest::Method::GET, path)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "image/svg+xml");
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    let svg = answer.text();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{svg}");
    let absent = browser.get("/console/links/absent/qr.svg").await;
    assert_eq!(absent.status, 404);
    let anybody = server.plain(reqwest::Method::GET, path);
    assert_eq!(crate::helpers::send(anybody).await.status, 303);
}
