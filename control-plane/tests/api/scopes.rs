//! Which links exist for whom.

use crate::helpers::{Answer, Running, send};
use edgelink_tests::link::{LinkApi, LinkBuilder};
use reqwest::Method;
use serde_json::{Value, json};

/// A caller of the API.
pub(crate) struct Client<'s> {
    pub(crate) server: &'s Running,
    pub(crate) key: String,
}

impl Client<'_> {
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.server.plain(method, &format!("/api/v1{path}"));
        send(request.bearer_auth(&self.key).json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Starts a link with that code; see [`LinkBuilder::new`].
    pub(crate) fn link(&self, code: &str) -> LinkBuilder<'_, Self> {
        LinkBuilder::new(self, code)
    }

    /// The codes of the links that are listed.
    async fn codes(&self) -> Vec<String> {
        let list = self.get("/links").await.expect(200);
        let links = list["links"].as_array().unwrap();
        let code = |link: &Value| link["shortCode"].as_str().unwrap().to_owned();
        let mut codes: Vec<String> = links.iter().map(code).collect();
        codes.sort_unstable();
        codes
    }
}

impl LinkApi for Client<'_> {
    type Answer = Answer;

    async fn post_link(&self, link: &Value) -> Answer {
        self.send(Method::POST, "/links", link).await
    }

    fn created(answer: &Answer) -> Result<Value, String> {
        Running::created(answer)
    }
}

/// A key of a new user of the first tenant, and what more is said of the key.
pub(crate) async fn client<'s>(server: &'s Running, role: &str, more: &Value) -> Client<'s> {
    let name = format!("{role} {more} {:?}", std::time::Instant::now());
    let name: String = name.chars().rev().take(100).collect();
    let user = json!({ "name": name, "role": role });
    let user = send(server.api(Method::POST, "/users").json(&user))
        .await
        .expect(201);
    let mut body = json!({ "name": "k", "role": role, "userId": user["id"] });
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    let made = send(server.api(Method::POST, "/keys").json(&body))
        .await
        .expect(201);
    Client {
        server,
        key: made["key"].as_str().unwrap().to_owned(),
    }
}

/// The admin of a new tenant.
pub(crate) async fn tenant<'s>(server: &'s Running, name: &str) -> Client<'s> {
    let made = send(
        server
            .api(Method::POST, "/tenants")
            .json(&json!({ "name": name })),
    )
    .await;
    Client {
        server,
        key: made.expect(201)["adminKey"]["key"]
            .as_str()
            .unwrap()
            .to_owned(),
    }
}

pub(crate) fn link(slug: &str) -> Value {
    json!({ "longUrl": format!("https://example.com/{slug}"), "customSlug": slug })
}

#[tokio::test]
async fn link_when_of_another_tenant_or_owner_is_not_found() {
    let server = Running::start().await;
    let none = json!({});
    let acme = tenant(&server, "acme").await;
    let ada = client(&server, "editor", &none).await;
    let bob = client(&server, "editor", &none).await;
    let reader = client(&server, "reader", &none).await;
    let creator = client(&server, "creator", &none).await;
    acme.link("acme").create().await;
    ada.link("ada").create().await;
    bob.link("bob").create().await;
    creator.link("made").create().await;

    assert_eq!(acme.codes().await, ["acme"]);
    assert_eq!(ada.codes().await, ["ada"]);
    assert_eq!(bob.codes().await, ["bob"]);
    assert_eq!(reader.codes().await, ["ada", "bob", "made"]);
    for (client, theirs, others) in [
        (&acme, "acme", "ada"),
        (&ada, "ada", "bob"),
        (&bob, "bob", "acme"),
    ] {
        let (theirs, others) = (format!("/links/{theirs}"), format!("/links/{others}"));
        client.get(&theirs).await.expect(200);
        client.get(&others).await.problem(404, "link-not-found");
        let patch = json!({ "title": "x" });
        client
            .send(Method::PATCH, &theirs, &patch)
            .await
            .expect(200);
        client
            .send(Method::PATCH, &others, &patch)
            .await
            .problem(404, "link-not-found");
        client
            .send(Method::DELETE, &others, &Value::Null)
            .await
            .problem(404, "link-not-found");
        let absent = client
            .send(Method::DELETE, "/links/absent", &Value::Null)
            .await;
        let hidden = client.send(Method::DELETE, &others, &Value::Null).await;
        let known = |answer: &Answer| {
            let mut problem = answer.json();
            problem.as_object_mut().unwrap().remove("requestId");
            problem.as_object_mut().unwrap().remove("instance");
            problem
        };
        assert_eq!(known(&absent), known(&hidden), "no difference shows");
    }
    server.get("/links/ada").await.expect(200);
    server
        .get("/links/acme")
        .await
        .problem(404, "link-not-found");
    let request = server
        .api(Method::DELETE, "/links/ada")
        .header("if-match", "\"1\"");
    send(request).await.problem(412, "precondition-failed");
    let hidden = server
        .api(Method::DELETE, "/links/acme")
        .header("if-match", "\"1\"");
    send(hidden).await.problem(404, "link-not-found");
    // Visitors see all of them.
    assert_eq!(server.follow("/acme").await.status, 302);
}

