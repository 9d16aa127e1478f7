//! A change waits for no pause longer than its cause lasts.

use crate::redis::fixture::{LIMIT, connected};
use crate::redis::publisher::{Replica, Setting, config, replica_of};
use edgelink_settings::config::PublisherConfig;
use edgelink_tests::stack::until;
use std::time::{Duration, Instant};

/// Longer than a test.
const NEVER: Duration = Duration::from_secs(600);
/// For how long a publisher leaves the lease to others that has given it up, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(6);

/// A publisher that looks into the outbox when it is woken, and not by itself.
fn waits_for_nudges() -> PublisherConfig {
    PublisherConfig {
        poll_ms: NEVER,
        heartbeat_ms: NEVER,
        ..config(LIMIT * 2)
    }
}

/// One that publishes, and has nothing to do.
async fn idle_publisher(setting: &Setting) -> Replica {
    let replica = replica_of(&setting.store, &setting.redis, &waits_for_nudges());
    until("it publishes", LIMIT, async || {
        let state = setting.store.publisher().await.ok()?;
        (state.generation > 0).then_some(())
    })
    .await;
    setting.await_empty_outbox().await;
    replica
}

#[tokio::test]
async fn nudge_when_it_failed_is_sent_again() {
    let setting = Setting::new().await;
    let publisher = idle_publisher(&setting).await;
    let redis = connected(&setting.server.url()).await;
    let other = replica_of(&setting.store, &redis, &waits_for_nudges());
    // Nudges alone fail: a publisher whose connection breaks looks by itself when it has it again.
    let command = ["ACL", "SETUSER", "default", "-publish"];
    assert_eq!(setting.server.ask(&command).trim(), "OK");
    setting.create(0..5).await;
    other.wake.notify_one();
    // More often than the connections ask for a sign of life meanwhile.
    until("the nudge has failed", LIMIT, async || {
        let commands = setting.server.ask(&["INFO", "commandstats"]);
        let mut commands = commands.lines();
        let publish = commands.find(|line| line.starts_with("cmdstat_publish:"))?;
        let refused = publish.split_once("rejected_calls=")?.1;
        let refused: u64 = refused.split(',').next()?.parse().ok()?;
        (refused > 20).then_some(())
    })
    .await;
    let command = ["ACL", "SETUSER", "default", "+publish"];
    assert_eq!(setting.server.ask(&command).trim(), "OK");
    setting.await_empty_outbox().await;
    publisher.stop.cancel();
    other.stop.cancel();
}

#[tokio::test]
async fn publisher_when_its_subscription_was_lost_looks_again() {
    let setting = Setting::new().await;
    let publisher = idle_publisher(&setting).await;
    // The nudge for these is lost.
    setting.create(0..5).await;
    let killed = setting.server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_ne!(killed.trim(), "0");
    setting.await_empty_outbox().await;
    publisher.stop.cancel();
}

#[tokio::test]
async fn publisher_when_it_gave_up_resumes_as_soon_as_redis_works() {
    let setting = Setting::new().await;
    let replica = replica_of(&setting.store, &setting.redis, &config(LONGEST_PAUSE));
    replica.publishes().await;
    setting.take_writes(false);
    setting.create(0..5).await;
    replica.gives_up().await;
    let given_up = Instant::now();
    setting.take_writes(true);
    setting.await_empty_outbox().await;
    assert!(
        given_up.elapsed() < LONGEST_PAUSE / 2,
        "{:?}",
        given_up.elapsed()
    );
    replica.stop.cancel();
}
