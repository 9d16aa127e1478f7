//! Named numbers that only move by compare-and-set.

use super::StoreError;
use async_trait::async_trait;

/// Named numbers. One that was never set is 0.
#[async_trait]
pub trait Counters {
    /// The number of that name.
    async fn counter(&self, name: &str) -> Result<u64, StoreError>;

    /// Sets the number of that name to `new` where it is `expected`; `false` where it is not. After an error the outcome is
    /// unknown, as of every call. An error as well if the database went back, and was not repaired yet.
    async fn swap_counter(&self, name: &str, expected: u64, new: u64) -> Result<bool, StoreError>;
}
