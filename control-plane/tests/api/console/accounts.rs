//! Tags, domains, keys, users and one's own password.

use super::browser::{Browser, problem_at, start};
use crate::helpers::send;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn tag_when_its_form_is_sent_is_renamed_merged_or_removed() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for (slug, tag) in [("one", "a/b"), ("two", "c")] {
        server.link(slug).tags(&[tag]).create().await;
    }
    let to = browser
        .submit("/console/tags/rename", &[("tag", "a/b"), ("to", "d")])
        .await;
    let page = browser.page(&to).await;
    assert!(page.contains("The tag was changed") && page.contains("/console/links?tags=d"));
    let answer = browser
        .post("/console/tags/rename", &[("tag", "c"), ("to", "d")])
        .await;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let answer = browser
        .post("/console/tags/rename", &[("tag", "c"), ("to", "")])
        .await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "to").is_empty());
    browser
        .submit(
            "/console/tags/rename",
            &[("tag", "c"), ("to", "d"), ("merge", "on")],
        )
        .await;
    let tags = server.get("/tags").await.expect(200);
    assert_eq!(
        tags["tags"],
        json!([{ "tag": "d", "links": 2, "atLeast": false }])
    );
    browser
        .submit("/console/tags/delete", &[("tag", "d")])
        .await;
    assert!(
        browser
            .page("/console/tags")
            .await
            .contains("No link has a tag.")
    );
    assert_eq!(
        browser
            .post("/console/tags/delete", &[("tag", "d")])
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn key_when_rotated_shows_its_new_secret_once() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let made = send(
        server
            .api(Method::POST, "/keys")
            .json(&json!({ "name": "<k>" })),
    );
    let made = made.await.expect(201);
    let (id, old) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let path = format!("/console/keys/{id}/rotate");
    assert!(
        browser
            .page("/console/keys")
            .await
            .contains(&format!("href=\"{path}\""))
    );
    assert!(browser.page(&path).await.contains("&#60;k&#62;"));
    let works = async |key: &str| {
        let links = server.plain(Method::GET, "/api/v1/links");
        send(links.header("x-api-key", key)).await.status == 200
    };
    for (overlap, old_works) in [("3600", true), ("0", false)] {
        let answer = browser.post(&path, &[("overlapSeconds", overlap)]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (_, new) = answer.text().split_once("class=\"secret\">").unwrap();
        let new = new.split_once('<').unwrap().0.to_owned();
        assert!(works(&new).await);
        assert_eq!(works(old).await, old_works);
        assert!(!browser.page("/console/keys").await.contains(&new));
    }
    let answer = browser.post(&path, &[("overlapSeconds", "soon")]).await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "overlapSeconds").is_empty());
    let absent = browser.post("/console/keys/0000/rotate", &[]).await;
    assert_eq!(absent.status, 404);
}

#[tokio::test]
async fn domain_when_its_form_is_sent_is_created_or_removed() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    assert!(
        browser
            .page("/console/domains")
            .await
            .contains("go.example:8080")
    );
    let answer = browser
        .post(
            "/console/domains",
            &[("name", "no domain"), ("rootUrl", "x")],
        )
        .await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "name").is_empty());
    assert!(!problem_at(answer.text(), "rootUrl").is_empty());
    let fields = [("name", "new.example"), ("rootUrl", "https://example.com/")];
    let to = browser.submit("/console/domains", &fields).await;
    assert_eq!(to, "/console/domains/new%2Eexample");
    let page = browser.page(&to).await;
    assert!(
        page.contains("not verified") && page.contains(" TXT "),
        "{page}"
    );
    let to = browser
        .submit(&to, &[("rootUrl", ""), ("defaultStatus", "301")])
        .await;
    assert!(browser.page(&to).await.contains("The changes are saved."));
    let domain = server.get("/domains/new.example").await.expect(200);
    assert_eq!(
        (&domain["rootUrl"], &domain["defaultStatus"]),
        (&json!(null), &json!(301))
    );
    browser
        .submit("/console/domains/new.example/delete", &[])
        .await;
    assert_eq!(
        browser.get("/console/domains/new.example").await.status,
        404
    );
    let answer = browser
        .post("/console/domains/go.example:8080/delete", &[])
        .await;
    assert_eq!(answer.status, 409);
}

