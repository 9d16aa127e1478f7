//! Keys, users, tenants and the audit log over the API.

use crate::helpers::{Answer, Running, in_seconds, send};
use reqwest::Method;
use serde_json::{Value, json};

/// No key is cached, so that every change is seen at once.
async fn start() -> Running {
    Running::with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "0")]).await
}

/// A request with another key than the admin's.
async fn with(server: &Running, key: &str, method: Method, path: &str, body: &Value) -> Answer {
    let request = server.plain(method, &format!("/api/v1{path}"));
    send(request.bearer_auth(key).json(body)).await
}

async fn post(server: &Running, path: &str, body: &Value) -> Answer {
    send(server.api(Method::POST, path).json(body)).await
}

/// A key of the admin's user: its id and its text.
async fn key(server: &Running, body: &Value) -> (String, String) {
    let made = post(server, "/keys", body).await.expect(201);
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

async fn status(server: &Running, key: &str) -> u16 {
    let answer = with(server, key, Method::GET, "/links", &Value::Null).await;
    answer.status.as_u16()
}

fn admin_id(server: &Running) -> String {
    server.admin_key.split('_').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn key_when_created_shows_its_secret_once() {
    let server = start().await;
    let body = json!({
        "name": "bot", "role": "creator", "domains": ["other.example", "go.example:8080"], "tags": ["b", "a"],
        "expiresAt": "2999-01-01T00:00:00Z", "quota": 7,
    });
    let answer = post(&server, "/keys", &body).await;
    let mut made = answer.expect(201);
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), format!("/api/v1/keys/{id}"));
    let secret = made["key"].take();
    assert!(
        secret
            .as_str()
            .unwrap()
            .starts_with(&format!("edgelink_{id}_"))
    );
    made.as_object_mut().unwrap().remove("key");
    assert_eq!(made["role"], "creator");
    assert_eq!(made["domains"], json!(["go.example:8080", "other.example"]));
    assert_eq!(made["tags"], json!(["a", "b"]));
    assert_eq!(made["expiresAt"], "2999-01-01T00:00:00.000Z");
    assert_eq!((&made["quota"], &made["used"]), (&json!(7), &json!(0)));
    assert_eq!(server.get(&format!("/keys/{id}")).await.expect(200), made);
    let list = server.get("/keys").await.expect(200);
    let mut keys = list["keys"].as_array().unwrap().clone();
    let admin = keys.remove(0);
    assert_eq!(
        (&admin["name"], &admin["role"]),
        (&json!("admin"), &json!("admin"))
    );
    assert!(admin["quota"].is_null() && admin["used"].is_null());
    assert_eq!(keys, [made]);
    assert!(list["nextCursor"].is_null());
}

