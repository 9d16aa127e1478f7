//! A feed that dies: changes are seen as late as without one, although records are fresh for an hour while it lives.

use edgelink_tests::scenario::Request;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{ControlPlane, Envoy, EnvoyOptions, RedisOptions, until};
use serde_json::json;
use std::time::{Duration, Instant};

/// 5 s, and the time to ask: the control plane has to find out that its Redis does not answer. The rest is for a slow machine.
const CHANGE_BOUND: Duration = Duration::from_secs(9);
const LIMIT: Duration = Duration::from_secs(30);
const OLD: &str = "https://example.com/old";
const NEW: &str = "https://example.com/new";

/// How Redis, through which every feed goes, fails.
#[derive(Clone, Copy, Debug)]
enum Death {
    Killed,
    Stopped,
}

async fn assert_changes_are_seen_in_time(death: Death) {
    let mut redis = RedisServer::start().await;
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_REDIS_URL", &redis.url())]).await;
    let options = EnvoyOptions {
        feed: "poll",
        redis: Some(RedisOptions::direct(redis.port())),
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    control_plane.link("change").to(OLD).create().await;
    until("the worker reads the feed", LIMIT, async || {
        envoy.follow("/change").await;
        let stats = envoy.figures().await;
        (stats.get("edgelink.admission") == 1).then_some(())
    })
    .await;
    assert_eq!(envoy.follow("/change").await.location(), Some(OLD));

    match death {
        Death::Killed => redis.kill(),
        Death::Stopped => redis.stop(),
    }
    let change = json!({ "longUrl": NEW });
    let changed = control_plane.api("PATCH", "/links/change", &change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let change = Instant::now();
    until("the change is seen", CHANGE_BOUND, async || {
        let answer = envoy.follow("/change").await;
        assert!(answer.status == 302, "{answer:?}");
        (answer.location() == Some(NEW)).then_some(())
    })
    .await;
    println!("{death:?}: seen after {:?}", change.elapsed());
    envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_when_the_redis_stream_is_gone_are_seen_in_time() {
    assert_changes_are_seen_in_time(Death::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_when_the_redis_stream_hangs_are_seen_in_time() {
    assert_changes_are_seen_in_time(Death::Stopped).await;
}

/// Each visit is under another host, none of which is a domain.
async fn assert_unknown_hosts_are_served(death: Death) {
    let mut redis = RedisServer::start().await;
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_REDIS_URL", &redis.url())]).await;
    let options = EnvoyOptions {
        feed: "poll",
        redis: Some(RedisOptions::direct(redis.port())),
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    control_plane.link("known").to(OLD).create().await;
    until("the worker has its snapshot", LIMIT, async || {
        envoy.follow("/known").await;
        let stats = envoy.figures().await;
        (stats.get("edgelink.admission") == 1).then_some(())
    })
    .await;
    match death {
        Death::Killed => redis.kill(),
        Death::Stopped => redis.stop(),
    }
    let absent = async || envoy.figures().await.get("edgelink.callouts.absent");
    let (before, mut hosts) = (absent().await, 0);
    until("hosts are asked for", LIMIT, async || {
        for _ in 0..10 {
            hosts += 1;
            let host = format!("{hosts}.unknown.example");
            let request = Request::get("/known").header("host", host.as_bytes());
            let answer = envoy.visit(&request).await;
            assert_eq!(answer.location(), Some(OLD), "{hosts}: {answer:?}");
        }
        (absent().await > before + 100).then_some(())
    })
    .await;
    println!("{death:?}: {hosts} unknown hosts");
    envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_hosts_when_redis_is_gone_are_served() {
    assert_unknown_hosts_are_served(Death::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_hosts_when_redis_hangs_are_served() {
    assert_unknown_hosts_are_served(Death::Stopped).await;
}
