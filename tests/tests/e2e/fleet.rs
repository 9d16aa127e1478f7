//! The production shape: two Envoys with two workers each, two control planes, MariaDB and Redis.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Connection, Envoy, Filter, Production, ProductionOptions, code_space, until,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Connections to each Envoy: enough that each worker has some, as good as certainly.
const CONNECTIONS: usize = 16;
const LIMIT: Duration = Duration::from_secs(30);
const NEW: &str = "https://example.com/new";

/// Connections that are spread over all workers of an Envoy.
pub(super) async fn connect(envoy: &Envoy) -> Vec<Connection> {
    let mut connections = Vec::new();
    if envoy.filter() == Filter::Nginx {
        return one_for_each_worker(envoy).await;
    }
    for _ in 0..CONNECTIONS {
        connections.push(envoy.connect().await);
    }
    connections
}

/// Connections to all workers of nginx, which does not spread them.
async fn one_for_each_worker(nginx: &Envoy) -> Vec<Connection> {
    let mut connections = BTreeMap::new();
    until("each worker has a connection", LIMIT, async || {
        let mut some = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut connection = nginx.connect().await;
            let request = Request::get("/health/live");
            let answer = connection.exchange(&request, b"").await;
            let answer = answer.expect("an answer");
            some.push((answer.header("x-worker").map(str::to_owned), connection));
        }
        connections.extend(some);
        (connections.len() == nginx.workers().len()).then_some(())
    })
    .await;
    connections.into_values().collect()
}

/// Connections that are spread over all workers of both Envoys.
pub(super) async fn everywhere(production: &Production) -> Vec<Connection> {
    let mut connections = Vec::new();
    for envoy in &production.envoys {
        connections.append(&mut connect(envoy).await);
    }
    connections
}

/// What each of them is answered.
pub(super) async fn follow(connections: &mut [Connection], path: &str) -> Vec<Answer> {
    let request = Request::get(path);
    let mut answers = Vec::new();
    for connection in connections {
        answers.push(connection.exchange(&request, b"").await.expect("an answer"));
    }
    answers
}

/// For those where all have to, by now.
pub(super) fn assert_all_lead_to(answers: &[Answer], target: &str) {
    let others = answers
        .iter()
        .filter(|answer| answer.location() != Some(target));
    let others: Vec<_> = others
        .map(|answer| (answer.status, answer.location(), answer.tier()))
        .collect();
    assert!(others.is_empty(), "of {}: {others:?}", answers.len());
}

/// A code whose number is far above every bound.
fn never_issued(n: u64) -> String {
    let code = code_space().mint(3_000_000_000_000 + n).expect("a code");
    format!("/{}", code.as_str())
}

/// Lookups of all edges, in Redis and at the control plane, whatever became of them.
async fn lookups(production: &Production) -> u64 {
    let mut sum = 0;
    for envoy in &production.envoys {
        let stats = envoy.figures().await;
        for outcome in [
            "ok",
            "absent",
            "miss",
            "older",
            "failed",
            "timeout",
            "rejected",
            "not_current",
        ] {
            sum += stats.get(&format!("edgelink.redis.{outcome}"));
            sum += stats.get(&format!("edgelink.callouts.{outcome}"));
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn code_when_never_issued_is_looked_up_nowhere() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    let mut connections = everywhere(&production).await;
    let lookups = lookups(&production).await;
    for n in 0..20 {
        for answer in follow(&mut connections, &never_issued(n)).await {
            assert_eq!((answer.status, answer.tier()), (404, Some("admission")));
        }
    }
    assert_eq!(self::lookups(&production).await, lookups);

    for (n, control_plane) in (0..).zip(&production.control_planes) {
        let alias = never_issued(n).split_off(1);
        for code in ["", &alias] {
            let created = control_plane.link(code).to(NEW).create().await;
            let path = format!("/{}", created.code());
            assert_all_lead_to(&follow(&mut connections, &path).await, NEW);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_when_control_planes_are_gone_stops_until_they_return() {
    let redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions::direct(&redis)).await;
    for control_plane in &mut production.control_planes {
        control_plane.process().kill();
    }
    // Redis still answers, but its answers do not count.
    until("no worker admits", LIMIT, async || {
        (production.figure("admission").await == 0).then_some(())
    })
    .await;
    let answer = production.envoys[0].follow(&never_issued(1)).await;
    assert_eq!(answer.status, 503, "unknown: {answer:?}");

    for control_plane in &mut production.control_planes {
        control_plane.restart().await;
    }
    let edges = 2 * production.envoys[0].filter().edges(2);
    until("every worker admits again", LIMIT, async || {
        (production.figure("admission").await == edges).then_some(())
    })
    .await;
    let answer = production.envoys[0].follow(&never_issued(1)).await;
    assert_eq!((answer.status, answer.tier()), (404, Some("admission")));
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_health_when_reported_is_known_to_control_planes() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    let [one, other] = production.control_planes.as_slice() else {
        panic!("two control planes");
    };
    one.link("followed").to(NEW).create().await;
    let mut connections = everywhere(&production).await;
    for _ in 0..10 {
        assert_all_lead_to(&follow(&mut connections, "/followed").await, NEW);
    }
    for answer in follow(&mut connections, &never_issued(1)).await {
        assert_eq!(answer.tier(), Some("admission"));
    }
    let path = "/clicks/accounting?groupBy=edge";
    let refused = connections.len() as u64;
    let workers = 2 * production.envoys[0].filter().edges(2);
    until("all workers have said how they are", LIMIT, async || {
        let answer = other.api("GET", path, &json!(null)).await;
        let health = &answer.body["data"][0]["health"];
        let requests = |tier: &str| health["requests"][tier].as_u64().unwrap_or_default();
        // Workers may have looked the link up at first.
        let is_said = requests("lru") >= 9 * refused && requests("admission") >= refused;
        (is_said && health["workers"] == workers).then(|| {
            assert!(health["feedLagMs"].is_u64(), "{health}");
            let hits = requests("lru") + requests("sharedData");
            let lookups = requests("redis") + requests("controlPlane") + requests("stale");
            let share = hits as f64 / (hits + lookups) as f64;
            let said = health["hitShare"].as_f64().unwrap();
            assert!((share - said).abs() < 0.000_1, "{share}: {health}");
            assert_eq!(health["admittingWorkers"], workers);
            assert_eq!(health["silent"], false);
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_when_on_all_edges_are_counted_once() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    let control_plane = &production.control_planes[0];
    control_plane.link("clicked-on").to(NEW).create().await;
    let mut connections = everywhere(&production).await;
    let mut clicks = 0;
    for _ in 0..10 {
        let answers = follow(&mut connections, "/clicked-on").await;
        assert_all_lead_to(&answers, NEW);
        clicks += answers.len();
    }
    let accounts = until("all clicks are counted", LIMIT, async || {
        let answer = control_plane
            .api("GET", "/clicks/accounting", &json!(null))
            .await;
        (answer.body["counted"] == clicks).then_some(answer.body)
    })
    .await;
    let wanted = json!({ "sent": clicks, "counted": clicks, "dropped": 0, "undescribed": 0 });
    assert_eq!(accounts, wanted);
}
