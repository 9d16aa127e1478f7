//! Logging in and out, and what a session is.

use super::browser::{Browser, form, start};
use crate::helpers::{Running, send, until};
use reqwest::Method;
use serde_json::json;

async fn user(server: &Running, body: &serde_json::Value) -> u64 {
    let made = send(server.api(Method::POST, "/users").json(body)).await;
    made.expect(201)["id"].as_u64().unwrap()
}

#[tokio::test]
async fn page_when_no_session_is_open_leads_to_login_and_back() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    let answer = browser.get("/console/links?tags=a%20b").await;
    assert_eq!(answer.status, 303);
    let login = answer.header("location").to_owned();
    assert_eq!(
        login,
        "/console/login?to=%2Fconsole%2Flinks%3Ftags%3Da%2520b"
    );
    assert!(
        browser
            .page(&login)
            .await
            .contains("value=\"/console/links?tags=a%20b\"")
    );
    let fields = [
        ("key", server.admin_key.as_str()),
        ("to", "/console/links?tags=a%20b"),
    ];
    let to = browser.submit("/console/login", &fields).await;
    assert_eq!(to, "/console/links?tags=a%20b");
    assert!(browser.page(&to).await.contains("No link matches"));
}

#[tokio::test]
async fn session_cookie_when_off_loopback_is_secure() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    let token = browser.form_token().await;
    let of_host = browser.cookie.replace("edgelink_", "__Host-edgelink_");
    for (host, cookie, path, secure) in [
        ("localhost", &browser.cookie, "/console", ""),
        ("console.example", &of_host, "/", "; Secure"),
    ] {
        let body = form(&[("csrf", &token), ("key", &server.admin_key)]);
        let request = server
            .plain(Method::POST, "/console/login")
            .header("host", host)
            .header("cookie", cookie);
        let answer = send(request.body(body)).await;
        assert_eq!(answer.status, 303);
        let (made, flags) = answer.header("set-cookie").split_once(';').unwrap();
        assert_eq!(
            flags,
            format!(" Path={path}; HttpOnly; SameSite=Strict{secure}")
        );
        let (name, value) = made.split_once('=').unwrap();
        assert!(cookie.starts_with(&format!("{name}=")), "{name}");
        assert_eq!(value.len(), 64);
        assert_ne!(made, cookie, "a login has a token of its own");
    }
    let answer = browser
        .post("/console/login", &[("key", &server.admin_key)])
        .await;
    assert_eq!(answer.status, 303);
    let answer = browser.post("/console/logout", &[]).await;
    assert!(answer.header("set-cookie").ends_with("; Max-Age=0"));
}

#[tokio::test]
async fn login_when_wrong_begins_no_session() {
    let server = start().await;
    user(
        &server,
        &json!({ "name": "ada", "password": "correct horse" }),
    )
    .await;
    user(&server, &json!({ "name": "bob" })).await;
    let mut browser = Browser::new(&server).await;
    let before = browser.cookie.clone();
    let wrong_key = server.admin_key.replace(|c: char| c.is_ascii_digit(), "0");
    for fields in [
        vec![("user", "ada"), ("password", "wrong")],
        vec![("user", "absent"), ("password", "correct horse")],
        vec![("user", "bob"), ("password", "")],
        vec![
            ("user", "ada"),
            ("password", "correct horse"),
            ("tenant", "other"),
        ],
        vec![("key", wrong_key.as_str())],
        vec![("key", "<script>")],
        vec![],
    ] {
        let answer = browser.post("/console/login", &fields).await;
        assert_eq!(answer.status, 403, "{fields:?}");
        assert!(answer.text().contains("That did not match"));
        assert_eq!(browser.cookie, before);
        assert_eq!(browser.get("/console/links").await.status, 303);
    }
    assert_eq!(browser.log_in("ada", "correct horse").await.status, 303);
    browser.page("/console/links").await;
}

#[tokio::test]
async fn login_when_tried_too_often_is_limited() {
    let server = start().await;
    user(
        &server,
        &json!({ "name": "ada", "password": "correct horse" }),
    )
    .await;
    let mut browser = Browser::new(&server).await;
    for _ in 0..10 {
        assert_eq!(browser.log_in("ada", "wrong").await.status, 403);
    }
    let answer = browser.log_in("ada", "correct horse").await;
    assert_eq!(answer.status, 429);
    assert!((1..=10).contains(&answer.header("retry-after").parse::<u64>().unwrap()));
    assert!(answer.text().contains("too many tries"));
}

