//! Logging in by a provider of OpenID Connect, which here may lie. The end-to-end suite logs in by a certified one
//! (tests/console/oidc.mjs).

mod provider;

use super::browser::{Browser, start};
use crate::helpers::{Answer, Running, send, until};
use provider::{CODE, Manner, Provider, now};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use url::Url;

const CALLBACK: &str = "/console/oidc/callback";

/// A server that logs in by that provider.
async fn server(provider: &Provider, more: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "the/secret\n").unwrap();
    let secret = secret.display().to_string();
    let common = [
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_OIDC_ISSUER", provider.issuer.as_str()),
        ("EDGELINK_OIDC_CLIENT_SECRET_FILE", secret.as_str()),
        ("EDGELINK_OIDC_CONSOLE_URL", "https://console.example"),
        ("EDGELINK_OIDC_LABEL", "By <Example>"),
    ];
    Running::with(&[&common, more].concat()).await
}

/// A login of a browser: as far as the provider, and back.
async fn begin(browser: &Browser<'_>, provider: &Provider) -> (String, String) {
    let answer =
        send(browser.request(Method::GET, "/console/oidc/login?to=%2Fconsole%2Ftags")).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let url = Url::parse(answer.header("location")).unwrap();
    assert!(
        url.as_str()
            .starts_with(&format!("{}/auth?", provider.issuer))
    );
    let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
    let expected = [
        ("response_type", "code"),
        ("client_id", "edgelink"),
        (
            "redirect_uri",
            "https://console.example/console/oidc/callback",
        ),
        ("scope", "openid profile"),
        ("code_challenge_method", "S256"),
    ];
    assert!(
        expected.iter().all(|(name, value)| asked[*name] == *value),
        "{asked:?}"
    );
    let (cookie, flags) = answer.header("set-cookie").split_once(';').unwrap();
    assert_eq!(
        flags,
        " Path=/console/oidc; HttpOnly; SameSite=Lax; Max-Age=600"
    );
    let state = asked["state"].clone();
    assert!(!cookie.contains(&state) && !cookie.contains(&asked["nonce"]));
    *provider.asked.lock().unwrap() = asked;
    (cookie.to_owned(), state)
}

async fn come_back(browser: &Browser<'_>, cookie: &str, query: &str) -> Answer {
    let path = format!("{CALLBACK}?{query}");
    let request = browser
        .server
        .plain(Method::GET, &path)
        .header("cookie", cookie);
    let answer = send(request).await;
    super::browser::check(&answer);
    answer
}

async fn log_in(browser: &mut Browser<'_>, provider: &Provider) -> Answer {
    let (cookie, state) = begin(browser, provider).await;
    let answer = come_back(browser, &cookie, &format!("code={CODE}&state={state}")).await;
    let mut cookies = answer
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().unwrap());
    assert!(
        cookies.any(|cookie| cookie.starts_with("edgelink_oidc=;")),
        "it is over"
    );
    let cookies = answer
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().unwrap());
    for cookie in cookies.filter(|cookie| cookie.starts_with("edgelink_console=")) {
        cookie
            .split_once(';')
            .unwrap()
            .0
            .clone_into(&mut browser.cookie);
    }
    answer
}

async fn user(server: &Running, name: &str, role: &str) -> u64 {
    let made = send(
        server
            .api(Method::POST, "/users")
            .json(&json!({ "name": name, "role": role })),
    )
    .await;
    made.expect(201)["id"].as_u64().unwrap()
}

/// Has an admin await the login of a user.
async fn await_login(server: &Running, id: u64) {
    let awaited = json!({ "awaitsIdentity": true });
    let shown = server.patch(&format!("/users/{id}"), &awaited).await;
    let shown = shown.expect(200);
    assert_eq!(shown["awaitsIdentity"], true);
    assert!(shown["awaitsIdentityUntil"].is_string(), "{shown}");
}

