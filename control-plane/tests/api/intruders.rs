//! What others cannot learn, and what no key can do any more.

use crate::helpers::{Running, read_all, send};
use crate::scopes::{Client, client, link, tenant};
use edgelink_store::MAX_EXAMINED;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

/// More links than a page of a list passes over.
const MANY: usize = MAX_EXAMINED + 600;

/// The cursor of a page that passes over the links of others.
async fn cursor(client: &Client<'_>, query: &str) -> String {
    let path = format!("/links?domain=go.example:8080&limit=1&{query}");
    let page = client.get(&path).await.expect(200);
    assert_eq!(
        page["links"],
        json!([]),
        "there are none of the client's so far"
    );
    page["nextCursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn cursor_when_behind_links_of_others_does_not_name_them() {
    let server = Running::start().await;
    let theirs = |n: usize| link(&format!("secret-{n:04}"));
    let items: Vec<Value> = (0..MANY).map(theirs).collect();
    for items in items.chunks(500) {
        let made = send(server.api(Method::POST, "/links/bulk").json(items)).await;
        assert_eq!(made.expect(200)["created"], items.len());
    }
    let acme = tenant(&server, "acme").await;
    let ada = client(&server, "editor", &json!({})).await;
    for (client, own) in [(&acme, "z-acme"), (&ada, "z-ada")] {
        client.link(own).create().await;
        let next = cursor(client, "orderBy=shortCode-asc").await;
        assert!(!next.contains(&hex::encode("secret-")), "{next}");
        // It leads on all the same.
        let (mut link, mut place) = (Value::Null, next.clone());
        while link.is_null() {
            let path = format!("/links?domain=go.example:8080&limit=1&cursor={place}");
            let page = client.get(&path).await.expect(200);
            link = page["links"][0].clone();
            place = page["nextCursor"].as_str().unwrap_or_default().to_owned();
        }
        assert_eq!(link["shortCode"], own);
        // Nor can one be made that begins where its maker wants.
        for forged in [
            format!("s{}", hex::encode("secret-0001")),
            next.replace(char::is_numeric, "0"),
        ] {
            let path = format!("/links?domain=go.example:8080&cursor={forged}");
            assert_eq!(
                client.get(&path).await.problem(422, "validation"),
                ["cursor"]
            );
        }
    }
}

#[tokio::test]
async fn history_when_code_had_another_link_before_hides_its_changes() {
    let server = Running::start().await;
    let ada = client(&server, "editor", &json!({})).await;
    let bob = client(&server, "editor", &json!({})).await;
    let note = json!({ "notes": "ada's secret" });
    for slug in ["created", "moved", "left"] {
        ada.link(slug).create().await;
        let path = format!("/links/{slug}");
        ada.send(Method::PATCH, &path, &note).await.expect(200);
    }
    for slug in ["created", "moved"] {
        let deleted = ada
            .send(Method::DELETE, &format!("/links/{slug}"), &Value::Null)
            .await;
        assert_eq!(deleted.status, 204);
    }
    let to = json!({ "customSlug": "hidden" });
    ada.send(Method::POST, "/links/left/move", &to)
        .await
        .expect(201);
    for slug in ["created", "left"] {
        bob.link(slug).create().await;
    }
    // This one is older than the changes of the link whose place it takes.
    bob.link("old").create().await;
    let to = json!({ "customSlug": "moved" });
    bob.send(Method::POST, "/links/old/move", &to)
        .await
        .expect(201);
    let patch = json!({ "title": "bob's" });
    for (slug, expected) in [("created", 1), ("left", 1), ("moved", 2)] {
        let path = format!("/links/{slug}");
        bob.send(Method::PATCH, &path, &patch).await.expect(200);
        for query in ["", "?cursor=00000000000fffff"] {
            let history = bob.get(&format!("{path}/history{query}")).await.expect(200);
            assert_eq!(
                history["entries"].as_array().unwrap().len(),
                expected,
                "{history}"
            );
        }
    }
}

#[tokio::test]
async fn key_when_revoked_while_its_body_comes_changes_nothing() {
    let server = Running::start().await;
    for (method, path, body) in [
        (
            "POST",
            "/links/bulk",
            r#"[{"longUrl":"https://example.com/","customSlug":"late"}]"#,
        ),
        ("DELETE", "/links/bulk", r#"[{"shortCode":"kept"}]"#),
        (
            "POST",
            "/links",
            r#"{"longUrl":"https://example.com/","customSlug":"late"}"#,
        ),
    ] {
        server.link("kept").answer().await;
        let client = client(&server, "admin", &json!({})).await;
        let mut stream = server.connect().await;
        let head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
            client.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server asks for the body once the key has let the request through.
        let mut asked = [0; 25];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut asked)
            .await
            .unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        let id = client.key.split('_').nth(1).unwrap();
        let revoked = server.delete(&format!("/keys/{id}")).await;
        assert_eq!(revoked.status, 204);
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(
            answer.starts_with("HTTP/1.1 401 "),
            "{method} {path}: {answer}"
        );
        server.get("/links/kept").await.expect(200);
        server
            .get("/links/late")
            .await
            .problem(404, "link-not-found");
    }
}

#[tokio::test]
async fn link_when_its_host_is_blocked_by_now_is_not_restored() {
    let server = Running::start().await;
    let bad = server.link("bad").to("https://evil.example/");
    bad.create().await;
    server.link("ruled").create().await;
    let rules = json!({ "redirectRules": [{
        "longUrl": "https://evil.example/",
        "conditions": [{ "type": "device", "matchValue": "ios" }],
    }] });
    send(server.api(Method::POST, "/links/ruled/rules").json(&rules))
        .await
        .expect(200);
    for slug in ["bad", "ruled"] {
        assert_eq!(server.delete(&format!("/links/{slug}")).await.status, 204);
    }
    let blocked = [("EDGELINK_LINKS_BLOCKED_HOSTS", "evil.example")];
    let server = server.restart_with(&blocked).await;
    for (slug, field) in [("bad", "longUrl"), ("ruled", "redirectRules")] {
        let restored = send(server.api(Method::POST, &format!("/links/{slug}/restore"))).await;
        assert_eq!(restored.problem(422, "validation"), [field]);
        assert_eq!(server.follow(&format!("/{slug}")).await.status, 404);
    }
}
