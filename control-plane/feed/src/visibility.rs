//! Waits until edges have applied a change.
//!
//! An edge answers 404 for an alias until the feed has brought it, and from the old record until the feed has brought a
//! change. The response to a creation or change therefore waits until the feed has carried it, and until every worker that polls
//! has acknowledged it, or has lost its lease.

use super::Feed;
use crate::pollers::Acknowledged;
use crate::waiters::Registered;
use edgelink_settings::config::FeedConfig;
use edgelink_settings::telemetry::prometheus::CHANGE_VISIBLE_SECONDS;
use edgelink_wire::{FeedPoint, FeedPosition};
use http::Response;
use metrics::histogram;
use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Further wait for workers that cannot acknowledge, in which they usually apply a change.
const UNNAMED_PAUSE: Duration = Duration::from_millis(25);

/// Changes that the feed has to carry before a response is sent. They travel with the response, so that the wait begins
/// after the handler has released its permits.
#[derive(Clone, Debug)]
pub struct AwaitedChanges {
    committed_at: Instant,
    /// The end of the feed before the links were changed.
    from: FeedPosition,
    /// The keys of links and domains, and their new revisions.
    revs: HashMap<String, u64>,
}

impl AwaitedChanges {
    /// Links, or domains, that were changed after the feed ended at `from`, with their new revisions.
    pub(crate) fn new<K: Display>(
        from: FeedPosition,
        links: impl IntoIterator<Item = (K, u64)>,
    ) -> Self {
        let revs = links.into_iter().map(|(key, rev)| (key.to_string(), rev));
        Self {
            committed_at: Instant::now(),
            from,
            revs: revs.collect(),
        }
    }

    /// True if there is something to wait for.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.revs.is_empty()
    }

    /// Notes a carried revision; returns true if it was awaited.
    fn note(&mut self, key: &str, rev: u64) -> bool {
        let is_awaited = self.revs.get(key).is_some_and(|wanted| rev >= *wanted);
        is_awaited && self.revs.remove(key).is_some()
    }
}

/// The outcome of a change, and the part that edges have yet to apply.
#[derive(Debug)]
#[must_use]
pub struct Changed<T> {
    /// Outcome of the change.
    pub value: T,
    /// Changes that edges have yet to apply; empty if nothing was changed.
    pub awaited: AwaitedChanges,
}

impl<T> Changed<T> {
    /// The outcome of a change that was made after the feed ended at `from`: keys and new revisions.
    pub fn since<K: Display>(
        from: FeedPosition,
        changed: impl IntoIterator<Item = (K, u64)>,
        value: T,
    ) -> Self {
        Self {
            value,
            awaited: AwaitedChanges::new(from, changed),
        }
    }

    /// The outcome of a request that has changed nothing.
    pub fn nothing(value: T) -> Self {
        Self {
            value,
            awaited: AwaitedChanges::new::<&str>(FeedPosition::START, []),
        }
    }

    /// Maps the outcome.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Changed<U> {
        Changed {
            value: of(self.value),
            awaited: self.awaited,
        }
    }

    /// Returns the response that `view` makes of the outcome. It carries what was changed, so that it is sent once the feed has carried
    /// that, after the handler has released its permits.
    pub fn answer<B>(self, view: impl FnOnce(T) -> Response<B>) -> Response<B> {
        let mut response = view(self.value);
        response.extensions_mut().insert(self.awaited);
        response
    }
}

impl Feed {
    /// Waits until every worker that polls has acknowledged the `awaited` changes, or has lost its lease; at most for
    /// `feed.alias_wait_ms`, because the links are changed in any case. Does not wait for a feed that is not current, unless this
    /// process has just been started.
    pub async fn wait_until_visible(&self, awaited: AwaitedChanges, config: &FeedConfig) {
        if !awaited.is_any() {
            return;
        }
        let committed_at = awaited.committed_at;
        let is_logged = tracing::enabled!(tracing::Level::DEBUG);
        let keys: Vec<String> = awaited.revs.keys().filter(|_| is_logged).cloned().collect();
        let outcome = self.await_changes(awaited, config).await.as_str();
        histogram!(CHANGE_VISIBLE_SECONDS, "outcome" => outcome).record(committed_at.elapsed());
        for key in keys {
            tracing::debug!(%key, outcome, "the wait for a change has ended");
        }
    }