#[tokio::test]
async fn link_when_of_others_is_changed_by_no_request() {
    let server = Running::start().await;
    let acme = tenant(&server, "acme").await;
    let ada = client(&server, "editor", &json!({})).await;
    let theirs = server.link("x").with("externalId", "1").create().await;
    server.link("gone").create().await;
    server.delete("/links/gone").await;
    let items = json!([{ "shortCode": "x" }, { "shortCode": "gone" }]);
    let to = json!({ "customSlug": "y" });
    for client in [&acme, &ada] {
        for method in [Method::PATCH, Method::DELETE] {
            let answer = client.send(method, "/links/bulk", &items).await.expect(200);
            let results = answer["results"].as_array().unwrap();
            assert!(results.iter().all(|one| one["status"] == 404), "{answer}");
        }
        for (path, body) in [
            ("/links/gone/restore", &Value::Null),
            ("/links/x/restore", &Value::Null),
            ("/links/x/move", &to),
        ] {
            let answer = client.send(Method::POST, path, body).await;
            answer.problem(404, "link-not-found");
        }
        let history = client.get("/links/x/history").await;
        history.problem(404, "link-not-found");
    }
    // An external id is that of one link of a tenant.
    let put = json!({ "externalId": "1", "longUrl": "https://example.com/put" });
    let hidden = ada.send(Method::PUT, "/links", &put).await;
    assert_eq!(hidden.problem(409, "external-id-taken"), ["externalId"]);
    let own = acme.send(Method::PUT, "/links", &put).await.expect(201);
    assert_ne!(own["shortCode"], "x");
    let again = acme.send(Method::PUT, "/links", &put).await.expect(200);
    assert_eq!(again, own);
    assert_eq!(server.get("/links/x").await.expect(200), theirs.body);
    // A key that is bound to a domain moves no link to another.
    let bound = client(&server, "admin", &json!({ "domains": ["other.example"] })).await;
    bound.link("b").create().await;
    let to = json!({ "customSlug": "y", "domain": "go.example:8080" });
    let path = "/links/b/move?domain=other.example";
    let refused = bound.send(Method::POST, path, &to).await;
    assert_eq!(refused.problem(422, "validation"), ["domain"]);
    // Nor does one with a quota make another link of one.
    let limited = client(&server, "editor", &json!({ "quota": 1 })).await;
    limited.link("q").create().await;
    let to = json!({ "customSlug": "r", "keepOld": true });
    let refused = limited.send(Method::POST, "/links/q/move", &to).await;
    refused.problem(402, "quota-exhausted");
}