/// Tries to log in from an address.
async fn log_in_from(browser: &mut Browser<'_>, address: &str, user: &str, password: &str) -> u16 {
    let token = browser.form_token().await;
    let body = form(&[("csrf", &token), ("user", user), ("password", password)]);
    let request = browser.request(Method::POST, "/console/login");
    let request = request
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-forwarded-for", address);
    send(request.body(body)).await.status.as_u16()
}

/// As a botnet tries, each time from another address.
#[tokio::test]
async fn user_name_when_written_differently_shares_its_tries() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
    ])
    .await;
    let body = json!({ "name": "B\u{f6}b", "password": "correct horse" });
    let id = user(&server, &body).await;
    let mut browser = Browser::new(&server).await;
    let mut statuses = Vec::new();
    for number in 0..70_usize {
        let spaces = " ".repeat(number);
        let name = match number % 3 {
            0 => format!("B\u{f6}b{spaces}"),
            1 => format!("{spaces}Bo\u{308}b"),
            _ => format!("\u{2003}B\u{f6}b\u{a0}{spaces}"),
        };
        let address = format!("192.0.2.{number}");
        statuses.push(log_in_from(&mut browser, &address, &name, "wrong").await);
    }
    let checked = statuses.iter().filter(|status| **status == 403).count();
    let limited = statuses.iter().filter(|status| **status == 429).count();
    // Sixty, and one every two seconds.
    assert!(
        checked >= 60 && limited > 0 && checked + limited == 70,
        "{statuses:?}"
    );
    let right = log_in_from(
        &mut browser,
        "198.51.100.1",
        "Bo\u{308}b  ",
        "correct horse",
    )
    .await;
    assert!([303, 429].contains(&right), "{right}");
    // Others have their own.
    assert_eq!(
        log_in_from(&mut browser, "198.51.100.2", "absent", "wrong").await,
        403
    );
    // The audit log counts them.
    let path = format!("/audit?action=session.fail&subject=user:{id}");
    until("the failures in the audit log", async || {
        let audit = server.get(&path).await.expect(200);
        let counted = |name: &str| -> u64 {
            let entries = audit["entries"].as_array().unwrap().iter();
            entries
                .filter_map(|entry| entry["detail"][name].as_u64())
                .sum()
        };
        let refused = limited as u64 + u64::from(right == 429);
        (counted("wrong"), counted("refused")) == (checked as u64, refused)
    })
    .await;
    let audit = server
        .get("/audit?action=session.fail&subject=user:-")
        .await;
    let audit = audit.expect(200);
    assert_eq!(audit["entries"][0]["detail"]["wrong"], 1, "{audit}");
    assert_eq!(audit["entries"][0]["detail"]["address"], "198.51.100.2");
}

#[tokio::test]
async fn login_when_right_costs_no_try() {
    let server = start().await;
    let ada = json!({ "name": "ada", "password": "correct horse" });
    user(&server, &ada).await;
    for _ in 0..12 {
        let mut browser = Browser::new(&server).await;
        assert_eq!(browser.log_in("ada", "correct horse").await.status, 303);
    }
    for _ in 0..12 {
        Browser::admin(&server).await;
    }
}

#[tokio::test]
async fn audit_log_when_logged_in_or_out_names_user_and_way() {
    let server = start().await;
    let ada = json!({ "name": "ada", "role": "editor", "password": "correct horse" });
    let id = user(&server, &ada).await;
    let mut browser = Browser::new(&server).await;
    assert_eq!(browser.log_in("ada", "correct horse").await.status, 303);
    // A login in the same browser ends the session before it.
    assert_eq!(browser.log_in("ada", "correct horse").await.status, 303);
    browser.submit("/console/logout", &[]).await;
    let mut admin = Browser::admin(&server).await;
    admin.submit("/console/logout", &[]).await;
    let audit = server.get(&format!("/audit?subject=user:{id}")).await;
    let audit = audit.expect(200);
    let entries = audit["entries"].as_array().unwrap();
    let actions: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    let expected = [
        "session.end",
        "session.end",
        "session.begin",
        "session.begin",
        "user.create",
    ];
    assert_eq!(actions, expected, "{audit}");
    let begin = &entries[2];
    assert_eq!(
        begin["detail"],
        json!({ "way": "password", "address": "127.0.0.1" })
    );
    assert_eq!(begin["actor"], format!("user-{id}"));
    assert_eq!(begin["userId"], id);
    let by_key = server
        .get("/audit?action=session.begin&subject=user:1")
        .await;
    let by_key = by_key.expect(200);
    assert_eq!(by_key["entries"][0]["detail"]["way"], "key", "{by_key}");
    let key_id = server.admin_key.split('_').nth(1).unwrap();
    assert_eq!(by_key["entries"][0]["actor"], key_id);
}

