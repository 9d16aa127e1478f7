//! Reports of clicks, and what writes them.

use crate::store::fixture::Database;
use edgelink_click_store::ClickReport;
use edgelink_clicks::analytics::{ClickWriter, Engine, LinkResolver, SqlEngine, Turn};
use edgelink_clicks::read_report;
use edgelink_settings::config::{AnalyticsConfig, ClicksConfig};
use edgelink_store::Store;
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::events::{Attributes, Event, EventsBuilder, Kind};
use edgelink_wire::clicks::{BatchEvents, ClickBatch, encode};
use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// Takes reports into the queue of a database, and writes them.
pub(crate) struct Clicking {
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) resolver: Arc<LinkResolver>,
    pub(crate) writer: ClickWriter,
    seq: u64,
}

/// Unix seconds.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970").as_secs()
}

impl Clicking {
    /// With the defaults.
    pub(crate) async fn new(database: &Database) -> Self {
        Self::with(database.store().await, &AnalyticsConfig::default())
    }

    /// With these settings.
    pub(crate) fn with(store: Arc<Store>, settings: &AnalyticsConfig) -> Self {
        let engine = SqlEngine::new(store.clone(), settings.clone());
        Self::over(Arc::new(engine), store, settings)
    }

    /// Takes reports for an engine that has these settings.
    pub(crate) fn over(
        engine: Arc<dyn Engine>,
        store: Arc<Store>,
        settings: &AnalyticsConfig,
    ) -> Self {
        let resolver = Arc::new(LinkResolver::new(store.clone(), settings.max_known_links));
        let clicks = ClicksConfig::default();
        let writer = ClickWriter::new(
            store.clone(),
            engine.clone(),
            resolver.clone(),
            (settings, &clicks),
            Arc::new(Notify::new()),
        );
        Self {
            store,
            engine,
            resolver,
            writer,
            seq: 0,
        }
    }

    /// Goes on with batches after this one.
    pub(crate) fn seq_from(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// Counts clicks of codes on `a.example`, without attributes, and writes them.
    pub(crate) async fn follow(&mut self, clicks: &[(&str, u64)]) {
        self.seq += 1;
        let keys = clicks
            .iter()
            .map(|(code, clicks)| (format!("a.example/{code}"), *clicks));
        let keys: Vec<(String, u64)> = keys.collect();
        let clicks = keys.iter().map(|(key, clicks)| (key.as_str(), *clicks));
        let batch = ClickBatch {
            clicks: clicks.collect(),
            ..batch([1; 16], self.seq)
        };
        self.report(&[batch]).await;
        self.write().await;
    }

    /// Counts so many single clicks of a code on `a.example`, and writes them.
    pub(crate) async fn visit(&mut self, code: &str, clicks: usize) {
        self.seq += 1;
        let key = format!("a.example/{code}");
        let events: Vec<_> = (0..clicks).map(|_| event(&key, now())).collect();
        let events = encoded(&events);
        let batch = ClickBatch {
            events: BatchEvents::of(&events).expect("events"),
            ..batch([1; 16], self.seq)
        };
        self.report(&[batch]).await;
        self.write().await;
    }

    /// Takes batches into the queue; how many were new.
    pub(crate) async fn report(&self, batches: &[ClickBatch<'_>]) -> usize {
        self.take(report(batches, now())).await
    }

    /// Takes a report. Returns the number of its new batches.
    pub(crate) async fn take(&self, report: ClickReport) -> usize {
        let new = self.store.clicks().count_clicks(&[report]).await;
        new.expect("a commit").reports[0].batches
    }

    /// Writes what is in the queue.
    pub(crate) async fn write(&mut self) {
        while self.writer.turn().await.expect("a turn") != Turn::Idle {}
    }

    /// The clicks of a link.
    pub(crate) async fn total(&self, link: u64) -> u64 {
        let totals = self.engine.totals(&[link]).await.expect("totals");
        totals.get(&link).map_or(0, |(clicks, _)| *clicks)
    }
}

/// An empty batch.
pub(crate) fn batch(worker: [u8; 16], seq: u64) -> ClickBatch<'static> {
    ClickBatch {
        worker,
        seq,
        at: now(),
        total: seq * 10,
        dropped: seq,
        ..ClickBatch::default()
    }
}

/// A report that comes in then, unix seconds.
pub(crate) fn report(batches: &[ClickBatch<'_>], at: u64) -> ClickReport {
    read_report(encode(batches).into(), at * 1000, Some(at)).expect("a report")
}

/// A click without attributes.
pub(crate) fn event(key: &str, at: u64) -> Event<&[u8]> {
    Event {
        key: key.as_bytes(),
        at,
        kind: Kind::Redirect(RedirectStatus::Found),
        rule: 0,
        attributes: Attributes::default(),
        visitor: None,
        id: None,
    }
}

/// Events as a batch has them.
pub(crate) fn encoded(events: &[Event<&[u8]>]) -> Vec<u8> {
    let mut builder = EventsBuilder::new(RandomState::new(), usize::MAX);
    for event in events {
        assert!(builder.push(event));
    }
    builder.take().bytes
}
