//! Workers report their health.

use super::background::{BOUND, batch, path};
use super::*;
use crate::control_plane::BackgroundKind;
use edgelink_wire::WorkerHealth;
use edgelink_wire::clicks::decode;
use edgelink_wire::health::{INTERVAL_MILLIS, RequestsByTier};

const ALL: &str = r#","snapshot":{},"poll":{},"admission":{},"clicks":{}"#;

impl World {
    /// A worker with two requests for `/a`, and one for a code that was never issued, with admission in effect.
    fn with_visitors() -> Self {
        let mut world = Self::with_background(ALL);
        world.answer_snapshot(&super::background::snapshot(5));
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        world.know("a", link("https://a/", 1));
        assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
        let refused = world.visit(&path(BOUND));
        assert_eq!(refused, Answered(page(404, "admission")));
        world
    }

    /// Time passes, tick by tick, until a report comes; reports without the worker's health are acknowledged.
    fn health(&mut self) -> (Token, WorkerHealth, usize) {
        for _ in 0..=INTERVAL_MILLIS / 100 {
            self.pass(100);
            let is_report =
                |(_, callout): &(Token, BackgroundCallout)| callout.kind == BackgroundKind::Clicks;
            if !self.callouts.iter().any(is_report) {
                continue;
            }
            let (token, callout) = self.take_background(BackgroundKind::Clicks);
            let batches = decode(&callout.body).unwrap().len();
            if let Some(health) = callout.health {
                let health = WorkerHealth::parse(health.as_bytes()).unwrap();
                return (token, health, batches);
            }
            self.answer_report(token, b"204");
        }
        panic!("no health for {INTERVAL_MILLIS} ms");
    }
}

#[test]
fn health_when_there_are_no_clicks_is_reported() {
    let mut world = World::with_visitors();
    let polled = world.now - 100;
    let (token, health, batches) = world.health();
    let first_tick = START + 100;
    assert_eq!(world.now, first_tick + INTERVAL_MILLIS);
    assert_eq!(batches, 0);
    let lag = u64::from(health.feed_lag_millis.unwrap());
    assert_eq!(lag, world.now - polled);
    assert_eq!(health.worker, [7; 16]);
    assert!(!health.is_admitting, "the feed has fallen silent");
    let requests = RequestsByTier {
        lru: 1,
        admission: 1,
        control_plane: 1,
        ..RequestsByTier::default()
    };
    assert_eq!(health.requests, requests);
    world.answer_report(token, b"204");
    let acknowledged = world.now;
    world.health();
    assert_eq!(world.now, acknowledged + INTERVAL_MILLIS);
}

#[test]
fn health_when_due_comes_with_the_clicks_of_the_moment() {
    let mut world = World::with_visitors();
    world.pass(INTERVAL_MILLIS - 2_000);
    let (token, callout) = world.take_background(BackgroundKind::Clicks);
    assert_eq!(callout.health, None, "it is not due");
    world.answer_report(token, b"204");
    world.know("b", link("https://b/", 1));
    world.pass(2_000);
    let (_, callout) = world.take_background(BackgroundKind::Clicks);
    assert_eq!(decode(&callout.body).unwrap().len(), 1);
    let health = WorkerHealth::parse(callout.health.unwrap().as_bytes());
    // Requests that wait for the flush of this very tick are included.
    assert_eq!(health.unwrap().requests.control_plane, 2);
}

#[test]
fn health_when_no_feed_is_read_has_no_lag() {
    let mut world = World::with_background(r#","clicks":{}"#);
    let (_, health, _) = world.health();
    let expected = WorkerHealth {
        worker: [7; 16],
        ..WorkerHealth::default()
    };
    assert_eq!(health, expected);
}

#[test]
fn health_when_its_report_failed_is_sent_up_to_date() {
    let mut world = World::with_visitors();
    let (token, first, _) = world.health();
    world.know("b", link("https://b/", 1));
    world.answer_report(token, b"503");
    let (_, again, _) = world.health();
    assert!(again.feed_lag_millis > first.feed_lag_millis);
    let asked = first.requests.control_plane;
    assert_eq!(again.requests.control_plane, asked + 1);
}

#[test]
fn worker_when_clicks_are_off_reports_nothing() {
    let mut world = World::with_background("");
    world.pass(10 * INTERVAL_MILLIS);
    assert!(world.callouts.is_empty());
}
