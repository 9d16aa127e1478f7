//! Named numbers, measured.

use super::{MeasuredStore, measured};
use crate::store::{Counters, StoreError};
use async_trait::async_trait;

#[async_trait]
impl Counters for MeasuredStore {
    async fn counter(&self, name: &str) -> Result<u64, StoreError> {
        measured("counter", self.0.counter(name)).await
    }

    async fn swap_counter(&self, name: &str, expected: u64, new: u64) -> Result<bool, StoreError> {
        measured("swap_counter", self.0.swap_counter(name, expected, new)).await
    }
}
