//! What was entered, and what others have changed, is not lost without a word.

use super::browser::{Browser, CREATE, hidden, problem_at, start};
use crate::helpers::send;
use reqwest::Method;
use serde_json::json;

const TARGET: (&str, &str) = ("longUrl", "https://example.com/");

#[tokio::test]
async fn password_when_form_is_shown_again_must_be_entered_again() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    for (path, fields, status) in [
        (CREATE, vec![TARGET, ("customSlug", "abc")], 409),
        ("/console/links/abc/edit", vec![("longUrl", "x:")], 422),
        (
            "/console/users",
            vec![("name", "admin"), ("role", "reader")],
            409,
        ),
    ] {
        let answer = browser.post(path, &fields).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert_eq!(problem_at(answer.text(), "password"), "", "{path}");
        let with_password = [&fields[..], &[("password", "sesame open")]].concat();
        let answer = browser.post(path, &with_password).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        let problem = problem_at(answer.text(), "password");
        assert!(problem.starts_with("enter it again"), "{path}: {problem}");
        assert!(!answer.text().contains("sesame open"));
    }
}

#[tokio::test]
async fn link_form_when_mistaken_keeps_its_first_revision() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").title("Old").create().await;
    let path = "/console/links/abc/edit";
    let began = hidden(&browser.page(path).await, "entityTag");
    let theirs = json!({ "title": "Theirs" });
    server.patch("/links/abc", &theirs).await.expect(200);
    let tag = ("entityTag", began.as_str());
    let wrong = [tag, ("longUrl", "x:"), ("title", "Old")];
    let answer = browser.post(path, &wrong).await;
    assert_eq!(answer.status, 422);
    assert_eq!(hidden(answer.text(), "entityTag"), began);
    let corrected = [
        tag,
        ("longUrl", "https://example.com/new"),
        ("title", "Old"),
        ("state", "active"),
        ("redirectStatus", "302"),
        ("forwardQuery", "on"),
    ];
    // Sending it once more is no consent.
    for _ in 0..2 {
        let answer = browser.post(path, &corrected).await;
        assert_eq!(answer.status, 412);
        assert_eq!(hidden(answer.text(), "entityTag"), began);
        assert!(answer.text().contains("Theirs"), "what is stored now");
        let link = server.get("/links/abc").await.expect(200);
        assert_eq!(link["title"], "Theirs");
    }
    let answer = browser.post(path, &corrected).await;
    let stored = hidden(answer.text(), "storedTag");
    let consent = [("storedTag", stored.as_str()), ("overwrite", "on")];
    let agreed = [&corrected[..], &consent].concat();
    // It is about what was shown: not about a change that came after.
    let later = json!({ "title": "Later" });
    server.patch("/links/abc", &later).await.expect(200);
    let answer = browser.post(path, &agreed).await;
    assert_eq!(answer.status, 412);
    let stored = hidden(answer.text(), "storedTag");
    let consent = [("storedTag", stored.as_str()), ("overwrite", "on")];
    let agreed = [&corrected[..], &consent].concat();
    browser.submit(path, &agreed).await;
    assert_eq!(server.get("/links/abc").await.expect(200)["title"], "Old");
}

#[tokio::test]
async fn rules_form_when_mistaken_keeps_its_first_revision() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    let path = "/console/links/abc/rules";
    let began = hidden(&browser.page(path).await, "entityTag");
    let condition = json!({ "type": "language", "matchKey": null, "matchValue": "de" });
    let rules = json!({ "redirectRules": [{ "longUrl": "https://example.com/theirs", "conditions": [condition] }] });
    let theirs = server.api(Method::POST, "/links/abc/rules").json(&rules);
    send(theirs).await.expect(200);
    let tag = ("entityTag", began.as_str());
    let answer = browser.post(path, &[tag, ("rules", "[")]).await;
    assert_eq!(answer.status, 422);
    assert_eq!(hidden(answer.text(), "entityTag"), began);
    let answer = browser.post(path, &[tag, ("rules", "[]")]).await;
    assert_eq!(answer.status, 412);
    assert!(answer.text().contains("https://example.com/theirs"));
    let stored = hidden(answer.text(), "storedTag");
    let agreed = [
        tag,
        ("rules", "[]"),
        ("storedTag", stored.as_str()),
        ("overwrite", "on"),
    ];
    browser.submit(path, &agreed).await;
    let rules = server.get("/links/abc/rules").await.expect(200);
    assert_eq!(rules["redirectRules"], json!([]));
}

