//! `/domains`.

use crate::helpers::{Answer, Running, send, until};
use crate::scopes::{client, tenant};
use edgelink_wire::domain_record::domain_of_record;
use edgelink_wire::{DomainTargets, LinkAnswer};
use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::TXT;
use hickory_resolver::proto::rr::{RData, Record};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;

async fn post(server: &Running, path: &str, body: &Value) -> Answer {
    send(server.api(Method::POST, path).json(body)).await
}

/// A domain that counts as verified.
async fn verified(server: &Running, mut body: Value) -> Value {
    let name = body["name"].as_str().unwrap().to_owned();
    post(server, "/domains", &body).await.expect(201);
    body = json!({ "verified": true });
    server
        .patch(&format!("/domains/{name}"), &body)
        .await
        .expect(200)
}

async fn visit(server: &Running, host: &str, path: &str) -> Answer {
    send(server.plain(Method::GET, path).header("host", host)).await
}

/// A DNS server on a free port, with TXT records that a test sets.
struct Dns {
    address: SocketAddr,
    records: Arc<Mutex<HashMap<String, String>>>,
}

impl Dns {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let records = Arc::new(Mutex::new(HashMap::new()));
        tokio::spawn(serve(socket, records.clone()));
        Self { address, records }
    }

    fn remove(&self, name: &str) {
        let mut records = self.records.lock().unwrap();
        assert!(records.remove(&format!("{name}.")).is_some());
    }

    fn set(&self, name: &str, value: &str) {
        let mut records = self.records.lock().unwrap();
        records.insert(format!("{name}."), value.to_owned());
    }
}

async fn serve(socket: UdpSocket, records: Arc<Mutex<HashMap<String, String>>>) {
    let mut buffer = [0; 1500];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let request = Message::from_vec(&buffer[..length]).unwrap();
        let query = request.queries[0].clone();
        let name = query.name().to_string().to_ascii_lowercase();
        let mut answer = Message::response(request.metadata.id, request.metadata.op_code);
        answer.metadata.message_type = MessageType::Response;
        answer.metadata.recursion_available = true;
        answer.add_query(query.clone());
        match records.lock().unwrap().get(&name) {
            Some(text) => {
                let data = RData::TXT(TXT::new(vec!["v=spf1".to_owned()]));
                answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
                // In two pieces, as long ones come.
                let (head, tail) = text.split_at(5);
                let data = RData::TXT(TXT::new(vec![head.to_owned(), tail.to_owned()]));
                answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
            }
            None => answer.metadata.response_code = ResponseCode::NXDomain,
        }
        let bytes = answer.to_vec().unwrap();
        socket.send_to(&bytes, from).await.unwrap();
    }
}

/// A server that looks at records again as soon as it can.
async fn rechecking(dns: &Dns, missing_seconds: &str) -> Running {
    let address = dns.address.to_string();
    Running::with(&[
        ("EDGELINK_DOMAINS_RESOLVER", &address),
        ("EDGELINK_DOMAINS_RECHECK_SECONDS", "1"),
        ("EDGELINK_DOMAINS_MISSING_SECONDS", missing_seconds),
    ])
    .await
}

/// A domain that the DNS has verified.
async fn verified_by_dns(server: &Running, dns: &Dns, name: &str) {
    let made = post(server, "/domains", &json!({ "name": name }))
        .await
        .expect(201);
    let record = &made["verification"];
    dns.set(
        record["name"].as_str().unwrap(),
        record["value"].as_str().unwrap(),
    );
    let path = format!("/domains/{name}/verify");
    post(server, &path, &Value::Null).await.expect(200);
}

async fn is_verified(server: &Running, name: &str) -> bool {
    let domain = server.get(&format!("/domains/{name}")).await.expect(200);
    domain["verified"] == true
}