#[tokio::test]
async fn session_when_ended_is_refused_by_every_control_plane() {
    let server = start().await;
    let another = server
        .another_with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "0")])
        .await;
    let mut browser = Browser::admin(&server).await;
    let mut there = Browser {
        server: &another,
        cookie: browser.cookie.clone(),
    };
    there.page("/console").await;
    assert_eq!(
        browser.submit("/console/logout", &[]).await,
        "/console/login"
    );
    assert_eq!(there.get("/console").await.status, 303);
}

#[tokio::test]
async fn session_when_its_secret_is_replaced_ends() {
    let server = start().await;
    let made = send(
        server
            .api(Method::POST, "/keys")
            .json(&json!({ "name": "k" })),
    )
    .await;
    let made = made.expect(201);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let mut browser = Browser::by_key(&server, key).await;
    browser.page("/console/links").await;
    let rotated = server.api(Method::POST, &format!("/keys/{id}/rotate"));
    let rotated = send(rotated.json(&json!({ "overlapSeconds": 3600 })))
        .await
        .expect(200);
    browser.page("/console/links").await;
    let again = server.api(Method::POST, &format!("/keys/{id}/rotate"));
    send(again.json(&json!({}))).await.expect(200);
    assert_eq!(
        browser.get("/console/links").await.status,
        303,
        "the secret is no more"
    );
    let new = rotated["key"].as_str().unwrap();
    let mut browser = Browser::new(&server).await;
    assert_eq!(
        browser.post("/console/login", &[("key", new)]).await.status,
        403
    );
}

#[tokio::test]
async fn session_when_user_or_password_changes_ends() {
    let server = start().await;
    let id = user(
        &server,
        &json!({ "name": "ada", "role": "reader", "password": "correct horse" }),
    )
    .await;
    let path = format!("/users/{id}");
    let mut browser = Browser::new(&server).await;
    for change in [
        json!({ "password": "another horse" }),
        json!({ "password": null }),
        json!({ "disabled": true }),
    ] {
        server
            .patch(
                &path,
                &json!({ "password": "correct horse", "disabled": false }),
            )
            .await
            .expect(200);
        assert_eq!(browser.log_in("ada", "correct horse").await.status, 303);
        browser.page("/console/links").await;
        let changed = server.patch(&path, &change).await.expect(200);
        assert!(changed.get("password").is_none());
        assert_eq!(browser.get("/console/links").await.status, 303, "{change}");
    }
}

#[tokio::test]
async fn sessions_when_too_many_for_a_user_are_bounded() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_CONSOLE_MAX_SESSIONS", "2"),
    ])
    .await;
    let mut browsers = Vec::new();
    for _ in 0..3 {
        browsers.push(Browser::admin(&server).await);
    }
    let mut open = 0;
    for browser in &mut browsers {
        open += i32::from(browser.get("/console").await.status == 200);
    }
    assert_eq!(open, 2);
    assert_eq!(
        browsers[2].get("/console").await.status,
        200,
        "the last one counts"
    );
}

#[tokio::test]
async fn user_when_shown_has_no_password() {
    let server = start().await;
    let password = "correct horse battery";
    let id = user(&server, &json!({ "name": "ada", "password": password })).await;
    for path in [
        format!("/users/{id}"),
        "/users".to_owned(),
        "/audit".to_owned(),
    ] {
        let text = server.get(&path).await.expect(200).to_string();
        assert!(
            !text.contains(password) && !text.contains("argon2"),
            "{text}"
        );
    }
    let shown = server.get(&format!("/users/{id}")).await.expect(200);
    assert_eq!(shown["hasPassword"], true);
    for wrong in [json!("short"), json!("a".repeat(256)), json!(12_345_678)] {
        let answer = server
            .patch(&format!("/users/{id}"), &json!({ "password": wrong }))
            .await;
        assert_eq!(answer.problem(422, "validation"), ["password"]);
    }
}
