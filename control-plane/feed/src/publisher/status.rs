//! Status of publishing, as far as this process knows: for people and for metrics.

use edgelink_settings::telemetry::prometheus::{PUBLISHER_LEADER, PUBLISHER_STATE};
use metrics::gauge;
use tokio::sync::watch;

/// The publishing process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublishedBy {
    /// Unknown yet.
    #[default]
    Unknown,
    /// This process.
    This,
    /// Another process that shares the feed with this one.
    Another,
    /// Another process whose feed does not reach this one, which then serves from the database.
    Elsewhere,
    /// This process has failed to, and leaves it to others for a while.
    GaveUp,
}

const ALL: [PublishedBy; 5] = [
    PublishedBy::Unknown,
    PublishedBy::This,
    PublishedBy::Another,
    PublishedBy::Elsewhere,
    PublishedBy::GaveUp,
];

impl PublishedBy {
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

/// The publishing process, shared between the publisher and those that report it.
#[derive(Clone, Debug, Default)]
pub struct PublisherStatus(watch::Sender<PublishedBy>);

impl PublisherStatus {
    /// The publishing process.
    #[must_use]
    pub fn get(&self) -> PublishedBy {
        *self.0.borrow()
    }

    /// Sets the publishing process, and returns the previous one.
    pub(super) fn set(&self, publisher: PublishedBy) -> PublishedBy {
        for one in ALL {
            gauge!(PUBLISHER_STATE, "publisher" => one.as_str()).set(f64::from(one == publisher));
        }
        gauge!(PUBLISHER_LEADER).set(f64::from(publisher == PublishedBy::This));
        self.0.send_replace(publisher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_when_set_is_reported() {
        let status = PublisherStatus::default();
        assert_eq!(status.get(), PublishedBy::Unknown);
        for one in ALL {
            let before = status.get();
            assert_eq!(status.clone().set(one), before);
            assert_eq!(status.get(), one);
        }
    }
}
