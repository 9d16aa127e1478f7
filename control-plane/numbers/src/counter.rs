//! Plain sequential numbers: one counter in the store for all instances.

use super::ranges::{BACKOFF, MAX_WAIT, NumberRange, RangeIssuer, RangeSource};
use super::source::{IssueError, NumberSource};
use async_trait::async_trait;
use edgelink_store::Store;
use std::sync::Arc;

/// The source's name in the configuration.
const NAME: &str = "counter";

/// The name of the counter in the store.
const COUNTER: &str = "numbers";

/// The most attempts of a draw when others draw at the same time.
const MAX_TRIES: usize = 32;

/// Starts to issue the numbers 0, 1, 2, ... in ranges of `step`; the first is drawn when the first number is asked for.
#[must_use]
pub fn counter(store: Arc<Store>, step: u32) -> Arc<dyn NumberSource> {
    RangeIssuer::start(NAME, Counter { store, step }, MAX_WAIT, BACKOFF)
}

struct Counter {
    store: Arc<Store>,
    step: u32,
}

#[async_trait]
impl RangeSource for Counter {
    fn skipped_in(&self) -> u64 {
        self.store.skipped_in()
    }

    async fn draw(&self) -> Result<NumberRange, IssueError> {
        for _ in 0..MAX_TRIES {
            let start = self.store.counter(COUNTER).await?;
            let end = start + u64::from(self.step);
            if self.store.swap_counter(COUNTER, start, end).await? {
                return Ok(NumberRange::consecutive(start, end));
            }
        }
        let reason = format!("others were faster {MAX_TRIES} times");
        Err(IssueError::transient(NAME, reason))
    }

    async fn give_back(&self, rest: NumberRange) -> Result<bool, IssueError> {
        let back = self.store.swap_counter(COUNTER, rest.end, rest.start);
        Ok(back.await?)
    }
}