/// Names that people choose at the provider are no proof of who they are.
#[tokio::test]
async fn login_when_name_is_of_a_user_is_refused_unless_awaited() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    let id = user(&server, "ada", "admin").await;
    let path = format!("/users/{id}");
    let mut browser = Browser::new(&server).await;
    let refused = async |browser: &mut Browser<'_>| {
        let answer = log_in(browser, &provider).await;
        assert_eq!(answer.status, 403);
        assert!(
            answer.text().contains("Ask an admin to await your login"),
            "{}",
            answer.text()
        );
        assert_eq!(browser.get("/console/links").await.status, 303);
    };
    refused(&mut browser).await;
    await_login(&server, id).await;
    server
        .patch(&path, &json!({ "awaitsIdentity": false }))
        .await
        .expect(200);
    refused(&mut browser).await;
    let mut admin = Browser::admin(&server).await;
    let page = admin.page(&format!("/console{path}")).await;
    assert!(page.contains("The next login of this name"), "{page}");
    let fields = [("name", "ada"), ("role", "admin"), ("awaitsIdentity", "on")];
    admin.submit(&format!("/console{path}"), &fields).await;
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
    let shown = server.get(&path).await.expect(200);
    assert_eq!(
        (
            &shown["hasIdentity"],
            &shown["awaitsIdentity"],
            &shown["awaitsIdentityUntil"]
        ),
        (&json!(true), &json!(false), &Value::Null)
    );
    // Neither a user who is bound already, nor the first user of the tenant.
    for of in [path.as_str(), "/users/1"] {
        let answer = server.patch(of, &json!({ "awaitsIdentity": true })).await;
        assert_eq!(answer.problem(409, "not-awaitable"), ["awaitsIdentity"]);
    }
    let again = json!({ "hasIdentity": false, "awaitsIdentity": true });
    server.patch(&path, &again).await.expect(200);
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
}

#[tokio::test]
async fn user_when_binding_by_name_is_allowed_is_bound() {
    let provider = Provider::start().await;
    let email = json!({ "email": "ada", "email_verified": true });
    for (setting, claims) in [
        (("EDGELINK_OIDC_BIND_EXISTING", "true"), json!({})),
        (("EDGELINK_OIDC_NAME_CLAIM", "email"), email),
    ] {
        let server = server(&provider, &[setting]).await;
        user(&server, "ada", "reader").await;
        provider.behave(Manner {
            claims,
            ..Manner::default()
        });
        let mut browser = Browser::new(&server).await;
        assert_eq!(
            log_in(&mut browser, &provider).await.status,
            200,
            "{setting:?}"
        );
    }
}

#[tokio::test]
async fn user_when_known_to_the_provider_logs_in_and_out() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    let id = user(&server, "ada", "editor").await;
    await_login(&server, id).await;
    let mut browser = Browser::new(&server).await;
    let page = browser.page("/console/login?to=%2Fconsole%2Ftags").await;
    assert!(
        page.contains("href=\"/console/oidc/login?to=%2Fconsole%2Ftags\">By &#60;Example&#62;"),
        "{page}"
    );
    let answer = log_in(&mut browser, &provider).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("refresh"), "0; url=/console/tags");
    let page = browser.page("/console/settings").await;
    assert!(
        page.contains("By your organization") && page.contains("editor"),
        "{page}"
    );
    let shown = server.get(&format!("/users/{id}")).await.expect(200);
    assert_eq!(
        (&shown["hasIdentity"], &shown["hasPassword"]),
        (&json!(true), &json!(false))
    );
    let audit = server.get("/audit?action=user.update").await.expect(200);
    assert_eq!(audit["entries"][0]["actor"], "oidc", "{audit}");
    // A page of another origin of this site can lead browsers there; it ends no session.
    let led = browser.request(Method::GET, "/console/oidc/login");
    let led = send(led.header("sec-fetch-site", "same-site")).await;
    assert_eq!(led.status, 303);
    assert_eq!(browser.get("/console/links").await.status, 200);
    browser.submit("/console/logout", &[]).await;
    assert_eq!(browser.get("/console/links").await.status, 303);
}

