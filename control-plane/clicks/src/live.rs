//! The live stream: clicks for listeners, as they are reported.
//!
//! Committed reports are published on a Redis channel, which a replica follows while it has listeners; without Redis they stay in
//! this process. Nothing is stored: clicks before the subscription are missed.

mod listener;
mod reader;

pub use listener::{ListenerFilter, LiveEvent, Subscription};

use crate::analytics::Click;
use bytes::Bytes;
use edgelink_redis::{Redis, RedisError};
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::telemetry::prometheus::LIVE_LISTENERS;
use listener::ClickListener;
use metrics::gauge;
pub use reader::LiveReader;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The most listeners of a process.
pub const MAX_LISTENERS: usize = 100;

/// Most reports that wait to be decoded; further ones are lost.
const MAX_REPORTS: usize = 64;

/// Most reports that wait to be sent to Redis; further ones are lost.
const MAX_PUBLISHED: usize = 64;

/// Pause before a retry of the subscription.
const PAUSE: Duration = Duration::from_millis(250);

/// Interval of checking for listeners of any replica, and of announcing one's own.
const ASKING: Duration = Duration::from_secs(1);
const SAYING: Duration = Duration::from_secs(3);

/// Longest wait of a new listener for the subscription; after it, reports may be missed.
const PATIENCE: Duration = Duration::from_secs(3);

/// The listeners of this process, and the delivery of reports to them.
pub struct Live {
    redis: Option<Arc<Redis>>,
    listeners: Mutex<HashMap<u64, Arc<ClickListener>>>,
    /// Notified when listeners come or go.
    changed: Notify,
    /// True while reports of all replicas arrive here.
    is_following: watch::Sender<bool>,
    /// Reports of this process, for Redis or directly for the listeners.
    reports: mpsc::Sender<Bytes>,
    waiting: Mutex<Option<mpsc::Receiver<Bytes>>>,
    stop: CancellationToken,
}

/// The error of a listener beyond [`MAX_LISTENERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are too many listeners")]
pub struct TooManyListeners;

impl Live {
    /// Creates the stream of this process, or of all that share a Redis.
    pub fn new(redis: Option<Arc<Redis>>) -> Arc<Self> {
        let (reports, waiting) = mpsc::channel(match redis {
            Some(_) => MAX_PUBLISHED,
            None => MAX_REPORTS,
        });
        Arc::new(Self {
            redis,
            listeners: Mutex::default(),
            changed: Notify::new(),
            is_following: watch::Sender::new(false),
            reports,
            waiting: Mutex::new(Some(waiting)),
            stop: CancellationToken::new(),
        })
    }

    /// Publishes a committed report, without waiting.
    pub fn publish(&self, report: &Bytes) {
        if self.redis.is_none() && self.listeners().is_empty() {
            return;
        }
        if self.reports.try_send(report.clone()).is_err() {
            self.note_gap();
        }
    }

    /// Adds a listener, and waits until reports of other replicas arrive for it.
    pub async fn listen(
        self: &Arc<Self>,
        filter: ListenerFilter,
    ) -> Result<Subscription, TooManyListeners> {
        let subscription = self.add(filter)?;
        let mut is_following = self.is_following.subscribe();
        let _ = tokio::time::timeout(PATIENCE, is_following.wait_for(|is| *is)).await;
        Ok(subscription)
    }

    fn add(self: &Arc<Self>, filter: ListenerFilter) -> Result<Subscription, TooManyListeners> {
        let mut listeners = self.listeners();
        if listeners.len() >= MAX_LISTENERS {
            return Err(TooManyListeners);
        }
        let number = (0..).find(|number| !listeners.contains_key(number));
        let number = number.unwrap_or_default();
        let (listener, events) = ClickListener::new(filter);
        listeners.insert(number, listener.clone());
        gauge!(LIVE_LISTENERS).set(listeners.len() as f64);
        self.changed.notify_one();
        let live = self.clone();
        let leave = Box::new(move || live.remove(number));
        let stop = self.stop.clone();
        Ok(Subscription::new(stop, leave, listener, events))
    }

    fn remove(&self, number: u64) {
        let mut listeners = self.listeners();
        listeners.remove(&number);
        gauge!(LIVE_LISTENERS).set(listeners.len() as f64);
        self.changed.notify_one();
    }