    async fn await_changes(&self, awaited: AwaitedChanges, config: &FeedConfig) -> Wait {
        if !self.is_current() && !self.is_starting() {
            return Wait::NotCurrent;
        }
        let wait = async {
            let place = self.carried(awaited).await;
            let outcome = self.pollers.acknowledged(place).await;
            if self.pollers.has_unnamed() {
                sleep(UNNAMED_PAUSE).await;
            }
            match outcome {
                Acknowledged::ByAll => Wait::Acknowledged,
                Acknowledged::ByRest => Wait::Expired,
            }
        };
        let end = Instant::now() + config.alias_wait_ms;
        tokio::select! {
            () = self.released() => Wait::Late,
            wait = timeout_at(end, wait) => wait.unwrap_or(Wait::Late),
        }
    }

    /// Waits until this process has let its workers go, and there is no other one to which they could acknowledge.
    async fn released(&self) {
        self.stop.cancelled().await;
        if self.pollers.has_replicas() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the feed has carried the `awaited` changes; returns the place of the last one.
    async fn carried(&self, mut awaited: AwaitedChanges) -> FeedPoint {
        let mut wait = {
            let mut ring = self.ring();
            let place = ring.place();
            let Some(changed) = ring.changed_after(awaited.from) else {
                // Edges ask for everything again after a gap.
                return place;
            };
            let mut last = None;
            for (position, key, rev) in changed {
                if awaited.note(key, rev) {
                    last = Some((place.0, position));
                }
            }
            if let Some(last) = last.filter(|_| !awaited.is_any()) {
                return last;
            }
            CarriedWait {
                feed: self,
                registered: ring.waiters.register(&awaited.revs),
            }
        };
        match (&mut wait.registered.carried).await {
            Ok(place) => place,
            // The sender is dropped after it has sent.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A registered wait; dropping it removes it.
struct CarriedWait<'a> {
    feed: &'a Feed,
    registered: Registered,
}

impl Drop for CarriedWait<'_> {
    fn drop(&mut self) {
        self.feed.ring().waiters.remove(&self.registered);
    }
}

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// All workers have applied the changes.
    Acknowledged,
    /// The others have lost their leases.
    Expired,
    /// Not all have applied them in time.
    Late,
    /// The feed is not current.
    NotCurrent,
}

impl Wait {
    /// Its name in the log, and in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Expired => "expired",
            Self::Late => "late",
            Self::NotCurrent => "not_current",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChangeBatch;
    use edgelink_wire::Record;
    use edgelink_wire::clicks::WorkerId;
    use edgelink_wire::feed::{Beat, FeedMessage};
    use edgelink_wire::record::RecordBytes;

    /// A feed that is current, with its end.
    fn feed() -> Feed {
        let feed = Feed::new(&FeedConfig::default(), Vec::new());
        feed.clock().note(Instant::now(), 1_000_000);
        feed.reset(1, FeedPosition::START);
        feed.push(
            FeedPosition::new(1, 0),
            &FeedMessage::Beat(Beat {
                generation: 1,
                at: 1_000_000,
                ..Beat::default()
            }),
        );
        feed
    }

    fn put(key: &str, rev: u64, hot: bool) -> FeedMessage<'_> {
        let record = Record::Absent { rev };
        FeedMessage::Put {
            key,
            record: RecordBytes::new(&record, record.to_bytes().leak()),
            hot,
        }
    }

    fn awaited(from: FeedPosition) -> AwaitedChanges {
        let links = [("a.example/one", 7), ("a.example/two", 8)];
        AwaitedChanges::new(from, links)
    }

    const WORKER: WorkerId = [1; 16];

