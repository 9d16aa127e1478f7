//! `/health/ready` of control planes that lose their way to Redis, alone or all together.

use edgelink_tests::scenario::Request;
use edgelink_tests::servers::{MariaDb, RedisServer};
use edgelink_tests::stack::{ControlPlane, until};
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Twice `feed.max_age_ms`: a control plane that is cut off alone is unready by then.
const LONG_MILLIS: u64 = 8_000;

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_when_it_alone_has_lost_redis_is_unready() {
    let database = MariaDb::start();
    let mut redis = RedisServer::start().await;
    let store = database.database();
    let answer = redis.ask(&[
        "ACL", "SETUSER", "second", "on", ">second", "~*", "&*", "+@all",
    ]);
    assert_eq!(answer.trim(), "OK");
    let first = ControlPlane::with_variables(&[
        ("EDGELINK_STORE_URL", &store),
        ("EDGELINK_REDIS_URL", &redis.url()),
    ])
    .await;
    let url = redis.url().replace("redis://", "redis://second:second@");
    let second = first.replica_with(&[("EDGELINK_REDIS_URL", &url)]).await;
    await_status(&second, 200, |state| {
        state["redis"] == "connected" && state["feed"]["current"] == true
    })
    .await;

    assert_eq!(redis.ask(&["ACL", "SETUSER", "second", "off"]).trim(), "OK");
    let _ = redis.ask(&["CLIENT", "KILL", "USER", "second"]);
    await_status(&second, 503, |state| {
        state["status"] == "cut off from the feed"
    })
    .await;
    assert_eq!(ready(&second).await.1["redis"], "away");
    let (code, state) = ready(&first).await;
    assert_eq!(
        (code, &state["status"]),
        (200, &Value::from("ready")),
        "{state}"
    );
    assert_eq!(redis.ask(&["ACL", "SETUSER", "second", "on"]).trim(), "OK");
    await_status(&second, 200, |state| state["redis"] == "connected").await;

    redis.kill();
    for control_plane in [&first, &second] {
        until("Redis is away for long", LIMIT, async || {
            let (code, state) = ready(control_plane).await;
            assert_eq!(code, 200, "{state}");
            let age = state["feed"]["ageMs"].as_u64();
            (state["redis"] == "away" && age > Some(LONG_MILLIS)).then_some(())
        })
        .await;
    }
    redis.restart().await;
}

async fn await_status(control_plane: &ControlPlane, code: u16, is_so: impl Fn(&Value) -> bool) {
    until(&format!("the probe answers {code}"), LIMIT, async || {
        let (status, state) = ready(control_plane).await;
        (status == code && is_so(&state)).then_some(())
    })
    .await;
}

async fn ready(control_plane: &ControlPlane) -> (u16, Value) {
    let mut connection = control_plane.connect().await;
    let request = Request::get("/health/ready");
    let answer = connection.exchange(&request, b"").await.expect("an answer");
    let state = serde_json::from_slice(&answer.body).expect("JSON");
    (answer.status, state)
}