#[tokio::test]
async fn user_when_renamed_at_the_provider_stays_the_same() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    let id = user(&server, "ada", "reader").await;
    await_login(&server, id).await;
    user(&server, "bob", "admin").await;
    let mut browser = Browser::new(&server).await;
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
    let named = |sub: &str, name: &str| Manner {
        claims: json!({ "sub": sub }),
        user_info: json!({ "sub": sub, "preferred_username": name }),
        ..Manner::default()
    };
    // A new name at the provider is no way to another user.
    provider.behave(named("subject", "bob"));
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
    assert!(
        browser
            .page("/console/settings")
            .await
            .contains("<dd>ada</dd>")
    );
    for (sub, name, text) in [
        ("another", "ada", "Somebody else is the user of your name"),
        ("another", "admin", "Somebody else is the user of your name"),
        ("another", "absent", "You are no user here yet"),
        ("another", " ", "You are no user here yet"),
    ] {
        provider.behave(named(sub, name));
        let answer = log_in(&mut browser, &provider).await;
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains(text), "{name}: {}", answer.text());
    }
    // An admin forgets who it was, and awaits another login: the session is over, and the name counts again.
    provider.behave(named("subject", "ada"));
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
    let path = format!("/users/{id}");
    let wrong = server.patch(&path, &json!({ "hasIdentity": true })).await;
    assert_eq!(wrong.problem(422, "validation"), ["hasIdentity"]);
    let mut admin = Browser::admin(&server).await;
    let fields = [
        ("name", "ada"),
        ("role", "reader"),
        ("forgetIdentity", "on"),
        ("awaitsIdentity", "on"),
    ];
    admin.submit(&format!("/console/users/{id}"), &fields).await;
    let forgotten = browser.cookie.clone();
    assert_eq!(browser.get("/console/links").await.status, 303);
    let mut again = Browser::new(&server).await;
    assert_eq!(log_in(&mut again, &provider).await.status, 200);
    browser.cookie = forgotten;
    assert_eq!(
        browser.get("/console/links").await.status,
        303,
        "it stays ended"
    );
    admin.submit(&format!("/console/users/{id}"), &fields).await;
    provider.behave(named("another", "ada"));
    assert_eq!(log_in(&mut browser, &provider).await.status, 200);
    server
        .patch(&path, &json!({ "disabled": true }))
        .await
        .expect(200);
    assert_eq!(browser.get("/console/links").await.status, 303);
    let answer = log_in(&mut browser, &provider).await;
    assert!(answer.text().contains("Your user is disabled"));
}

#[tokio::test]
async fn provider_role_when_configured_is_given_to_the_user() {
    let provider = Provider::start().await;
    let more = [
        ("EDGELINK_OIDC_ROLE_CLAIM", "realm.groups"),
        ("EDGELINK_OIDC_ROLES", "all=reader,staff=editor"),
        ("EDGELINK_OIDC_CREATE_USERS", "true"),
    ];
    let server = server(&provider, &more).await;
    let mut browser = Browser::new(&server).await;
    for (groups, role) in [
        (json!(["all"]), "reader"),
        (json!(["staff", "all"]), "editor"),
        (json!("all"), "reader"),
    ] {
        let claims = json!({ "preferred_username": "ada", "realm": { "groups": groups } });
        provider.behave(Manner {
            claims,
            ..Manner::default()
        });
        assert_eq!(log_in(&mut browser, &provider).await.status, 200);
        assert!(
            browser
                .page("/console/settings")
                .await
                .contains(&format!("<dd>{role}</dd>"))
        );
    }
    provider.behave(Manner {
        claims: json!({ "preferred_username": "ada", "realm": { "groups": ["other"] } }),
        ..Manner::default()
    });
    assert_eq!(browser.get("/console/links").await.status, 200);
    let answer = log_in(&mut Browser::new(&server).await, &provider).await;
    assert_eq!(
        browser.get("/console/links").await.status,
        303,
        "all sessions end"
    );
    assert!(
        answer.status == 403 && answer.text().contains("none of the roles"),
        "{}",
        answer.text()
    );
    let users = server.get("/users").await.expect(200);
    assert_eq!(users["users"].as_array().unwrap().len(), 2, "{users}");
}

#[tokio::test]
async fn id_token_when_invalid_is_refused() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    user(&server, "ada", "admin").await;
    let claims = |claims: Value| Manner {
        claims,
        ..Manner::default()
    };
    for manner in [
        claims(json!({ "nonce": "of another login" })),
        claims(json!({ "iss": "https://other.example" })),
        claims(json!({ "aud": "other" })),
        claims(json!({ "exp": now() - 3600 })),
        claims(json!({ "iat": now() + 3600 })),
        claims(json!({ "sub": "", "preferred_username": "ada" })),
        Manner {
            algorithm: "none",
            ..Manner::default()
        },
        Manner {
            algorithm: "HS256",
            ..Manner::default()
        },
        Manner {
            is_forged: true,
            ..Manner::default()
        },
        Manner {
            user_info: json!({ "sub": "another", "preferred_username": "ada" }),
            ..Manner::default()
        },
    ] {
        // The tries of an address are limited.
        let server = server
            .another_with(&[
                ("EDGELINK_OIDC_ISSUER", &provider.issuer),
                ("EDGELINK_OIDC_CLIENT_SECRET_FILE", &secret_file(&server)),
                ("EDGELINK_OIDC_CONSOLE_URL", "https://console.example"),
            ])
            .await;
        let mut browser = Browser::new(&server).await;
        let told = format!("{} {}", manner.claims, manner.algorithm);
        provider.behave(manner);
        let answer = log_in(&mut browser, &provider).await;
        assert_eq!(answer.status, 403, "{told}");
        assert!(
            answer.text().contains("cannot be trusted"),
            "{told}: {}",
            answer.text()
        );
        assert_eq!(browser.get("/console/links").await.status, 303, "{told}");
    }
}

