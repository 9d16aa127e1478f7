//! What each role sees, and what it is refused.

use super::browser::{Browser, start};
use serde_json::json;

/// The pages that a role sees in the navigation.
async fn navigation(browser: &mut Browser<'_>, page: &str) -> Vec<String> {
    let page = browser.page(page).await;
    let (_, rest) = page.split_once("<nav aria-label=\"Main\">").unwrap();
    let (nav, _) = rest.split_once("</nav>").unwrap();
    let links = nav.split("<a href=\"").skip(1);
    links
        .map(|link| link.split_once('"').unwrap().0.to_owned())
        .collect()
}

#[tokio::test]
async fn role_when_logged_in_sees_pages_it_may() {
    let server = start().await;
    let all = [
        "/console",
        "/console/links",
        "/console/create",
        "/console/tags",
        "/console/domains",
        "/console/keys",
        "/console/users",
        "/console/reports",
        "/console/imports",
        "/console/audit",
        "/console/settings",
    ];
    for (role, seen) in [
        ("admin", all.to_vec()),
        (
            "editor",
            vec![all[0], all[1], all[2], all[4], all[8], all[10]],
        ),
        ("reader", vec![all[0], all[1], all[3], all[4], all[10]]),
        ("creator", vec![all[2], all[8], all[10]]),
    ] {
        let name = format!("a-{role}");
        let user = json!({ "name": name, "role": role, "password": "correct horse" });
        let made = server.api(reqwest::Method::POST, "/users").json(&user);
        crate::helpers::send(made).await.expect(201);
        let mut browser = Browser::new(&server).await;
        assert_eq!(browser.log_in(&name, "correct horse").await.status, 303);
        assert_eq!(
            navigation(&mut browser, "/console/settings").await,
            seen,
            "{role}"
        );
        for page in all {
            let status = browser.get(page).await.status.as_u16();
            let expected = match (seen.contains(&page), page, role) {
                (true, ..) => 200,
                // The overview of those who only create is a new link.
                (false, "/console", "creator") => 303,
                _ => 403,
            };
            assert_eq!(status, expected, "{role} {page}");
        }
        if role == "creator" {
            assert_eq!(browser.get("/console/live").await.status, 403);
        }
    }
}

#[tokio::test]
async fn reader_when_logged_in_is_offered_and_allowed_no_change() {
    let server = start().await;
    server.link("abc").tags(&["t"]).create().await;
    let mut reader = Browser::of_role(&server, "reader").await;
    for path in [
        "/console/links",
        "/console/links/abc",
        "/console/links/abc/rules",
        "/console/links/abc/history",
        "/console/tags",
        "/console/domains",
    ] {
        let page = reader.page(path).await;
        assert!(
            !page.contains("/edit") && !page.contains("/console/create"),
            "{path}: {page}"
        );
        let forms = page.matches("method=\"post\"").count();
        assert_eq!(forms, 1, "the logout alone: {path}");
    }
    for (path, fields) in [
        (
            "/console/links",
            vec![("link", "go.example:8080/abc"), ("action", "delete")],
        ),
        (
            "/console/links",
            vec![
                ("link", "go.example:8080/abc"),
                ("action", "tag"),
                ("tag", "x"),
            ],
        ),
        ("/console/create", vec![("longUrl", "https://example.com/")]),
        (
            "/console/create-many",
            vec![("lines", "https://example.com/")],
        ),
        ("/console/restore", vec![("link", "go.example:8080/abc")]),
        (
            "/console/links/abc/edit",
            vec![("longUrl", "https://example.com/x")],
        ),
        ("/console/links/abc/rules", vec![("rules", "[]")]),
        ("/console/links/abc/delete", vec![]),
        ("/console/tags/rename", vec![("tag", "t"), ("to", "u")]),
        ("/console/tags/delete", vec![("tag", "t")]),
        ("/console/domains", vec![("name", "new.example")]),
        ("/console/domains/go.example:8080", vec![]),
        ("/console/keys", vec![("name", "k")]),
        ("/console/users", vec![("name", "u")]),
        ("/console/users/1", vec![("name", "u")]),
    ] {
        let answer = reader.post(path, &fields).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert!(answer.text().contains("Not allowed"));
    }
    let links = server.all_links().await;
    assert_eq!((links.len(), &links[0]["tags"]), (1, &json!(["t"])));
}

#[tokio::test]
async fn link_when_of_another_owner_is_not_found_by_an_editor() {
    let server = start().await;
    let link = server.link("abc").to("https://example.com/secret");
    link.create().await;
    let mut editor = Browser::of_role(&server, "editor").await;
    assert!(!editor.page("/console/links").await.contains("secret"));
    for path in [
        "/console/links/abc",
        "/console/links/abc/edit",
        "/console/links/abc/rules",
        "/console/links/abc/history",
    ] {
        let answer = editor.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("Not found") && !answer.text().contains("secret"));
    }
    let answer = editor.post("/console/links/abc/delete", &[]).await;
    assert_eq!(answer.status, 404);
    assert_eq!(server.all_links().await.len(), 1);
}

#[tokio::test]
async fn creator_when_link_is_created_sees_it_once() {
    let server = start().await;
    let mut creator = Browser::of_role(&server, "creator").await;
    let answer = creator.get("/console").await;
    assert_eq!(answer.header("location"), "/console/create");
    let fields = [("longUrl", "https://example.com/"), ("customSlug", "mine")];
    let answer = creator.post("/console/create", &fields).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("go.example:8080/mine"));
    assert_eq!(creator.get("/console/links/mine").await.status, 403);
}
