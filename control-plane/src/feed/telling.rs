//! Waiting until edges know of an alias.
//!
//! An edge answers 404 for a code that was never issued, and so for an alias until the feed has told of it. So that an
//! alias can be followed as soon as its creation is answered, the answer waits for that.

use super::Feed;
use crate::config::FeedConfig;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::decode_message;
use std::collections::HashSet;
use tokio::time::{Instant, sleep, timeout_at};

impl Feed {
    /// Returns when the feed has told of all `keys` behind `from` and edges have had the time to hear of it, or when
    /// waiting has taken too long: the links are there in any case.
    pub(crate) async fn await_told(
        &self,
        mut from: FeedPosition,
        mut keys: HashSet<String>,
        config: &FeedConfig,
    ) {
        if keys.is_empty() {
            return;
        }
        let end = Instant::now() + config.alias_wait();
        while !keys.is_empty() {
            let wait = end.saturating_duration_since(Instant::now());
            let Ok(batch) = timeout_at(end, self.read(from, wait)).await else {
                return;
            };
            if batch.gap {
                // Edges hear that they have to ask for everything again, which takes as long as hearing of a change.
                break;
            }
            if batch.is_empty() {
                // Too late, or stopping.
                return;
            }
            from = batch.next;
            for message in &batch.messages {
                if let Ok(FeedMessage::Put { key, .. } | FeedMessage::Changed { key }) =
                    decode_message(message)
                {
                    keys.remove(key);
                }
            }
        }
        sleep(config.alias_settle()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::RingLimits;
    use edgelink_wire::Record;
    use std::time::Duration;

    fn put(key: &str) -> FeedMessage<'_> {
        FeedMessage::Put {
            key,
            record: Record::Absent { rev: 1 },
            hot: false,
        }
    }

    fn keys() -> HashSet<String> {
        ["a.example/one", "a.example/two"].map(str::to_owned).into()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_a_moment_after_the_last_key_was_told() {
        let feed = Feed::new(RingLimits::default(), Vec::new());
        let config = FeedConfig::default();
        let start = Instant::now();
        let telling = async {
            sleep(Duration::from_millis(10)).await;
            feed.push(FeedPosition::new(1, 0), &put("a.example/one"));
            feed.push(FeedPosition::new(2, 0), &put("a.example/other"));
            sleep(Duration::from_millis(10)).await;
            feed.push(FeedPosition::new(3, 0), &put("a.example/two"));
        };
        tokio::join!(feed.await_told(feed.end(), keys(), &config), telling);
        assert_eq!(
            start.elapsed(),
            Duration::from_millis(20) + config.alias_settle()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let feed = Feed::new(RingLimits::default(), Vec::new());
        let config = FeedConfig::default();
        let start = Instant::now();
        feed.push(FeedPosition::new(1, 0), &put("a.example/one"));
        feed.await_told(FeedPosition::START, keys(), &config).await;
        assert_eq!(start.elapsed(), config.alias_wait());
    }
}
