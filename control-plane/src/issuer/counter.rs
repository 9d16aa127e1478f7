//! Plain sequential numbers: one counter in the store for all instances.

use super::ranges::{RangeIssuer, RangeSource};
use super::{IssueError, NumberSource};
use crate::store::Store;
use async_trait::async_trait;
use std::ops::Range;
use std::sync::Arc;

/// The name of the counter in the store.
const COUNTER: &str = "numbers";

/// How often a draw is tried when others draw at the same time.
const MAX_TRIES: usize = 32;

/// Starts to issue the numbers 0, 1, 2, ... in ranges of `step`; the first is drawn when the first number is asked for.
#[must_use]
pub fn counter(store: Arc<Store>, step: u32) -> Arc<dyn NumberSource> {
    Arc::new(RangeIssuer::new("counter", Counter { store, step }))
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

    async fn draw(&self) -> Result<Range<u64>, IssueError> {
        for _ in 0..MAX_TRIES {
            let start = self.store.counter(COUNTER).await?;
            let end = start + u64::from(self.step);
            if self.store.swap_counter(COUNTER, start, end).await? {
                return Ok(start..end);
            }
        }
        Err(IssueError::Source {
            name: "counter",
            reason: format!("others were faster {MAX_TRIES} times"),
            transient: true,
        })
    }

    async fn give_back(&self, rest: Range<u64>) -> Result<bool, IssueError> {
        Ok(self
            .store
            .swap_counter(COUNTER, rest.end, rest.start)
            .await?)
    }
}
