//! Who publishes, as far as this process knows: for people, and for metrics.

use crate::telemetry::prometheus::{PUBLISHER_LEADER, PUBLISHER_STATE};
use metrics::gauge;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Who publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Publisher {
    /// It is not known yet.
    #[default]
    Unknown,
    /// This process.
    This,
    /// Another process that shares the feed with this one.
    Another,
    /// Another process whose feed does not reach this one: the database answers everything here.
    Elsewhere,
    /// This process tried and failed; it gives others the time to.
    GaveUp,
}

const ALL: [Publisher; 5] = [
    Publisher::Unknown,
    Publisher::This,
    Publisher::Another,
    Publisher::Elsewhere,
    Publisher::GaveUp,
];

impl Publisher {
    /// The name in metrics and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::This => "this",
            Self::Another => "another",
            Self::Elsewhere => "elsewhere",
            Self::GaveUp => "gave up",
        }
    }
}

/// Who publishes, shared with others.
#[derive(Clone, Debug, Default)]
pub struct PublisherStatus(Arc<AtomicU8>);

impl PublisherStatus {
    /// Who publishes.
    #[must_use]
    pub fn get(&self) -> Publisher {
        let index = usize::from(self.0.load(Ordering::Relaxed));
        ALL.get(index).copied().unwrap_or_default()
    }

    /// Notes who publishes, and says what was known before.
    pub(super) fn set(&self, publisher: Publisher) -> Publisher {
        let before = self.get();
        let index = ALL.iter().position(|one| *one == publisher).unwrap_or(0);
        self.0
            .store(u8::try_from(index).unwrap_or(0), Ordering::Relaxed);
        for one in ALL {
            let value = if one == publisher { 1.0 } else { 0.0 };
            gauge!(PUBLISHER_STATE, "publisher" => one.as_str()).set(value);
        }
        let is_this = publisher == Publisher::This;
        gauge!(PUBLISHER_LEADER).set(if is_this { 1.0 } else { 0.0 });
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_told() {
        let status = PublisherStatus::default();
        assert_eq!(status.get(), Publisher::Unknown);
        for one in ALL {
            let before = status.get();
            assert_eq!(status.clone().set(one), before);
            assert_eq!(status.get(), one);
        }
    }
}