#[tokio::test]
async fn tag_when_it_has_a_comma_stays_one_tag() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").tags(&["a,b", "c"]).create().await;
    let path = "/console/links/abc/edit";
    let page = browser.page(path).await;
    let (_, rest) = page.split_once("id=\"tags\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let shown = rest.split_once('<').unwrap().0.trim_start_matches('\n');
    assert_eq!(shown, "a,b\nc");
    let sent = shown.replace('\n', "\r\n");
    browser
        .submit(path, &[TARGET, ("tags", &sent), ("title", "New")])
        .await;
    let link = server.get("/links/abc").await.expect(200);
    assert_eq!(link["tags"], json!(["a,b", "c"]));
    let fields = [
        ("link", "go.example:8080/abc"),
        ("action", "tag"),
        ("tag", "d, e"),
    ];
    let answer = browser.post("/console/links", &fields).await;
    assert_eq!(answer.status, 422, "one tag at a time");
    let fields = [
        ("link", "go.example:8080/abc"),
        ("action", "untag"),
        ("tag", "a,b"),
    ];
    browser.post("/console/links", &fields).await;
    let link = server.get("/links/abc").await.expect(200);
    assert_eq!(link["tags"], json!(["c"]));
}

#[tokio::test]
async fn form_when_session_has_ended_leads_back_to_its_page() {
    let server = start().await;
    let browser = Browser::new(&server).await;
    let own = server.url("/console/links/abc/edit?domain=other.example");
    for (referer, to) in [
        (
            own.as_str(),
            "/console/login?to=%2Fconsole%2Flinks%2Fabc%2Fedit%3Fdomain%3Dother%2Eexample",
        ),
        ("https://evil.example/x", "/console/login"),
    ] {
        let mut form = Browser {
            server: &server,
            cookie: browser.cookie.clone(),
        };
        let token = form.form_token().await;
        let request = form.request(Method::POST, "/console/links/abc/edit");
        let request = request.header("referer", referer);
        let answer = send(request.body(super::browser::form(&[("csrf", &token)]))).await;
        assert_eq!(answer.status, 303);
        assert_eq!(answer.header("location"), to);
    }
}

#[tokio::test]
async fn form_when_too_long_names_the_bound() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let long = "a".repeat(65_536);
    let answer = browser.post(CREATE, &[TARGET, ("notes", &long)]).await;
    assert_eq!(answer.status, 413);
    for words in ["Too much at once", "65536 bytes"] {
        assert!(answer.text().contains(words), "{}", answer.text());
    }
}

#[tokio::test]
async fn form_when_tag_is_blank_or_links_are_over_100_is_refused() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for path in ["/console/tags/rename", "/console/tags/delete"] {
        let answer = browser.post(path, &[("tag", " "), ("to", "x")]).await;
        assert_eq!(answer.status, 422, "{path}: {}", answer.text());
        assert_eq!(problem_at(answer.text(), "tag"), "is required", "{path}");
    }
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("link", "go.example:8080/x"), 101).collect();
    let fields = [&many[..], &[("action", "enable")]].concat();
    let answer = browser.post("/console/links", &fields).await;
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("at most 100"), "{}", answer.text());
}

#[tokio::test]
async fn deleted_page_when_link_exists_leads_to_the_link() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    let answer = browser.get("/console/links/abc/deleted").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), "/console/links/abc");
}

#[tokio::test]
async fn form_when_sent_twice_creates_one_link() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let once = hidden(&browser.page(CREATE).await, "once");
    let fields = [TARGET, ("once", once.as_str())];
    let first = browser.submit(CREATE, &fields).await;
    assert_eq!(browser.submit(CREATE, &fields).await, first);
    assert_eq!(server.all_links().await.len(), 1);
    let other = hidden(&browser.page(CREATE).await, "once");
    assert_ne!(once, other);
    let fields = [TARGET, ("once", other.as_str())];
    assert_ne!(browser.submit(CREATE, &fields).await, first);
}

