//! Domains that the API has made, on two Envoys with two workers each and two control planes: nothing is restarted.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, ControlPlane, Production, ProductionOptions, until};
use serde_json::{Value, json};
use std::time::Duration;

/// Connections to each Envoy: enough that each worker has some, as good as certainly.
const CONNECTIONS: usize = 16;
const LIMIT: Duration = Duration::from_secs(30);
const BRAND: &str = "brand.example";
const PATH: &str = "/domains/brand.example";
const TARGET: &str = "https://example.com/target";

/// What every worker answers for the domain.
async fn visit(production: &Production, path: &str) -> Vec<Answer> {
    let request = Request::get(path).header("host", BRAND.as_bytes());
    let mut answers = Vec::new();
    for envoy in &production.envoys {
        for _ in 0..CONNECTIONS {
            let mut connection = envoy.connect().await;
            answers.push(connection.exchange(&request, b"").await.expect("an answer"));
        }
    }
    answers
}

/// Waits until every worker sends visitors of a path there; `None` if nowhere.
async fn leads_to(production: &Production, path: &str, target: Option<&str>) {
    let what = format!("{path} leads to {target:?}");
    until(&what, LIMIT, async || {
        let answers = visit(production, path).await;
        let is_there = |answer: &Answer| answer.location() == target && answer.status != 503;
        answers.iter().all(is_there).then_some(())
    })
    .await;
}

async fn send(to: &ControlPlane, method: &str, path: &str, body: &Value, status: u16) {
    let answer = to.api(method, path, body).await;
    assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
}

/// The place of the control plane that publishes.
async fn publisher(production: &Production) -> usize {
    until("a control plane publishes", LIMIT, async || {
        for (place, control_plane) in production.control_planes.iter().enumerate() {
            let mut connection = Connection::open(control_plane.address()).await.ok()?;
            let ready = Request::get("/health/ready");
            let answer = connection.exchange(&ready, b"").await.ok()?;
            let health: Value = serde_json::from_slice(&answer.body).ok()?;
            if health["feed"]["publisher"] == "this" {
                return Some(place);
            }
        }
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_when_changed_at_runtime_is_served_everywhere() {
    let redis = RedisServer::start().await;
    let options = ProductionOptions::direct(&redis);
    let mut production = Production::start(&options).await;
    let [one, other] = production.control_planes.as_slice() else {
        panic!("two control planes");
    };
    leads_to(&production, "/x", None).await;

    send(one, "POST", "/domains", &json!({ "name": BRAND }), 201).await;
    let link = json!({ "longUrl": TARGET, "domain": BRAND, "customSlug": "x" });
    send(one, "POST", "/links", &link, 422).await;
    send(one, "PATCH", PATH, &json!({ "verified": true }), 200).await;
    until(
        "the other control plane has the domain",
        LIMIT,
        async || {
            let answer = other.api("POST", "/links", &link).await;
            (answer.status == 201).then_some(())
        },
    )
    .await;
    leads_to(&production, "/x", Some(TARGET)).await;
    leads_to(&production, "/absent", None).await;
    leads_to(&production, "/", None).await;

    let none = "https://example.com/none";
    let first = "https://example.com/first";
    let change = json!({ "rootUrl": first, "notFoundUrl": none });
    send(other, "PATCH", PATH, &change, 200).await;
    leads_to(&production, "/", Some(first)).await;
    leads_to(&production, "/absent", Some(none)).await;
    leads_to(&production, "/x", Some(TARGET)).await;

    let place = publisher(&production).await;
    production.control_planes[place].process().kill();
    let second = "https://example.com/second";
    let left = &production.control_planes[1 - place];
    send(left, "PATCH", PATH, &json!({ "rootUrl": second }), 200).await;
    leads_to(&production, "/", Some(second)).await;

    // It knows nothing but its snapshot.
    production.add_envoy(&options).await;
    let new = production.envoys.last().expect("an Envoy");
    for (path, target) in [("/", second), ("/x", TARGET), ("/absent", none)] {
        let request = Request::get(path).header("host", BRAND.as_bytes());
        let answer = until("it answers", LIMIT, async || {
            let answer = new.visit(&request).await;
            // A control plane is gone, and the other one may be slow.
            (answer.status != 503).then_some(answer)
        })
        .await;
        assert_eq!(answer.location(), Some(target), "{path}: {answer:?}");
    }

    let left = &production.control_planes[1 - place];
    send(left, "DELETE", PATH, &json!(null), 409).await;
    let path = format!("/links/x?domain={BRAND}");
    send(left, "DELETE", &path, &json!(null), 204).await;
    send(left, "DELETE", PATH, &json!(null), 204).await;
    for path in ["/", "/x", "/absent"] {
        leads_to(&production, path, None).await;
    }
    for envoy in &production.envoys {
        envoy.assert_unharmed().await;
    }
}