#[tokio::test]
async fn keys_and_users_when_paged_come_once() {
    let server = start().await;
    for number in 0..4 {
        key(&server, &json!({ "name": format!("k{number}") })).await;
        let user = json!({ "name": format!("u{number}") });
        post(&server, "/users", &user).await.expect(201);
    }
    for (path, field) in [("/keys", "keys"), ("/users", "users")] {
        let mut ids = Vec::new();
        let mut query = "?limit=2".to_owned();
        loop {
            let page = server.get(&format!("{path}{query}")).await.expect(200);
            let items = page[field].as_array().unwrap();
            assert!(items.len() <= 2);
            ids.extend(items.iter().map(|item| item["id"].to_string()));
            let Some(cursor) = page["nextCursor"].as_str() else {
                break;
            };
            query = format!("?limit=2&cursor={cursor}");
        }
        assert_eq!(ids.len(), 5, "{field}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 5, "{field}");
    }
}

#[tokio::test]
async fn account_field_when_wrong_is_named() {
    let server = start().await;
    let long = "a".repeat(101);
    for (path, body, fields) in [
        ("/keys", json!({}), vec!["name"]),
        ("/keys", json!({ "name": "" }), vec!["name"]),
        ("/keys", json!({ "name": long }), vec!["name"]),
        (
            "/keys",
            json!({
                "name": "a\n", "userId": -1, "role": "Admin", "domains": ["unknown.example"], "tags": "t",
                "expiresAt": "2001-01-01T00:00:00Z", "quota": 1.5, "secret": "x",
            }),
            vec![
                "name",
                "userId",
                "role",
                "domains",
                "tags",
                "expiresAt",
                "quota",
                "secret",
            ],
        ),
        (
            "/keys",
            json!({ "name": "a", "userId": 999 }),
            vec!["userId"],
        ),
        (
            "/keys",
            json!({ "name": "a", "quota": 1_u64 << 53 }),
            vec!["quota"],
        ),
        (
            "/users",
            json!({ "name": null, "role": 1, "disabled": true }),
            vec!["name", "role", "disabled"],
        ),
        ("/tenants", json!({ "name": 1 }), vec!["name"]),
        ("/users", json!({ "name": " \u{a0} " }), vec!["name"]),
    ] {
        let answer = post(&server, path, &body).await;
        let mut named = answer.problem(422, "validation");
        let mut fields: Vec<&str> = fields;
        fields.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, fields, "{path} {body}");
    }
    let (id, _) = key(&server, &json!({ "name": "a" })).await;
    let path = format!("/keys/{id}");
    for body in [
        json!({ "name": null }),
        json!({ "role": null }),
        json!({ "userId": 1 }),
    ] {
        assert_eq!(
            server
                .patch(&path, &body)
                .await
                .problem(422, "validation")
                .len(),
            1,
            "{body}"
        );
    }
    for overlap in [json!(-1), json!(604_801), json!("1")] {
        let answer = post(
            &server,
            &format!("{path}/rotate"),
            &json!({ "overlapSeconds": overlap }),
        )
        .await;
        assert_eq!(answer.problem(422, "validation"), ["overlapSeconds"]);
    }
    for query in ["?limit=0", "?limit=101", "?cursor=x", "?unknown=1"] {
        for path in ["/keys", "/users", "/tenants", "/audit"] {
            let answer = server.get(&format!("{path}{query}")).await;
            assert_eq!(answer.problem(422, "validation").len(), 1, "{path}{query}");
        }
    }
}

#[tokio::test]
async fn cursor_when_forged_is_refused() {
    let server = start().await;
    for path in ["/keys", "/domains", "/tags"] {
        for cursor in [
            "",
            "ff",
            "ffffffffffffffff".repeat(2).as_str(),
            "80000000000000000000000000000000",
        ] {
            let answer = server.get(&format!("{path}?cursor={cursor}")).await;
            assert_eq!(
                answer.problem(422, "validation"),
                ["cursor"],
                "{path} {cursor}"
            );
        }
    }
}

#[tokio::test]
async fn key_when_revoked_is_refused_but_last_admin_key_stays() {
    let server = start().await;
    let (id, text) = key(&server, &json!({ "name": "a", "role": "admin" })).await;
    assert_eq!(status(&server, &text).await, 200);
    assert_eq!(server.delete(&format!("/keys/{id}")).await.status, 204);
    assert_eq!(status(&server, &text).await, 401);
    for path in [
        format!("/keys/{id}"),
        "/keys/x".to_owned(),
        "/users/x".to_owned(),
    ] {
        server.get(&path).await.problem(404, "not-found");
    }
    server
        .delete(&format!("/keys/{id}"))
        .await
        .problem(404, "not-found");
    let own = format!("/keys/{}", admin_id(&server));
    server.delete(&own).await.problem(409, "last-admin");
    let tied = json!({ "tags": ["t"] });
    server.patch(&own, &tied).await.problem(409, "last-admin");
    let disabled = json!({ "disabled": true });
    server
        .patch("/users/1", &disabled)
        .await
        .problem(409, "last-admin");
    assert_eq!(status(&server, &server.admin_key).await, 200);
}

#[tokio::test]
async fn key_when_revoked_by_other_replica_is_refused_after_cache_time() {
    let server = Running::with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "50")]).await;
    let other = server
        .another_with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "50")])
        .await;
    let (id, text) = key(&server, &json!({ "name": "a" })).await;
    assert_eq!(status(&other, &text).await, 200);
    assert_eq!(server.delete(&format!("/keys/{id}")).await.status, 204);
    assert_eq!(status(&server, &text).await, 401, "here at once");
    crate::helpers::until("the key is refused", async || {
        status(&other, &text).await == 401
    })
    .await;
}