    /// A worker that is a poll behind.
    async fn polled(feed: &Feed, after: FeedPosition) -> ChangeBatch {
        let poll = feed.poll(Some(WORKER), Some((1, after)), Duration::ZERO);
        poll.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_last_key_is_acknowledged_ends() {
        let feed = feed();
        let config = FeedConfig::default();
        let position = polled(&feed, FeedPosition::START).await.next;
        let start = Instant::now();
        let publishing = async {
            sleep(Duration::from_millis(10)).await;
            let (one, two) = ("a.example/one", "a.example/two");
            let messages = [
                put(one, 7, false),
                put("a.example/other", 9, false),
                // An older revision, and a hot link.
                put(two, 7, false),
                put(two, 8, true),
            ];
            for (millis, message) in (2..).zip(&messages) {
                feed.push(FeedPosition::new(millis, 0), message);
            }
            sleep(Duration::from_millis(10)).await;
            let before = polled(&feed, position).await.next;
            feed.push(
                FeedPosition::new(9, 0),
                &FeedMessage::Del { key: two, rev: 9 },
            );
            sleep(Duration::from_millis(10)).await;
            let last = polled(&feed, before).await.next;
            sleep(Duration::from_millis(10)).await;
            polled(&feed, last).await;
        };
        tokio::join!(
            feed.wait_until_visible(awaited(feed.end()), &config),
            publishing
        );
        assert_eq!(start.elapsed(), Duration::from_millis(40));
        assert_eq!(feed.ring().waiters.keys(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_keys_were_carried_before_ends() {
        let feed = feed();
        let from = feed.end();
        for (millis, key, rev) in [(2, "a.example/two", 8), (3, "a.example/one", 7)] {
            feed.push(FeedPosition::new(millis, 0), &put(key, rev, false));
        }
        feed.push(FeedPosition::new(4, 0), &put("a.example/other", 9, false));
        let place = feed.carried(awaited(from)).await;
        assert_eq!(place, (1, FeedPosition::new(3, 0)));
        let config = FeedConfig::default();
        let wait = feed.await_changes(awaited(from), &config);
        assert_eq!(wait.await, Wait::Acknowledged);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_changes_are_missing_ends_with_the_gap() {
        let feed = feed();
        let gone = FeedPosition::new(9_999, 0);
        assert_eq!(feed.carried(awaited(gone)).await, (1, feed.end()));
        let reset = async {
            sleep(Duration::from_millis(10)).await;
            feed.reset(2, FeedPosition::new(5, 0));
        };
        let (place, ()) = tokio::join!(feed.carried(awaited(feed.end())), reset);
        assert_eq!(place, (2, FeedPosition::new(5, 0)));
        assert_eq!(feed.ring().waiters.keys(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_a_worker_cannot_acknowledge_lasts_a_moment_longer() {
        let feed = feed();
        let after = Some((1, feed.end()));
        feed.poll(None, after, Duration::ZERO).await.unwrap();
        let start = Instant::now();
        let config = FeedConfig::default();
        let wait = feed.await_changes(awaited(FeedPosition::new(9_999, 0)), &config);
        assert_eq!(wait.await, Wait::Acknowledged);
        assert_eq!(start.elapsed(), UNNAMED_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_a_message_is_unreadable_ends_for_its_key() {
        let feed = feed();
        let fields = [("op", "put"), ("key", "a.example/one"), ("record", "\x63")];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let key = "a.example/two";
        let messages = [
            FeedMessage::from_fields(fields).unwrap(),
            FeedMessage::Changed { key },
        ];
        for (millis, message) in (2..).zip(&messages) {
            feed.push(FeedPosition::new(millis, 0), message);
        }
        let config = FeedConfig::default();
        let wait = feed.await_changes(awaited(FeedPosition::START), &config);
        assert_eq!(wait.await, Wait::Acknowledged);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_key_is_never_published_ends_in_time() {
        let feed = feed();
        let config = FeedConfig {
            alias_wait_ms: Duration::from_millis(500),
            ..FeedConfig::default()
        };
        let start = Instant::now();
        feed.push(FeedPosition::new(2, 0), &put("a.example/one", 7, false));
        let wait = feed.await_changes(awaited(FeedPosition::new(1, 0)), &config);
        assert_eq!(wait.await, Wait::Late);
        assert_eq!(start.elapsed(), config.alias_wait_ms);
        assert_eq!(feed.ring().waiters.keys(), 0, "nothing waits any longer");
        feed.shutdown();
        feed.wait_until_visible(awaited(feed.end()), &config).await;
        assert_eq!(start.elapsed(), config.alias_wait_ms);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_feed_is_not_current_ends_at_once() {
        let config = FeedConfig::default();
        for feed in [Feed::new(&FeedConfig::default(), Vec::new()), feed()] {
            sleep(Duration::from_secs(5)).await;
            let start = Instant::now();
            feed.wait_until_visible(awaited(feed.end()), &config).await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    }
}