fn secret_file(server: &Running) -> String {
    let file = server.folder.path().join("secret");
    std::fs::write(&file, "the/secret").unwrap();
    file.display().to_string()
}

#[tokio::test]
async fn login_when_answer_comes_to_another_browser_is_refused() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    user(&server, "ada", "admin").await;
    let browser = Browser::new(&server).await;
    let (cookie, state) = begin(&browser, &provider).await;
    let (other, _) = begin(&browser, &provider).await;
    for (cookie, query, text) in [
        (
            "",
            format!("code={CODE}&state={state}"),
            "did not begin in this browser",
        ),
        (
            "edgelink_oidc=zz.",
            format!("code={CODE}&state={state}"),
            "did not begin in this browser",
        ),
        (
            &*other,
            format!("code={CODE}&state={state}"),
            "did not begin in this browser",
        ),
        (
            &*cookie,
            format!("code={CODE}"),
            "did not begin in this browser",
        ),
        (
            &*cookie,
            format!("code={CODE}&state={state}&iss=https://other.example"),
            "did not begin in this browser",
        ),
        (
            &*cookie,
            format!("error=access_denied&state={state}"),
            "You have cancelled the login",
        ),
        (
            &*cookie,
            format!("error=%3Cscript%3E&state={state}"),
            "has answered with an error",
        ),
        (
            &*cookie,
            format!("code=another&state={state}"),
            "has answered with an error",
        ),
        (
            &*cookie,
            format!("state={state}"),
            "has answered with an error",
        ),
    ] {
        let answer = come_back(&browser, cookie, &query).await;
        assert_eq!(answer.status, 403, "{query}");
        assert!(answer.text().contains(text), "{query}: {}", answer.text());
        let cookies = answer.headers.get_all("set-cookie").iter();
        let cookies: Vec<_> = cookies.map(|value| value.to_str().unwrap()).collect();
        // What is not an answer to a login of this browser ends none.
        let ended = match text {
            "did not begin in this browser" => vec![],
            _ => vec!["edgelink_oidc=; Path=/console/oidc; HttpOnly; SameSite=Lax; Max-Age=0"],
        };
        assert_eq!(cookies, ended, "{query}");
    }
    // Other sites take no tries by leading browsers here.
    for _ in 0..70 {
        assert_eq!(come_back(&browser, "", "state=x").await.status, 403);
    }
    let query = format!("error=access_denied&state={state}");
    let mut tries = 0;
    let refused = loop {
        let answer = come_back(&browser, &cookie, &query).await;
        if answer.status != 403 {
            break answer;
        }
        tries += 1;
    };
    assert!((50..70).contains(&tries), "{tries}");
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(!refused.header("retry-after").is_empty());
}

#[tokio::test]
async fn login_when_provider_is_down_answers_503() {
    let provider = Provider::start().await;
    let server = server(&provider, &[]).await;
    let browser = Browser::new(&server).await;
    provider.behave(Manner {
        is_described: false,
        ..Manner::default()
    });
    let answer = send(browser.request(Method::GET, "/console/oidc/login")).await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("does not answer at the moment"),
        "{}",
        answer.text()
    );
    provider.behave(Manner {
        token_status: 500,
        ..Manner::default()
    });
    until("the provider is asked again", async || {
        let asked = browser.request(Method::GET, "/console/oidc/login");
        send(asked).await.status == 303
    })
    .await;
    let (cookie, state) = begin(&browser, &provider).await;
    let answer = come_back(&browser, &cookie, &format!("code={CODE}&state={state}")).await;
    assert_eq!(answer.status, 503);
}

#[tokio::test]
async fn provider_login_when_no_provider_is_set_is_not_found() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    assert!(!browser.page("/console/login").await.contains("oidc"));
    for path in ["/console/oidc/login", CALLBACK] {
        assert_eq!(browser.get(path).await.status, 404);
    }
}
