//! Changes that are answered when every worker of an edge has them: a read right after the answer is new, at each.

use crate::fleet::{assert_all_lead_to, connect, everywhere, follow};
use edgelink_tests::nemesis::proxy::{Direction, Flow, Proxy};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Connection, ControlPlane, Envoy, EnvoyOptions, Production, ProductionOptions, until,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PATH: &str = "/links/changing";

const LIMIT: Duration = Duration::from_secs(30);

/// The way between an Envoy and control planes that are far away, in each direction.
const WAY: Duration = Duration::from_millis(80);

/// Number of changes: `EDGELINK_TEST_CHANGES`, or fewer.
fn changes(default: usize) -> usize {
    let number = std::env::var("EDGELINK_TEST_CHANGES");
    number.map_or(default, |number| number.parse().expect("a number"))
}

/// Changes a link again and again, by turns at each control plane, and reads it at every worker right after each answer.
async fn change_and_read(
    control_planes: &[&ControlPlane],
    connections: &mut [Connection],
    changes: usize,
) {
    let mut apis = Vec::new();
    for control_plane in control_planes {
        apis.push((control_plane.connect().await, control_plane));
    }
    let mut times = Vec::new();
    for number in 0..changes {
        let target = format!("https://example.com/change/{number}");
        let change = json!({ "longUrl": target });
        let place = number % apis.len();
        let (api, control_plane) = &mut apis[place];
        let start = Instant::now();
        let answer = control_plane.api_over(api, "PATCH", PATH, &change).await;
        times.push(start.elapsed());
        assert_eq!(answer.expect("an answer").status, 200);
        assert_all_lead_to(&follow(connections, "/changing").await, &target);
    }
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let reads = changes * connections.len();
    println!(
        "{changes} changes, {reads} reads, all new; PATCH p50 {:.1?}, p99 {:.1?}, longest {:.1?}",
        at(50),
        at(99),
        at(100)
    );
}

fn polling(workers: u16) -> EnvoyOptions {
    EnvoyOptions {
        workers,
        feed: "poll",
        ..EnvoyOptions::default()
    }
}

/// Connections to Envoys without Redis, whose workers all follow the feed.
async fn following(envoys: &[(&Envoy, u16)]) -> Vec<Connection> {
    let mut connections = Vec::new();
    for (envoy, workers) in envoys {
        let mut own = connect(envoy).await;
        until("every worker follows the feed", LIMIT, async || {
            follow(&mut own, "/changing").await;
            let admitting = envoy.figures().await.get("edgelink.admission");
            (admitting == envoy.filter().edges(*workers)).then_some(())
        })
        .await;
        connections.append(&mut own);
    }
    connections
}

/// Sends a request that prefers not to wait, and returns the preference that was applied.
async fn preferred(
    control_plane: &ControlPlane,
    (method, path): (&str, &str),
    body: &Value,
) -> Option<String> {
    let request = Request::new(method, format!("/api/v1{path}").as_bytes())
        .header("x-api-key", control_plane.admin_key().as_bytes())
        .header("content-type", b"application/json")
        .header("prefer", b"respond-async");
    let mut connection = control_plane.connect().await;
    let body = body.to_string();
    let answer = connection.exchange(&request, body.as_bytes()).await;
    let answer = answer.expect("an answer");
    assert!((200..300).contains(&answer.status), "{answer:?}");
    answer.header("preference-applied").map(str::to_owned)
}

/// Number of waits for changes that have ended so.
async fn waits(control_plane: &ControlPlane, outcome: &str) -> u64 {
    let mut connection = control_plane.connect().await;
    let answer = connection.exchange(&Request::get("/metrics"), b"").await;
    let text = String::from_utf8(answer.expect("an answer").body).expect("text");
    let name = format!("edgelink_change_visible_seconds_count{{outcome=\"{outcome}\"}} ");
    let count = text.lines().find_map(|line| line.strip_prefix(&*name));
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_when_answered_is_visible_at_every_worker() {
    let control_plane = ControlPlane::start().await;
    let envoy = Envoy::start(&polling(4), &[control_plane.address()]).await;
    control_plane.link("changing").create().await;
    let mut connections = following(&[(&envoy, 4)]).await;
    change_and_read(&[&control_plane], &mut connections, changes(1_000)).await;
    envoy.assert_unharmed().await;
}

/// Records are fresh for an hour while a feed is there, so that only the feed can bring a change.
#[tokio::test(flavor = "multi_thread")]
async fn change_when_answered_by_either_control_plane_is_visible_at_every_worker() {
    let redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions::direct(&redis)).await;
    let mut connections = everywhere(&production).await;
    let planes: Vec<&ControlPlane> = production.control_planes.iter().collect();
    for (number, control_plane) in planes.iter().cycle().take(20).enumerate() {
        let target = format!("https://example.com/created/{number}");
        assert_eq!(follow(&mut connections, "/changing").await[0].status, 404);
        control_plane.link("changing").to(&target).create().await;
        assert_all_lead_to(&follow(&mut connections, "/changing").await, &target);
        let deleted = control_plane.api("DELETE", PATH, &Value::Null).await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        for answer in follow(&mut connections, "/changing").await {
            assert_eq!(answer.status, 404, "{:?}", answer.tier());
        }
    }
    planes[0].link("changing").create().await;
    change_and_read(&planes, &mut connections, changes(500)).await;
    assert!(waits(planes[0], "acknowledged").await > 10);

    // A control plane that has ended is waited for, until workers that it has not told have nothing that they would serve.
    production.control_planes[1].process().kill();
    let left = &production.control_planes[0];
    change_and_read(&[left], &mut connections, 50).await;
    production.control_planes[1].restart().await;
    let planes: Vec<&ControlPlane> = production.control_planes.iter().collect();
    change_and_read(&planes, &mut connections, 50).await;
    for envoy in &production.envoys {
        envoy.assert_unharmed().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_when_answered_is_visible_at_workers_far_away() {
    let control_plane = ControlPlane::start().await;
    let proxy = Proxy::start(control_plane.address()).await;
    for direction in [Direction::Requests, Direction::Answers] {
        proxy.set(direction, Flow::Delayed(WAY));
    }
    let far = Envoy::start(&polling(2), &[proxy.address()]).await;
    let near = Envoy::start(&polling(2), &[control_plane.address()]).await;
    control_plane.link("changing").create().await;
    let mut connections = following(&[(&far, 2), (&near, 2)]).await;
    change_and_read(&[&control_plane], &mut connections, changes(50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_when_a_worker_has_ended_waits_for_its_lease_unless_asked_not_to() {
    let control_plane = ControlPlane::start().await;
    let mut envoy = Envoy::start(&polling(1), &[control_plane.address()]).await;
    control_plane.link("changing").create().await;
    following(&[(&envoy, 1)]).await;
    let change = |number| json!({ "longUrl": format!("https://example.com/{number}") });
    let asynchronous = Some("respond-async".to_owned());
    envoy.process().kill();
    let before = waits(&control_plane, "expired").await;
    let applied = preferred(&control_plane, ("PATCH", PATH), &change(1)).await;
    assert_eq!(applied, asynchronous);
    assert_eq!(waits(&control_plane, "expired").await, before);
    let answer = control_plane.api("PATCH", PATH, &change(2)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(waits(&control_plane, "expired").await, before + 1);
    let generated = preferred(&control_plane, ("POST", "/links"), &change(3)).await;
    assert_eq!(generated, None, "nothing to wait for");
}