#[tokio::test]
async fn domain_when_its_dns_record_is_gone_loses_verification() {
    let dns = Dns::start().await;
    let server = rechecking(&dns, "1").await;
    verified_by_dns(&server, &dns, "lapsed.example").await;
    verified_by_dns(&server, &dns, "kept.example").await;
    verified(&server, json!({ "name": "trusted.example" })).await;
    server.link("x").on("lapsed.example").create().await;
    dns.remove("_edgelink.lapsed.example");
    until("the domain is not verified", async || {
        !is_verified(&server, "lapsed.example").await
    })
    .await;
    until("its links are not served", async || {
        visit(&server, "lapsed.example", "/x").await.status == 404
    })
    .await;
    assert!(is_verified(&server, "kept.example").await);
    assert!(
        is_verified(&server, "trusted.example").await,
        "the operator says so, and it never had a record"
    );
    let log = server
        .get("/audit?subject=domain:lapsed.example")
        .await
        .expect(200);
    assert_eq!(log["entries"][0]["detail"]["verified"], false, "{log}");
    // The same owner comes back.
    let domain = server.get("/domains/lapsed.example").await.expect(200);
    let record = &domain["verification"];
    dns.set(
        record["name"].as_str().unwrap(),
        record["value"].as_str().unwrap(),
    );
    post(&server, "/domains/lapsed.example/verify", &Value::Null)
        .await
        .expect(200);
    visit(&server, "lapsed.example", "/x")
        .await
        .redirects(302, "https://example.com/");
}

#[tokio::test]
async fn domain_when_verified_by_dns_may_have_links() {
    let dns = Dns::start().await;
    let address = dns.address.to_string();
    let server = Running::with(&[("EDGELINK_DOMAINS_RESOLVER", &address)]).await;
    let made = post(&server, "/domains", &json!({ "name": "Brand.Example" })).await;
    assert_eq!(made.header("location"), "/api/v1/domains/brand.example");
    let domain = made.expect(201);
    assert_eq!(domain["verified"], false);
    assert_eq!(domain["configured"], false);
    assert_eq!(domain["tenant"], 1);
    let refused = server.link("x").on("brand.example").answer().await;
    let refused = refused.refused(422);
    assert_eq!(refused["errors"][0]["reason"], "is not verified yet");

    let verify = || post(&server, "/domains/brand.example/verify", &Value::Null);
    let failed = verify().await.refused(409);
    assert_eq!(failed["type"], "urn:edgelink:problem:verification-failed");
    let record = &domain["verification"];
    assert_eq!(record["name"], "_edgelink.brand.example");
    dns.set("_edgelink.brand.example", "edgelink-verification=another");
    verify().await.refused(409);
    dns.set("_edgelink.brand.example", record["value"].as_str().unwrap());
    let domain = verify().await.expect(200);
    assert_eq!(domain["verified"], true);
    assert!(domain["verifiedAt"].is_string());
    assert_eq!(verify().await.expect(200), domain, "again");

    let link = server.link("x").on("brand.example").create().await;
    assert_eq!(link["shortUrl"], "https://brand.example/x");
    visit(&server, "brand.example", "/x")
        .await
        .redirects(302, "https://example.com/");
    visit(&server, "go.example:8080", "/x")
        .await
        .page(404, "not found");
    let read = server
        .get("/links/x?domain=brand.example")
        .await
        .expect(200);
    assert_eq!(read["shortUrl"], link["shortUrl"]);
}

#[tokio::test]
async fn domain_when_dns_does_not_answer_is_not_verified() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let server = Running::with(&[
        ("EDGELINK_DOMAINS_RESOLVER", address.as_str()),
        ("EDGELINK_DOMAINS_TIMEOUT_MS", "100"),
    ])
    .await;
    post(&server, "/domains", &json!({ "name": "brand.example" }))
        .await
        .expect(201);
    let refused = post(&server, "/domains/brand.example/verify", &Value::Null).await;
    assert_eq!(refused.refused(409)["detail"], "the DNS does not answer");
}

#[tokio::test]
async fn domain_when_no_verification_is_required_is_verified() {
    let server = Running::with(&[("EDGELINK_DOMAINS_REQUIRE_VERIFICATION", "false")]).await;
    let made = post(&server, "/domains", &json!({ "name": "brand.example" })).await;
    assert_eq!(made.expect(201)["verified"], true);
}

