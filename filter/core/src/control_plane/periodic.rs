//! One callout at a time, and the pauses between them.

use crate::flights::Token;
use edgelink_wire::backoff::{Backoff, Bounds};

/// Milliseconds beyond the timeout after which a background callout is given up even if the proxy has not reported its end.
const GRACE_MILLIS: u64 = 1_000;

/// A periodic callout of one kind. All times are of the steady clock, in milliseconds.
#[derive(Debug)]
pub(crate) struct PeriodicCallout {
    state: CalloutState,
    backoff: Backoff,
    /// Consecutive failures.
    failures: u32,
    timeout_millis: u64,
}

#[derive(Clone, Copy, Debug)]
enum CalloutState {
    Resting {
        until_millis: u64,
    },
    /// Requested; without a token until the proxy has taken it.
    Out {
        token: Option<Token>,
        asked_millis: u64,
    },
}

impl PeriodicCallout {
    /// A callout that is due at once.
    pub(crate) fn new(bounds: Bounds, timeout_millis: u32, seed: u64) -> Self {
        Self {
            state: CalloutState::Resting { until_millis: 0 },
            backoff: Backoff::new(bounds, seed),
            failures: 0,
            timeout_millis: u64::from(timeout_millis),
        }
    }

    /// True if a callout may be requested now.
    pub(crate) fn is_due(&self, now_millis: u64) -> bool {
        matches!(self.state, CalloutState::Resting { until_millis } if now_millis >= until_millis)
    }

    /// A callout is requested.
    pub(crate) fn ask(&mut self, now_millis: u64) {
        self.state = CalloutState::Out {
            token: None,
            asked_millis: now_millis,
        };
    }

    /// True if the proxy has not taken the requested callout yet.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self.state, CalloutState::Out { token: None, .. })
    }

    /// The proxy has taken it.
    pub(crate) fn on_sent(&mut self, taken: Token) {
        if let CalloutState::Out { token, .. } = &mut self.state {
            *token = Some(taken);
        }
    }

    /// The callout in flight has ended without a report from the proxy; the next one is due at once.
    pub(crate) fn lose(&mut self) {
        if let CalloutState::Out { .. } = self.state {
            self.state = CalloutState::Resting { until_millis: 0 };
        }
    }

    /// True if this is the token of the callout in flight.
    pub(crate) fn carries(&self, callout: Token) -> bool {
        matches!(self.state, CalloutState::Out { token, .. } if token == Some(callout))
    }

    /// Time at which the callout in flight was requested.
    pub(crate) fn asked_millis(&self) -> Option<u64> {
        match self.state {
            CalloutState::Out { asked_millis, .. } => Some(asked_millis),
            CalloutState::Resting { .. } => None,
        }
    }

    /// True if the callout in flight should have ended by now.
    pub(crate) fn is_overdue(&self, now_millis: u64) -> bool {
        let limit = self.timeout_millis.saturating_add(GRACE_MILLIS);
        self.asked_millis()
            .is_some_and(|asked_millis| now_millis.saturating_sub(asked_millis) >= limit)
    }

    /// The callout succeeded; the next one is due from `next_millis` on. Returns the number of consecutive failures before it.
    pub(crate) fn succeed(&mut self, next_millis: u64) -> u32 {
        self.backoff.reset();
        self.state = CalloutState::Resting {
            until_millis: next_millis,
        };
        std::mem::take(&mut self.failures)
    }

    /// The callout failed. Returns the number of consecutive failures.
    pub(crate) fn fail(&mut self, now_millis: u64) -> u32 {
        self.rest(now_millis);
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// Makes the next callout due at once.
    pub(crate) fn end_pause(&mut self, now_millis: u64) {
        if let CalloutState::Resting { until_millis } = &mut self.state {
            *until_millis = now_millis;
        }
    }

    /// Pauses, longer each time until a callout succeeds.
    pub(crate) fn rest(&mut self, now_millis: u64) {
        let until_millis = now_millis.saturating_add(self.backoff.next_millis());
        self.state = CalloutState::Resting { until_millis };
    }
}