#[tokio::test]
async fn key_when_rotated_works_until_the_overlap_ends() {
    let server = start().await;
    let (id, first) = key(&server, &json!({ "name": "a" })).await;
    let path = format!("/keys/{id}/rotate");
    let rotate = async |body: Value| {
        let rotated = post(&server, &path, &body).await.expect(200);
        assert_eq!(rotated["id"], id);
        rotated["key"].as_str().unwrap().to_owned()
    };
    let second = rotate(json!({ "overlapSeconds": 3600 })).await;
    assert_eq!(
        [
            status(&server, &first).await,
            status(&server, &second).await
        ],
        [200, 200]
    );
    let third = rotate(json!({})).await;
    assert_eq!(
        [
            status(&server, &first).await,
            status(&server, &second).await
        ],
        [401, 401]
    );
    let fourth = rotate(json!({ "overlapSeconds": 1 })).await;
    assert_eq!(status(&server, &fourth).await, 200);
    crate::helpers::until("the overlap ends", async || {
        status(&server, &third).await == 401
    })
    .await;
    assert_eq!(status(&server, &fourth).await, 200);
}

#[tokio::test]
async fn key_when_expired_is_refused() {
    let server = start().await;
    let (id, text) = key(&server, &json!({ "name": "a" })).await;
    let body = json!({ "expiresAt": in_seconds(2) });
    server
        .patch(&format!("/keys/{id}"), &body)
        .await
        .expect(200);
    crate::helpers::until("the key expires", async || {
        status(&server, &text).await == 401
    })
    .await;
    server
        .patch(&format!("/keys/{id}"), &json!({ "expiresAt": null }))
        .await
        .expect(200);
    assert_eq!(status(&server, &text).await, 200);
}

#[tokio::test]
async fn user_when_role_or_state_changes_limits_its_keys() {
    let server = start().await;
    let made = post(
        &server,
        "/users",
        &json!({ "name": "Eve", "role": "editor" }),
    )
    .await;
    let user = made.expect(201);
    let path = format!("/users/{}", user["id"]);
    assert_eq!(made.header("location"), format!("/api/v1{path}"));
    assert_eq!(server.get(&path).await.expect(200), user);
    post(&server, "/users", &json!({ "name": " Eve  " }))
        .await
        .problem(409, "name-taken");
    let (_, text) = key(
        &server,
        &json!({ "name": "k", "role": "admin", "userId": user["id"] }),
    )
    .await;
    assert_eq!(status(&server, &text).await, 200);
    let keys = async || with(&server, &text, Method::GET, "/keys", &Value::Null).await;
    // The key can do no more than its user.
    keys().await.problem(403, "forbidden");
    server
        .patch(&path, &json!({ "role": "admin" }))
        .await
        .expect(200);
    keys().await.expect(200);
    server
        .patch(&path, &json!({ "disabled": true }))
        .await
        .expect(200);
    keys().await.problem(401, "unauthorized");
    let body = json!({ "name": "l", "userId": user["id"] });
    assert_eq!(
        post(&server, "/keys", &body)
            .await
            .problem(422, "validation"),
        ["userId"]
    );
    let enabled = server
        .patch(&path, &json!({ "disabled": false, "name": "Ada" }))
        .await
        .expect(200);
    assert_eq!(
        (&enabled["name"], &enabled["role"]),
        (&json!("Ada"), &json!("admin"))
    );
    keys().await.expect(200);
}