#[tokio::test]
async fn domain_when_no_link_serves_redirects_to_its_own_url() {
    let server = Running::start().await;
    let body = json!({
        "name": "brand.example",
        "rootUrl": "https://example.com/root",
        "notFoundUrl": "https://example.com/none",
        "expiredUrl": "https://example.com/over",
    });
    verified(&server, body).await;
    let over = server.link("over").on("brand.example");
    over.valid_until("2020-01-01T00:00:00Z").create().await;
    let off = server.link("off").on("brand.example");
    off.with("state", "disabled").create().await;
    for (path, target) in [
        ("/", "root"),
        ("/?a=b", "root"),
        ("/absent", "none"),
        ("/over", "over"),
        ("/off", "over"),
    ] {
        let answer = visit(&server, "BRAND.example:443", path).await;
        answer.redirects(302, &format!("https://example.com/{target}"));
        assert_eq!(answer.header("cache-control"), "private, max-age=0");
        visit(&server, "other.example", path)
            .await
            .page(404, "not found");
    }
    let body = json!({ "notFoundUrl": null, "rootUrl": "https://example.com/new" });
    let changed = server
        .patch("/domains/brand.example", &body)
        .await
        .expect(200);
    assert_eq!(changed["notFoundUrl"], Value::Null);
    assert_eq!(changed["expiredUrl"], "https://example.com/over");
    visit(&server, "brand.example", "/absent")
        .await
        .page(404, "not found");
    visit(&server, "brand.example", "/")
        .await
        .redirects(302, "https://example.com/new");

    let body = json!({ "notFoundUrl": "https://example.com/none" });
    server
        .patch("/domains/other.example", &body)
        .await
        .expect(200);
    visit(&server, "other.example", "/absent")
        .await
        .redirects(302, "https://example.com/none");
}

#[tokio::test]
async fn link_when_it_has_no_status_takes_that_of_its_domain() {
    let server = Running::start().await;
    let body = json!({ "name": "brand.example", "defaultStatus": 308 });
    verified(&server, body).await;
    let link = || server.link("").on("brand.example");
    for (link, status) in [(link(), 308), (link().redirect_status(302), 302)] {
        assert_eq!(link.create().await["redirectStatus"], status);
    }
    let body = json!({ "defaultStatus": 301 });
    server
        .patch("/domains/go.example:8080", &body)
        .await
        .expect(200);
    assert_eq!(server.link("").create().await["redirectStatus"], 301);
}

#[tokio::test]
async fn configured_domain_when_listed_cannot_be_deleted() {
    let server = Running::start().await;
    for name in ["b.example", "a.example"] {
        post(&server, "/domains", &json!({ "name": name }))
            .await
            .expect(201);
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server
            .get(&format!("/domains?limit=1{cursor}"))
            .await
            .expect(200);
        for domain in page["domains"].as_array().unwrap() {
            names.push((domain["name"].clone(), domain["configured"].clone()));
        }
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let expected = [
        ("a.example", false),
        ("b.example", false),
        ("go.example:8080", true),
        ("other.example", true),
    ];
    let expected = expected.map(|(name, configured)| (json!(name), json!(configured)));
    assert_eq!(names, expected);
    let kept = server.delete("/domains/other.example").await.refused(409);
    assert_eq!(kept["type"], "urn:edgelink:problem:domain-in-use");
    let refused = server
        .patch("/domains/other.example", &json!({ "verified": true }))
        .await;
    assert_eq!(refused.refused(422)["invalidElements"], json!(["verified"]));
    let taken = post(&server, "/domains", &json!({ "name": "other.example" })).await;
    assert_eq!(
        taken.refused(409)["type"],
        "urn:edgelink:problem:domain-taken"
    );
}

#[tokio::test]
async fn domain_when_its_last_link_is_gone_can_be_removed() {
    let server = Running::start().await;
    verified(&server, json!({ "name": "brand.example" })).await;
    server.link("x").on("brand.example").create().await;
    let kept = server.delete("/domains/brand.example").await.refused(409);
    assert_eq!(kept["detail"], "the domain has 1 links");
    assert_eq!(
        server.delete("/links/x?domain=brand.example").await.status,
        204
    );
    assert_eq!(server.delete("/domains/brand.example").await.status, 204);
    server.get("/domains/brand.example").await.refused(404);
    server.delete("/domains/brand.example").await.refused(404);
    let refused = server.link("x").on("brand.example").answer().await;
    refused.refused(422);
    visit(&server, "brand.example", "/x")
        .await
        .page(404, "not found");

    let log = server
        .get("/audit?subject=domain:brand.example")
        .await
        .expect(200);
    let actions = log["entries"].as_array().unwrap().iter();
    let actions: Vec<&str> = actions
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["domain.delete", "domain.update", "domain.create"]);
    verified(&server, json!({ "name": "brand.example" })).await;
    server.link("x").on("brand.example").create().await;
}