#[tokio::test]
async fn key_when_created_is_shown_once_and_if_revoked_ends_sessions() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let fields = [
        ("name", "bot"),
        ("role", "editor"),
        ("domains", "other.example"),
        ("tags", "t"),
        ("quota", "3"),
        ("expiresAt", "2999-01-01T00:00"),
    ];
    let answer = browser.post("/console/keys", &fields).await;
    assert_eq!(answer.status, 201);
    let (_, rest) = answer.text().split_once("<code class=\"secret\">").unwrap();
    let key = rest.split_once('<').unwrap().0.to_owned();
    let id = key.split('_').nth(1).unwrap();
    let shown = server.get(&format!("/keys/{id}")).await.expect(200);
    assert_eq!(
        (&shown["quota"], &shown["tags"]),
        (&json!(3), &json!(["t"]))
    );
    assert!(!browser.page("/console/keys").await.contains(&key));
    let mut its = Browser::by_key(&server, &key).await;
    its.page("/console/links").await;
    browser
        .submit(&format!("/console/keys/{id}/revoke"), &[])
        .await;
    assert_eq!(its.get("/console/links").await.status, 303);
    let wrong = [
        ("name", ""),
        ("role", "king"),
        ("userId", "me"),
        ("domains", "no.example"),
        ("expiresAt", "soon"),
        ("quota", "-1"),
    ];
    let answer = browser.post("/console/keys", &wrong).await;
    assert_eq!(answer.status, 422);
    for (field, _) in wrong {
        assert!(!problem_at(answer.text(), field).is_empty(), "{field}");
    }
    let admin = server.admin_key.split('_').nth(1).unwrap();
    let answer = browser
        .post(&format!("/console/keys/{admin}/revoke"), &[])
        .await;
    assert_eq!(answer.status, 409);
    browser.page("/console/keys").await;
}

#[tokio::test]
async fn user_when_role_or_state_changes_is_limited_at_once() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let fields = [
        ("name", "ada"),
        ("role", "reader"),
        ("password", "correct horse"),
    ];
    browser.submit("/console/users", &fields).await;
    let mut ada = Browser::new(&server).await;
    assert_eq!(ada.log_in("ada", "correct horse").await.status, 303);
    let users = server.get("/users").await.expect(200);
    let id = users["users"].as_array().unwrap().last().unwrap()["id"]
        .as_u64()
        .unwrap();
    let path = format!("/console/users/{id}");
    assert!(
        browser
            .page(&path)
            .await
            .contains("There is one. Leave it empty to keep it.")
    );
    browser
        .submit(&path, &[("name", "ada"), ("role", "creator")])
        .await;
    assert_eq!(
        ada.get("/console/links").await.status,
        403,
        "the role counts at once"
    );
    browser
        .submit(
            &path,
            &[("name", "ada"), ("role", "creator"), ("disabled", "on")],
        )
        .await;
    assert_eq!(ada.get("/console/settings").await.status, 303);
    let answer = browser
        .post(
            "/console/users",
            &[("name", "ada"), ("role", "x"), ("password", "p")],
        )
        .await;
    assert_eq!(answer.status, 422);
    for field in ["role", "password"] {
        assert!(!problem_at(answer.text(), field).is_empty(), "{field}");
    }
    let answer = browser
        .post("/console/users", &[("name", "ada"), ("role", "reader")])
        .await;
    assert_eq!(answer.status, 409);
    assert_eq!(problem_at(answer.text(), "name"), "is taken");
}

#[tokio::test]
async fn own_password_when_present_one_is_given_is_changed() {
    let server = start().await;
    let mut browser = Browser::of_role(&server, "editor").await;
    let mut elsewhere = Browser::new(&server).await;
    elsewhere.log_in("editor", "correct horse").await;
    let path = "/console/settings/password";
    for (current, new, field) in [
        ("wrong", "another horse", "current"),
        ("correct horse", "short", "password"),
    ] {
        let answer = browser
            .post(path, &[("current", current), ("password", new)])
            .await;
        assert_eq!(answer.status, 422);
        assert!(!problem_at(answer.text(), field).is_empty());
    }
    let fields = [("current", "correct horse"), ("password", "another horse")];
    let to = browser.submit(path, &fields).await;
    assert!(browser.page(&to).await.contains("The password is changed."));
    assert_eq!(elsewhere.get("/console").await.status, 303);
    assert_eq!(
        elsewhere.log_in("editor", "correct horse").await.status,
        403
    );
    assert_eq!(
        elsewhere.log_in("editor", "another horse").await.status,
        303
    );
}

#[tokio::test]
async fn own_password_when_key_is_bound_is_not_set() {
    let server = start().await;
    let key = json!({ "name": "k", "role": "creator" });
    let made = send(server.api(Method::POST, "/keys").json(&key))
        .await
        .expect(201);
    let mut browser = Browser::by_key(&server, made["key"].as_str().unwrap()).await;
    assert!(
        browser
            .page("/console/settings")
            .await
            .contains("An admin can give you one.")
    );
    let answer = browser
        .post(
            "/console/settings/password",
            &[("password", "correct horse")],
        )
        .await;
    assert_eq!(answer.status, 403);
    let mut admin = Browser::admin(&server).await;
    admin
        .submit(
            "/console/settings/password",
            &[("password", "correct horse")],
        )
        .await;
    let mut by_password = Browser::new(&server).await;
    assert_eq!(
        by_password.log_in("admin", "correct horse").await.status,
        303
    );
    by_password.page("/console/users").await;
}
