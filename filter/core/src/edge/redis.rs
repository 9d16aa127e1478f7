//! Redis as one of the tiers.

use super::Edge;
use super::action::{Action, Resumed, Uses};
use crate::cache::{Fetched, Inserted, Source};
use crate::control_plane::Callout;
use crate::control_plane::callout::LookupCallout;
use crate::flights::{Completed, FlightId, PendingLookup};
use crate::host::{ConnectionToken, Log, Lookups, RedisEvent, SharedData};
use crate::metrics::{CalloutOutcome, Metric, RedisOutcome, Tier};
use crate::redis::{FeedView, LookupAnswer, RedisConnection};
use crate::time::Moment;
use edgelink_wire::record::RecordBytes;
use edgelink_wire::record::RecordKind;

/// A worker's connection; `None` before its first request, and without Redis.
#[derive(Debug, Default)]
pub(super) struct RedisTier {
    lookups: Option<RedisConnection>,
    /// Answers of a connection that was given up; handled with the next tick.
    left: Vec<LookupAnswer>,
}

impl RedisTier {
    pub(super) fn is_ready(&self) -> bool {
        self.lookups.as_ref().is_some_and(RedisConnection::is_ready)
    }

    /// True if lookups are accepted, and Redis is current.
    pub(super) fn is_current(&self, now: Moment) -> bool {
        let lookups = self.lookups.as_ref();
        lookups.is_some_and(|lookups| lookups.is_current(now))
    }

    /// Sets the last beat of the feed, `None` without one, and the milliseconds for which the feed may be silent.
    pub(super) fn set_feed(&mut self, feed: Option<FeedView>, fresh: u64) {
        if let Some(lookups) = &mut self.lookups {
            lookups.set_feed(feed, fresh);
        }
    }

    /// Maximum duration of a lookup, in milliseconds.
    pub(super) fn timeout_millis(&self) -> u64 {
        self.lookups
            .as_ref()
            .map_or(0, RedisConnection::timeout_millis)
    }
}

impl Edge {
    /// Something has happened to a connection to Redis, at `now` by the exact clock. What comes on one that was given up is dropped.
    pub fn on_redis(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log),
        (connection, event): (ConnectionToken, RedisEvent<'_>),
        now: Moment,
    ) -> Vec<Action> {
        self.at(now);
        let lookups = self.redis.lookups.as_mut();
        let answers = lookups.map(|lookups| lookups.on_event(host, now, connection, event));
        self.act_on(host, answers.unwrap_or_default())
    }

    /// True if lookups in Redis wait only for [`Edge::flush_redis`].
    #[must_use]
    pub fn is_redis_flush_due(&self) -> bool {
        let lookups = self.redis.lookups.as_ref();
        lookups.is_some_and(RedisConnection::is_flush_due)
    }

    /// Sends the gathered lookups once the host has no more requests to pass on, if the settings are
    /// [for a process](crate::settings::Settings::for_process). The rest is sent with the next tick.
    pub fn flush_redis(&mut self, host: &mut (impl Lookups + Log)) {
        if let Some(lookups) = &mut self.redis.lookups {
            lookups.flush(host, self.now);
        }
    }