#[tokio::test]
async fn tenant_when_created_has_its_own_users_keys_and_log() {
    let server = start().await;
    let tenant = post(&server, "/tenants", &json!({ "name": "acme" }))
        .await
        .expect(201);
    let admin = tenant["adminKey"]["key"].as_str().unwrap().to_owned();
    let as_acme =
        async |method, path: &str, body: Value| with(&server, &admin, method, path, &body).await;
    post(&server, "/tenants", &json!({ "name": "acme" }))
        .await
        .problem(409, "name-taken");
    let tenants = server.get("/tenants").await.expect(200);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 2);
    assert!(tenants["tenants"][1].get("adminKey").is_none());

    for (path, field) in [("/users", "users"), ("/keys", "keys")] {
        let list = as_acme(Method::GET, path, Value::Null).await.expect(200);
        assert_eq!(list[field].as_array().unwrap().len(), 1, "{list}");
    }
    for path in [
        format!("/keys/{}", admin_id(&server)),
        "/users/1".to_owned(),
    ] {
        as_acme(Method::GET, &path, Value::Null)
            .await
            .problem(404, "not-found");
        as_acme(Method::PATCH, &path, json!({ "name": "x" }))
            .await
            .problem(404, "not-found");
    }
    let own = format!("/keys/{}", admin_id(&server));
    as_acme(Method::DELETE, &own, Value::Null)
        .await
        .problem(404, "not-found");
    as_acme(Method::POST, &format!("{own}/rotate"), json!({}))
        .await
        .problem(404, "not-found");
    let body = json!({ "name": "k", "userId": 1 });
    assert_eq!(
        as_acme(Method::POST, "/keys", body)
            .await
            .problem(422, "validation"),
        ["userId"]
    );
    for (method, path) in [
        (Method::GET, "/tenants"),
        (Method::POST, "/tenants"),
        (Method::GET, "/clicks/accounting"),
    ] {
        as_acme(method, path, json!({ "name": "x" }))
            .await
            .problem(403, "forbidden");
    }
    let entries = as_acme(Method::GET, "/audit", Value::Null)
        .await
        .expect(200);
    let actions: Vec<&str> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["key.create", "user.create"]);
}

#[tokio::test]
async fn audit_log_when_a_key_changes_names_actor_and_no_secret() {
    let server = start().await;
    let (id, text) = key(&server, &json!({ "name": "a" })).await;
    server
        .patch(&format!("/keys/{id}"), &json!({ "name": "b" }))
        .await
        .expect(200);
    let rotated = post(&server, &format!("/keys/{id}/rotate"), &json!({}))
        .await
        .expect(200);
    assert_eq!(server.delete(&format!("/keys/{id}")).await.status, 204);
    let log = server
        .get(&format!("/audit?subject=key:{id}"))
        .await
        .expect(200);
    let entries = log["entries"].as_array().unwrap();
    let actions: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        ["key.revoke", "key.rotate", "key.update", "key.create"]
    );
    for entry in entries {
        assert_eq!(entry["actor"], admin_id(&server));
        assert_eq!(entry["userId"], 1);
        assert_eq!(entry["subject"], format!("key:{id}"));
    }
    assert_eq!(entries[2]["detail"], json!({ "name": "b" }));
    let all = server.get("/audit?limit=100").await;
    for secret in [text.as_str(), rotated["key"].as_str().unwrap()] {
        let secret = secret.rsplit('_').next().unwrap();
        assert!(!all.text().contains(secret));
    }
    let page = server
        .get("/audit?limit=1&action=key.create")
        .await
        .expect(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = server
        .get(&format!("/audit?limit=1&action=key.create&cursor={cursor}"))
        .await
        .expect(200);
    assert_eq!(next["entries"][0]["actor"], "-", "the first start");
    assert!(next["nextCursor"].is_null());
    let none = server.get(&format!("/audit?actor={id}")).await.expect(200);
    assert!(none["entries"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn key_when_server_stops_has_its_last_use_noted() {
    let server = start().await;
    let (id, text) = key(&server, &json!({ "name": "a" })).await;
    assert_eq!(status(&server, &text).await, 200);
    let server = server.restart().await;
    let used = server.get(&format!("/keys/{id}")).await.expect(200);
    assert!(
        used["lastUsedAt"].as_str().unwrap() > used["createdAt"].as_str().unwrap(),
        "{used}"
    );
    let (id, _) = key(&server, &json!({ "name": "b" })).await;
    let server = server.restart().await;
    let unused = server.get(&format!("/keys/{id}")).await.expect(200);
    assert!(unused["lastUsedAt"].is_null());
}