#[tokio::test]
async fn domain_when_of_another_tenant_is_out_of_reach() {
    let server = Running::start().await;
    verified(&server, json!({ "name": "first.example" })).await;
    let tenant = post(&server, "/tenants", &json!({ "name": "second" }))
        .await
        .expect(201);
    let key = tenant["adminKey"]["key"].as_str().unwrap();
    let by = |method: Method, path: &str, body: Value| {
        send(
            server
                .plain(method, &format!("/api/v1{path}"))
                .bearer_auth(key)
                .json(&body),
        )
    };
    let made = by(
        Method::POST,
        "/domains",
        json!({ "name": "second.example" }),
    )
    .await;
    assert_eq!(made.expect(201)["tenant"], tenant["id"]);
    by(Method::POST, "/domains", json!({ "name": "first.example" }))
        .await
        .refused(409);
    for (method, path, body, status) in [
        (Method::GET, "/domains/first.example", json!({}), 404),
        (Method::PATCH, "/domains/first.example", json!({}), 404),
        (Method::DELETE, "/domains/first.example", json!({}), 404),
        (Method::PATCH, "/domains/other.example", json!({}), 403),
        (
            Method::PATCH,
            "/domains/second.example",
            json!({ "verified": true }),
            422,
        ),
        (
            Method::POST,
            "/links",
            json!({ "longUrl": "https://e.com/", "domain": "first.example" }),
            422,
        ),
        (
            Method::POST,
            "/links",
            json!({ "longUrl": "https://first.example/x" }),
            422,
        ),
        (
            Method::POST,
            "/links",
            json!({ "longUrl": "https://e.com/", "domain": "other.example" }),
            201,
        ),
    ] {
        assert_eq!(by(method, path, body).await.status, status, "{path}");
    }
    let list = by(Method::GET, "/domains", json!({})).await.expect(200);
    let names = list["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|domain| &domain["name"]);
    let names: Vec<&Value> = names.collect();
    assert_eq!(
        names,
        ["go.example:8080", "other.example", "second.example"]
    );

    // Those who operate the installation see all domains, and answer for them.
    let body = json!({ "verified": true });
    server
        .patch("/domains/second.example", &body)
        .await
        .expect(200);
    let link = json!({ "longUrl": "https://e.com/", "domain": "second.example" });
    by(Method::POST, "/links", link.clone()).await.expect(201);
    server.post(&link).await.refused(422);
}

#[tokio::test]
async fn domain_field_when_wrong_is_named() {
    let server = Running::start().await;
    let body = json!({
        "name": "a.example:80",
        "rootUrl": "ftp://e.com/",
        "notFoundUrl": format!("https://e.com/{}", "x".repeat(2048)),
        "expiredUrl": "https://other.example/",
        "defaultStatus": 303,
        "verified": true,
    });
    let refused = post(&server, "/domains", &body).await.refused(422);
    let mut fields: Vec<&str> = refused["invalidElements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field.as_str().unwrap())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "defaultStatus",
            "expiredUrl",
            "name",
            "notFoundUrl",
            "rootUrl",
            "verified"
        ]
    );
    for name in [
        "",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "a..example",
        "a_b.example",
        "x.1",
        "https://a.example",
    ] {
        post(&server, "/domains", &json!({ "name": name }))
            .await
            .refused(422);
    }
    post(&server, "/domains", &json!({})).await.refused(422);
    for path in [
        "/domains?limit=0",
        "/domains?cursor=zz",
        "/domains/other.example?a=b",
    ] {
        server.get(path).await.refused(422);
    }
    server.get("/domains/a%20b").await.refused(404);
}

/// Without Redis the other process learns nothing from the feed.
#[tokio::test]
async fn domain_when_created_is_known_to_other_processes_soon() {
    let server = Running::start().await;
    let other = server.another().await;
    let body = json!({ "name": "brand.example", "rootUrl": "https://example.com/root" });
    verified(&server, body).await;
    until("the domain is known", async || {
        visit(&other, "brand.example", "/").await.status == 302
    })
    .await;
}