#[tokio::test]
async fn role_when_reader_or_creator_only_reads_or_creates() {
    let server = Running::start().await;
    let reader = client(&server, "reader", &json!({})).await;
    let creator = client(&server, "creator", &json!({})).await;
    server.link("a").create().await;
    reader.get("/links/a").await.expect(200);
    let item = json!([link("b")]);
    for (method, path, body) in [
        (Method::POST, "/links", &link("b")),
        (Method::POST, "/links/bulk", &item),
        (Method::PATCH, "/links/a", &json!({})),
        (Method::DELETE, "/links/a", &Value::Null),
        (Method::GET, "/keys", &Value::Null),
        (Method::GET, "/audit", &Value::Null),
    ] {
        reader
            .send(method, path, body)
            .await
            .problem(403, "forbidden");
    }
    let made = creator.link("c").create().await;
    assert_eq!(made["shortCode"], "c");
    for (method, path) in [
        (Method::GET, "/links"),
        (Method::GET, "/links/c"),
        (Method::HEAD, "/links/c"),
        (Method::PATCH, "/links/c"),
        (Method::DELETE, "/links/c"),
        (Method::GET, "/users"),
    ] {
        let answer = creator.send(method.clone(), path, &json!({})).await;
        assert_eq!(answer.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn link_when_of_others_is_not_shown_as_equal_or_taken() {
    let server = Running::start().await;
    let acme = tenant(&server, "acme").await;
    let ada = client(&server, "editor", &json!({})).await;
    let same = || server.link("").with("findIfExists", true).answer();
    let first = same().await.expect(201);
    assert_eq!(same().await.expect(200), first);
    for client in [&acme, &ada] {
        let same = || client.link("").with("findIfExists", true).answer();
        let own = same().await.expect(201);
        assert_ne!(own["shortCode"], first["shortCode"]);
        assert_eq!(same().await.expect(200), own);
    }

    let alias = server.link("taken").to("https://secret.example/");
    alias.create().await;
    for client in [&acme, &ada] {
        let alias = client.link("taken").to("https://secret.example/");
        let taken = alias.with("findIfExists", true).answer().await;
        assert_eq!(taken.problem(409, "slug-taken"), ["customSlug"]);
        assert!(!taken.text().contains("secret.example"));
    }

    let request = |key: &str| {
        let request = server.plain(Method::POST, "/api/v1/links").bearer_auth(key);
        request
            .header("idempotency-key", "k")
            .json(&json!({ "longUrl": "https://example.com/i" }))
    };
    let codes = [&server.admin_key, &acme.key, &ada.key].map(|key| request(key));
    let mut seen = Vec::new();
    for request in codes {
        seen.push(send(request).await.expect(201)["shortCode"].clone());
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
}

#[tokio::test]
async fn key_when_bound_to_domains_creates_and_sees_there_only() {
    let server = Running::start().await;
    server.link("a").create().await;
    let bound = client(&server, "admin", &json!({ "domains": ["other.example"] })).await;
    let made = bound.link("b").create().await;
    assert_eq!(made["domain"], "other.example");
    let elsewhere = bound.link("c").on("go.example:8080").answer().await;
    assert_eq!(elsewhere.problem(422, "validation"), ["domain"]);
    assert_eq!(bound.codes().await, ["b"]);
    bound.get("/links/a").await.problem(404, "link-not-found");
    bound.get("/links/b?domain=other.example").await.expect(200);
    // It could make itself a key that is bound to nothing.
    bound.get("/keys").await.problem(403, "forbidden");
}

#[tokio::test]
async fn key_when_bound_to_tags_gives_and_sees_them_only() {
    let server = Running::start().await;
    server.link("a").create().await;
    server.link("t").tags(&["two"]).create().await;
    let bound = client(&server, "admin", &json!({ "tags": ["one", "two"] })).await;
    let made = bound.link("b").tags(&["own"]).create().await;
    assert_eq!(made["tags"], json!(["one", "own", "two"]));
    assert_eq!(bound.codes().await, ["b", "t"]);
    bound.get("/links/a").await.problem(404, "link-not-found");
    let patched = bound
        .send(Method::PATCH, "/links/b", &json!({ "tags": null }))
        .await
        .expect(200);
    assert_eq!(patched["tags"], json!(["one", "two"]));
    let tags: Value = (0..31).map(|tag| tag.to_string()).collect();
    let many = bound.link("many").with("tags", tags).answer().await;
    assert_eq!(many.problem(422, "validation"), ["tags"]);
}

#[tokio::test]
async fn key_when_its_quota_is_reached_creates_no_more() {
    let server = Running::with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "0")]).await;
    let key = client(&server, "editor", &json!({ "quota": 3 })).await;
    let id = key.key.split('_').nth(1).unwrap();
    let used = async || server.get(&format!("/keys/{id}")).await.expect(200)["used"].clone();
    key.link("a").create().await;
    // What creates no link costs nothing.
    key.link("a").answer().await.problem(409, "slug-taken");
    let empty = key.send(Method::POST, "/links", &json!({})).await;
    empty.problem(422, "validation");
    let again = || key.link("a").with("findIfExists", true).answer();
    again().await.expect(200);
    assert_eq!(used().await, 1);
    let items = json!([link("b"), { "longUrl": "x" }, link("a"), link("d")]);
    let bulk = key
        .send(Method::POST, "/links/bulk", &items)
        .await
        .expect(200);
    let statuses: Vec<u64> = bulk["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 422, 409, 402]);
    assert_eq!(used().await, 2);
    key.link("c").create().await;
    key.link("d").answer().await.problem(402, "quota-exhausted");
    again().await.expect(200);
    server
        .patch(&format!("/keys/{id}"), &json!({ "quota": null }))
        .await
        .expect(200);
    key.link("d").create().await;
}

#[tokio::test]
async fn creation_when_failed_costs_no_quota() {
    let server = Running::with(&[
        ("EDGELINK_NUMBERS_SOURCE", "counter"),
        ("EDGELINK_LINKS_MAX_CODE_TRIES", "1"),
    ])
    .await;
    // The alias has the number 0, and the code of the number 1.
    server.link("0000001").create().await;
    let client = client(&server, "editor", &json!({ "quota": 1 })).await;
    let anywhere = || client.link("").answer();
    anywhere().await.problem(503, "codes-taken");
    anywhere().await.expect(201);
    anywhere().await.problem(402, "quota-exhausted");
}