    /// Connects, if that is due, and lets time pass for the connections.
    pub(super) fn tick_redis(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log),
        now: Moment,
    ) -> Vec<Action> {
        self.connect(host);
        let mut answers = std::mem::take(&mut self.redis.left);
        if let Some(lookups) = &mut self.redis.lookups {
            answers.extend(lookups.on_tick(host, now));
            let attempts = lookups.take_attempts();
            self.counts.count_more(Metric::RedisAttempts, attempts);
        }
        self.rely_on_feed(now);
        self.act_on(host, answers)
    }

    fn connect(&mut self, log: &mut impl Log) {
        if !self.has_traffic || self.redis.lookups.is_some() {
            return;
        }
        let Some(settings) = &self.settings.redis else {
            return;
        };
        if !self.settings.has_feed() {
            log.warn("redis is not asked: no feed (poll) says whether it is current; lookups go to the control plane");
        }
        let seed = self.seed.rotate_left(16);
        let lookups = RedisConnection::new(settings.clone(), seed);
        self.redis.lookups = Some(lookups);
    }

    /// Gives the connection up; its lookups go to the control plane with the next tick.
    pub(super) fn disconnect(&mut self, host: &mut (impl SharedData + Lookups + Log)) {
        let now = self.now;
        if let Some(lookups) = self.redis.lookups.take() {
            self.redis.left.extend(lookups.end(host, now));
        }
    }

    /// The connection ends with the root context that opened it; the connection is opened again. Its lookups go
    /// to the control plane with the next tick.
    pub(super) fn lose_connection(&mut self, host: &mut (impl SharedData + Lookups + Log)) {
        let now = self.now;
        if let Some(lookups) = &mut self.redis.lookups {
            self.redis.left.extend(lookups.disconnect(host, now));
        }
    }

    /// Asks Redis for the current key. Returns `true` if the lookup was accepted.
    pub(super) fn ask_redis(&mut self, host: &mut (impl Lookups + Log), id: FlightId) -> bool {
        let Some(lookups) = &mut self.redis.lookups else {
            return false;
        };
        let asked = lookups.ask(host, self.now, id, &self.key);
        if let Err(outcome) = asked {
            self.counts.count(Metric::Redis(outcome));
        }
        asked.is_ok()
    }

    fn act_on(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log),
        answers: Vec<LookupAnswer>,
    ) -> Vec<Action> {
        let actions = answers.into_iter().filter_map(|answer| {
            let LookupAnswer { flight, record, at } = answer;
            // A lookup that was given up meanwhile is not repeated.
            let asked = self.flights.get(flight)?;
            let overtaken = self.flights.overtaken(flight);
            let current = record.and_then(|record| {
                if overtaken.is_ahead_of(record.rev) {
                    Err(RedisOutcome::Older)
                } else {
                    Ok(record)
                }
            });
            match current.and_then(|record| self.insert_from_redis(host, &asked, record, at)) {
                Ok(bytes) => self.complete_from_redis(flight, bytes),
                Err(outcome) => {
                    self.counts.count(Metric::Redis(outcome));
                    self.flights.restart(flight, self.now);
                    self.ask_control_plane(host, flight, &asked.key)
                }
            }
        });
        let actions: Vec<_> = actions.collect();
        self.admit_actions(actions)
    }

    /// Inserts a record from Redis, and counts it. A record older than the cached one is refused: the control plane decides.
    fn insert_from_redis(
        &mut self,
        data: &mut impl SharedData,
        asked: &PendingLookup,
        record: RecordBytes<Vec<u8>>,
        at: Moment,
    ) -> Result<Vec<u8>, RedisOutcome> {
        let fetched = Fetched {
            record: record.as_deref(),
            at: asked.started.min(at),
            source: Source::Redis,
        };
        let inserted = self.caches.insert_fetched(data, asked, fetched, self.now);
        if inserted == Inserted::Older {
            return Err(RedisOutcome::Older);
        }
        self.counts.count(Metric::Redis(match record.kind {
            RecordKind::Link => RedisOutcome::Ok,
            RecordKind::Absent => RedisOutcome::Absent,
        }));
        Ok(record.bytes)
    }

    fn complete_from_redis(&mut self, flight: FlightId, bytes: Vec<u8>) -> Option<Action> {
        let Completed { asked, waiters, .. } = self.flights.complete(flight)?;
        Some(Action::Resume(Resumed {
            waiters,
            key: asked.key,
            tier: Tier::Redis,
            record: Some(bytes),
            visits: Uses::default(),
        }))
    }

    pub(super) fn ask_control_plane(
        &mut self,
        data: &mut impl SharedData,
        flight: FlightId,
        key: &[u8],
    ) -> Option<Action> {
        let pause = self.settings.retry_after_millis;
        if self.breaker.permits(self.now.millis(), pause) {
            let callout = LookupCallout::new(flight, key);
            return Some(Action::Send(Callout::Lookup(callout)));
        }
        self.count_callout(CalloutOutcome::Rejected);
        let completed = self.flights.complete(flight)?;
        Some(Action::Resume(self.fall_back(data, completed)))
    }

    /// A callback has come, at `now`.
    pub(super) fn at(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }
}