#[tokio::test]
async fn host_when_an_edge_asks_is_answered_with_its_domain() {
    let server = Running::start().await;
    let host = async |host: &str| {
        let request = server.plain(Method::GET, &format!("/edge/v1/domains/{host}"));
        send(request.bearer_auth("first-token-of-the-edges")).await
    };
    let absent = host("Brand.example:443").await;
    assert_eq!(absent.status, 404);
    assert_eq!(absent.header("content-type"), LinkAnswer::MEDIA_TYPE);
    let answer = LinkAnswer::split(&absent.body).unwrap();
    assert_eq!(answer.key, b"brand.example:443/");
    assert!(answer.age_millis <= 5_000, "{}", answer.age_millis);
    let body = json!({ "name": "brand.example", "rootUrl": "https://example.com/root" });
    verified(&server, body).await;
    for name in ["brand.example", "Brand.example:443"] {
        let found = host(name).await;
        assert_eq!(found.status, 200, "{name}");
        let answer = LinkAnswer::split(&found.body).unwrap();
        let record = edgelink_wire::Record::decode(answer.record).unwrap();
        assert_eq!(domain_of_record(&record), Some("brand.example"));
        let root = DomainTargets::of_record(&record).unwrap().root;
        assert_eq!(root, Some("https://example.com/root"));
    }
    // Edges have configured domains anyway.
    assert_eq!(host("go.example:8080").await.status, 404);
    host("a%20b").await.refused(400);
    let without = server.plain(Method::GET, "/edge/v1/domains/brand.example");
    assert_eq!(send(without).await.status, 401);
}

#[tokio::test]
async fn bound_key_when_it_names_no_domain_needs_a_served_one() {
    let server = Running::start().await;
    let body = json!({ "name": "new.example" });
    post(&server, "/domains", &body).await.expect(201);
    let bound = client(&server, "admin", &json!({ "domains": ["new.example"] })).await;
    let refused = bound.link("").answer().await.refused(422);
    assert_eq!(refused["invalidElements"], json!(["domain"]));
    let body = json!({ "verified": true });
    server
        .patch("/domains/new.example", &body)
        .await
        .expect(200);
    let made = bound.link("").create().await;
    assert_eq!(made["domain"], "new.example");
}

#[tokio::test]
async fn link_when_its_domain_is_not_served_cannot_be_moved() {
    let server = Running::start().await;
    let set = async |verified: bool| {
        let body = json!({ "verified": verified });
        server
            .patch("/domains/new.example", &body)
            .await
            .expect(200);
    };
    let body = json!({ "name": "new.example" });
    post(&server, "/domains", &body).await.expect(201);
    set(true).await;
    server.link("x").on("new.example").create().await;
    set(false).await;
    let bound = client(&server, "admin", &json!({ "domains": ["new.example"] })).await;
    let path = "/links/x/move?domain=new.example";
    for (body, wrong) in [
        (json!({ "customSlug": "y" }), json!(["domain"])),
        (
            json!({ "customSlug": "y", "domain": "new.example" }),
            json!(["domain"]),
        ),
        (
            json!({ "customSlug": "/", "domain": "go.example:8080" }),
            json!(["customSlug", "domain"]),
        ),
    ] {
        let refused = bound.send(Method::POST, path, &body).await.refused(422);
        assert_eq!(refused["invalidElements"], wrong, "{body}");
    }
    set(true).await;
    let body = json!({ "customSlug": "y" });
    let moved = bound.send(Method::POST, path, &body).await.expect(201);
    assert_eq!(moved["domain"], "new.example");
}

#[tokio::test]
async fn tenant_when_at_its_domain_limit_creates_no_more() {
    let server = Running::with(&[
        ("EDGELINK_DOMAINS_MAX_PER_TENANT", "2"),
        ("EDGELINK_DOMAINS_MAX_UNVERIFIED", "1"),
    ])
    .await;
    let make = async |name: &str| post(&server, "/domains", &json!({ "name": name })).await;
    make("a.example").await.expect(201);
    let refused = make("b.example").await.refused(409);
    assert_eq!(refused["type"], "urn:edgelink:problem:too-many-domains");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("not verified"), "{detail}");
    let verified = json!({ "verified": true });
    server
        .patch("/domains/a.example", &verified)
        .await
        .expect(200);
    make("b.example").await.expect(201);
    let refused = make("c.example").await.refused(409);
    assert_eq!(
        refused["detail"],
        "the tenant has 2 domains, and may have no more"
    );
    // Those of another tenant are its own.
    let other = tenant(&server, "other").await;
    let body = json!({ "name": "c.example" });
    let made = other.send(Method::POST, "/domains", &body).await;
    made.expect(201);
}