#[tokio::test]
async fn form_when_wrong_shows_its_problems_first() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let page = browser.page(CREATE).await;
    assert!(!page.contains("<title>Error") && !page.contains("autofocus"));
    let answer = browser.post(CREATE, &[("longUrl", "x:")]).await;
    let page = answer.text();
    assert!(page.contains("<title>Error: New link"), "{page}");
    let summary = "<div class=\"problems\" role=\"alert\" tabindex=\"-1\" autofocus>";
    assert!(page.contains(summary), "{page}");
    let login = Browser::new(&server).await.page("/console/login").await;
    assert!(login.contains("autocomplete=\"username\""), "{login}");
}

#[tokio::test]
async fn change_when_it_cannot_be_undone_asks_first() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").tags(&["a/b"]).create().await;
    let page = browser.page("/console/tags").await;
    assert!(
        page.contains("<a href=\"/console/tags/delete?tag=a%2Fb\""),
        "{page}"
    );
    let page = browser.page("/console/tags/delete?tag=a%2Fb").await;
    assert!(page.contains("Links that have it:  1"), "{page}");
    assert_eq!(hidden(&page, "tag"), "a/b");
    let tags = server.get("/tags").await.expect(200);
    assert_eq!(tags["tags"][0]["tag"], "a/b");
    let answer = browser.get("/console/tags/delete?tag=a").await;
    assert_eq!(answer.status, 404);
    let admin = server.admin_key.split('_').nth(1).unwrap();
    let path = format!("/console/keys/{admin}/revoke");
    assert!(browser.page("/console/keys").await.contains(&path));
    let page = browser.page(&path).await;
    assert!(page.contains(&format!("action=\"{path}\"")), "{page}");
    let domain = server.api(Method::POST, "/domains");
    let domain = domain.json(&json!({ "name": "new.example" }));
    send(domain).await.expect(201);
    let path = "/console/domains/new%2Eexample/delete";
    let page = browser.page("/console/domains/new.example").await;
    assert!(page.contains(path), "{page}");
    let page = browser.page(path).await;
    assert!(page.contains(&format!("action=\"{path}\"")), "{page}");
}

#[tokio::test]
async fn link_when_its_code_is_a_route_word_has_its_page() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for code in ["new", "many", "restore"] {
        server.link(code).title("Mine").create().await;
        let page = browser.page(&format!("/console/links/{code}")).await;
        assert!(page.contains("<h1>Mine</h1>"), "{code}: {page}");
    }
}

#[tokio::test]
async fn link_when_its_uses_are_spent_is_not_called_active() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").max_visits(1).create().await;
    assert!(
        browser
            .page("/console/links/abc")
            .await
            .contains(">active<")
    );
    server
        .follow("/abc")
        .await
        .redirects(302, "https://example.com/");
    server.follow("/abc").await.page(410, "");
    let page = browser.page("/console/links/abc").await;
    assert!(page.contains(">used-up<"), "{page}");
}

#[tokio::test]
async fn domains_when_more_than_a_page_are_paged() {
    let server = crate::helpers::Running::with(&[
        ("EDGELINK_DOMAINS_MAX_PER_TENANT", "200"),
        ("EDGELINK_DOMAINS_MAX_UNVERIFIED", "200"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    for number in 0..101 {
        let domain = json!({ "name": format!("d{number:03}.example") });
        let made = server.api(Method::POST, "/domains").json(&domain);
        send(made).await.expect(201);
    }
    let first = browser.page("/console/domains").await;
    let (_, next) = first.split_once("<a rel=\"next\" href=\"").unwrap();
    let next = next.split_once('"').unwrap().0.replace("&#38;", "&");
    let second = browser.page(&next).await;
    assert!(!first.contains("other.example<") && second.contains("other.example<"));
    // A choice would not have all.
    for path in [CREATE, "/console/links"] {
        let page = browser.page(path).await;
        assert!(
            page.contains("<input type=\"text\" id=\"domain\""),
            "{path}"
        );
    }
}

#[tokio::test]
async fn tag_box_when_enter_is_pressed_adds_a_tag() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    let page = browser.page("/console/links").await;
    let (_, form) = page
        .split_once("method=\"post\" action=\"/console/links\"")
        .unwrap();
    let (_, first) = form.split_once("<button type=\"submit\"").unwrap();
    assert!(
        first.starts_with(" name=\"action\" value=\"tag\""),
        "{first}"
    );
}
