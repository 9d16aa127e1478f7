//! Numbers out of segments that are drawn from the store.

use super::{IssueError, NumberSource};
use crate::store::{Segment, Store};
use async_trait::async_trait;
use std::sync::Arc;
use tokio::sync::Mutex;

/// How many issuers there are; the place of the issuer in a number.
const ISSUERS: u64 = 1000;

/// How segments are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// How many numbers one segment has. Default 1,000.
    pub step: u32,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { step: 1000 }
    }
}

/// Issues `number = sequence * 1000 + issuer` from segments of sequences.
pub struct SegmentIssuer {
    store: Arc<dyn Store>,
    options: SegmentOptions,
    state: Mutex<State>,
}

enum State {
    Open(Option<Segment>),
    Closed,
}

impl SegmentIssuer {
    /// An issuer that draws its first segment when it is first asked for a number.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, options: SegmentOptions) -> Arc<Self> {
        Arc::new(Self {
            store,
            options,
            state: Mutex::new(State::Open(None)),
        })
    }

    async fn draw(&self) -> Result<Segment, IssueError> {
        Ok(self.store.draw_segment(0, self.options.step).await?)
    }
}

#[async_trait]
impl NumberSource for SegmentIssuer {
    async fn next_number(&self) -> Result<u64, IssueError> {
        let mut state = self.state.lock().await;
        let State::Open(current) = &mut *state else {
            return Err(IssueError::Closed);
        };
        let mut segment = match current.filter(|segment| segment.start < segment.end) {
            Some(segment) => segment,
            None => self.draw().await?,
        };
        let number = segment.start * ISSUERS + u64::from(segment.issuer);
        segment.start += 1;
        *current = Some(segment);
        Ok(number)
    }

    async fn shutdown(&self) {
        let mut state = self.state.lock().await;
        let State::Open(Some(rest)) = std::mem::replace(&mut *state, State::Closed) else {
            return;
        };
        if rest.start == rest.end {
            return;
        }
        if let Err(error) = self.store.return_segment(rest).await {
            tracing::warn!(%error, "the unused numbers of the current segment are lost");
        }
    }
}
