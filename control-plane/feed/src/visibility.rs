//! Waits until edges have applied a change.
//!
//! An edge answers 404 for an alias until the feed has carried it, and from the old record until the feed has carried a
//! change. The response to a creation or change therefore waits for the feed.

use super::Feed;
use edgelink_settings::config::FeedConfig;
use edgelink_wire::FeedPosition;
use http::Response;
use std::collections::HashMap;
use std::fmt::Display;
use tokio::time::{Instant, sleep, timeout_at};

/// Changes that the feed has to carry before a response is sent. They travel with the response, so that the wait begins
/// after the handler has released its permits.
#[derive(Clone, Debug, Default)]
pub struct AwaitedChanges {
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
            from,
            revs: revs.collect(),
        }
    }

    fn note(&mut self, key: &str, rev: u64) {
        if self.revs.get(key).is_some_and(|wanted| rev >= *wanted) {
            self.revs.remove(key);
        }
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
            awaited: AwaitedChanges::default(),
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
    /// Waits until the feed has carried the `awaited` changes and edges have had time to apply them, or until the wait
    /// takes too long: the links are changed in any case. Does not wait for a feed that is not current, unless this
    /// process has just been started.
    pub async fn wait_until_published(&self, awaited: AwaitedChanges, config: &FeedConfig) {
        if awaited.revs.is_empty() {
            return;
        }
        let is_logged = tracing::enabled!(tracing::Level::DEBUG);
        let keys: Vec<String> = awaited.revs.keys().filter(|_| is_logged).cloned().collect();
        let wait = self.await_changes(awaited, config).await;
        for key in keys {
            tracing::debug!(%key, wait = %wait.as_str(), "a change is acknowledged");
        }
        if wait == Wait::Carried {
            sleep(config.alias_settle_ms).await;
        }
    }

    async fn await_changes(&self, mut awaited: AwaitedChanges, config: &FeedConfig) -> Wait {
        if !self.is_current() && !self.is_starting() {
            return Wait::NotCurrent;
        }
        let end = Instant::now() + config.alias_wait_ms;
        while !awaited.revs.is_empty() {
            let wait = end.saturating_duration_since(Instant::now());
            let Ok(batch) = timeout_at(end, self.read(awaited.from, wait)).await else {
                return Wait::Late;
            };
            if batch.gap {
                // Edges ask for everything again after a gap, which takes as long as applying a change.
                break;
            }
            if batch.is_empty() {
                // Too late, or stopping.
                return Wait::Late;
            }
            awaited.from = batch.next;
            for (key, rev) in &batch.messages.changed {
                awaited.note(key, *rev);
            }
        }
        Wait::Carried
    }
}

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The feed has carried the changes.
    Carried,
    /// The feed has not carried them in time.
    Late,
    /// It is not current.
    NotCurrent,
}

impl Wait {
    /// Its name in the log.
    fn as_str(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Late => "late",
            Self::NotCurrent => "not-current",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::Record;
    use edgelink_wire::feed::{Beat, FeedMessage};
    use edgelink_wire::record::RecordBytes;
    use std::time::Duration;

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

    #[tokio::test(start_paused = true)]
    async fn wait_when_last_key_is_published_ends_after_settling() {
        let feed = feed();
        let config = FeedConfig::default();
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
            feed.push(
                FeedPosition::new(9, 0),
                &FeedMessage::Del { key: two, rev: 9 },
            );
        };
        tokio::join!(
            feed.wait_until_published(awaited(feed.end()), &config),
            publishing
        );
        assert_eq!(
            start.elapsed(),
            Duration::from_millis(20) + config.alias_settle_ms
        );
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
        assert_eq!(wait.await, Wait::Carried);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_key_is_never_published_ends_in_time() {
        let feed = feed();
        let config = FeedConfig::default();
        let start = Instant::now();
        feed.push(FeedPosition::new(2, 0), &put("a.example/one", 7, false));
        feed.wait_until_published(awaited(FeedPosition::START), &config)
            .await;
        assert_eq!(start.elapsed(), config.alias_wait_ms);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_feed_is_not_current_ends_at_once() {
        let config = FeedConfig::default();
        for feed in [Feed::new(&FeedConfig::default(), Vec::new()), feed()] {
            sleep(Duration::from_secs(5)).await;
            let start = Instant::now();
            feed.wait_until_published(awaited(feed.end()), &config)
                .await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    }
}
