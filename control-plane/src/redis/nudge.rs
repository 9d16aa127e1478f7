//! Telling the replica that publishes that there is something to publish.

use super::connect::NUDGES;
use super::{Redis, RedisError, measured};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Nudges as they come in.
pub struct Nudges(Receiver<fred::types::Message>);

impl Redis {
    /// Nudges whoever publishes.
    ///
    /// # Errors
    /// Where Redis does not answer; who publishes looks by itself before long.
    pub async fn nudge(&self) -> Result<(), RedisError> {
        let client = self.commands.with_options(&self.in_background());
        measured("nudge", client.publish::<(), _, _>(NUDGES, "")).await
    }

    /// The nudges of all replicas from now on.
    #[must_use]
    pub fn nudges(&self) -> Nudges {
        Nudges(self.subscriber.message_rx())
    }
}

impl Nudges {
    /// Waits for a nudge. One that was missed counts as one.
    pub async fn next(&mut self) {
        if let Err(RecvError::Closed) = self.0.recv().await {
            std::future::pending::<()>().await;
        }
    }
}