    /// Ends all subscriptions, because the process stops.
    pub fn shutdown(&self) {
        self.stop.cancel();
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<u64, Arc<ClickListener>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers clicks to the listeners that want them. `owners` has the owners of links, if a listener needs them.
    fn deliver(&self, clicks: &[Click], owners: &HashMap<u64, Option<u64>>) {
        let listeners: Vec<Arc<ClickListener>> = self.listeners().values().cloned().collect();
        for click in clicks.iter().filter(|click| click.has_link()) {
            let owner = owners.get(&click.link_id).copied().flatten();
            let mut text = None;
            for listener in &listeners {
                if listener.wants(click, owner) {
                    listener.send(text.get_or_insert_with(|| listener::show(click)));
                }
            }
        }
    }

    /// Publishes reports and delivers them to listeners until the process stops. `reader` decodes them.
    pub async fn run(self: Arc<Self>, reader: LiveReader, stop: CancellationToken) {
        let waiting = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(waiting) = waiting else { return };
        let run = async {
            match &self.redis {
                Some(redis) => tokio::join!(
                    self.publish_all(redis, waiting),
                    self.follow(redis),
                    self.read_published(redis, &reader),
                ),
                None => {
                    self.is_following.send_replace(true);
                    ((), (), self.read_own(waiting, &reader).await)
                }
            }
        };
        stop.run_until_cancelled(Box::pin(run)).await;
    }

    /// Publishes the reports of this process, one after another, while a replica has listeners.
    async fn publish_all(&self, redis: &Redis, mut waiting: mpsc::Receiver<Bytes>) {
        let mut asked: Option<Instant> = None;
        let mut is_heard = false;
        while let Some(report) = waiting.recv().await {
            if asked.is_none_or(|asked| asked.elapsed() >= ASKING) {
                asked = Some(Instant::now());
                // Assumed if unknown.
                is_heard = redis.has_listeners().await.unwrap_or(true);
            }
            if !is_heard && self.listeners().is_empty() {
                continue;
            }
            if let Err(error) = redis.publish_report(report).await {
                tracing::debug!(%error, "publishing a click report failed; listeners miss it");
                self.note_gap();
            }
        }
    }

    /// Announces listeners to all replicas. Replicas that cannot check publish as if there were some.
    async fn note_listeners(redis: &Redis) {
        if let Err(error) = redis.note_listeners().await {
            tracing::debug!(%error, "announcing live listeners to other replicas failed; retrying");
        }
    }

    /// Starts or stops following the channel. A new listener counts once all replicas can know of it.
    async fn follow_reports(&self, redis: &Redis, wanted: bool) -> Result<(), RedisError> {
        redis.follow_reports(wanted).await?;
        if wanted {
            Self::note_listeners(redis).await;
            tokio::time::sleep(ASKING + PAUSE).await;
        }
        self.is_following.send_replace(wanted);
        Ok(())
    }

    /// Follows the channel while there are listeners, and announces them.
    async fn follow(&self, redis: &Redis) {
        loop {
            let is_following = *self.is_following.borrow();
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(SAYING), if is_following => {
                    Self::note_listeners(redis).await;
                }
            }
            loop {
                let wanted = !self.listeners().is_empty();
                if wanted == *self.is_following.borrow() {
                    break;
                }
                match self.follow_reports(redis, wanted).await {
                    Ok(()) => {}
                    Err(error) => {
                        static THROTTLE: LogThrottle = LogThrottle::new();
                        if let Some(left_out) = THROTTLE.admit(Instant::now()) {
                            tracing::warn!(%error, left_out, "subscribing to clicks of other replicas failed (Redis channel edgelink:clicks); retrying");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    async fn read_published(&self, redis: &Redis, reader: &LiveReader) {
        let mut reports = redis.reports();
        loop {
            match reports.next().await {
                Ok(report) => self.read(&report, reader).await,
                // Missed messages may include nudges.
                Err(_) => self.note_gap(),
            }
        }
    }

    async fn read_own(&self, mut waiting: mpsc::Receiver<Bytes>, reader: &LiveReader) {
        while let Some(report) = waiting.recv().await {
            self.read(&report, reader).await;
        }
    }

    /// Decodes a report for the listeners.
    async fn read(&self, report: &Bytes, reader: &LiveReader) {
        if self.listeners().is_empty() {
            return;
        }
        match reader.read(report, self.needs_owners()).await {
            Ok(read) => self.deliver(&read.clicks, &read.owners),
            Err(error) => {
                tracing::debug!(%error, "decoding a click report failed; listeners miss it");
                self.note_gap();
            }
        }
    }

    /// True if a listener needs the owners of links.
    fn needs_owners(&self) -> bool {
        self.listeners()
            .values()
            .any(|listener| listener.needs_owner())
    }

    /// Notifies all listeners that an unknown number of clicks may be lost.
    fn note_gap(&self) {
        for listener in self.listeners().values() {
            listener.note_gap();
        }
    }
}

#[cfg(test)]
mod tests;
