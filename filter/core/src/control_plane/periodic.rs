//! One callout at a time, and the pauses between them.

use crate::flights::Token;
use edgelink_wire::backoff::{Backoff, Bounds};

/// Milliseconds beyond the timeout after which a background callout is given up even though the proxy has not said so.
const GRACE_MILLIS: u64 = 1_000;

/// A periodic callout of one kind. All times are of the steady clock, in milliseconds.
#[derive(Debug)]
pub(crate) struct PeriodicCallout {
    state: CalloutState,
    backoff: Backoff,
    /// In a row.
    failures: u32,
    timeout_millis: u64,
}

#[derive(Clone, Copy, Debug)]
enum CalloutState {
    Resting {
        until_millis: u64,
    },
    /// Asked for; without a token before the proxy has taken it.
    Out {
        token: Option<Token>,
        asked_millis: u64,
    },
}

impl PeriodicCallout {
    /// One that is due at once.
    pub(crate) fn new(bounds: Bounds, timeout_millis: u32, seed: u64) -> Self {
        Self {
            state: CalloutState::Resting { until_millis: 0 },
            backoff: Backoff::new(bounds, seed),
            failures: 0,
            timeout_millis: u64::from(timeout_millis),
        }
    }

    /// Whether a background callout may be asked for now.
    pub(crate) fn is_due(&self, now_millis: u64) -> bool {
        matches!(self.state, CalloutState::Resting { until_millis } if now_millis >= until_millis)
    }

    /// A background callout is asked for.
    pub(crate) fn ask(&mut self, now_millis: u64) {
        self.state = CalloutState::Out {
            token: None,
            asked_millis: now_millis,
        };
    }

    /// True if the proxy has not taken the callout yet that was asked for.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self.state, CalloutState::Out { token: None, .. })
    }

    /// The proxy has taken it.
    pub(crate) fn on_sent(&mut self, taken: Token) {
        if let CalloutState::Out { token, .. } = &mut self.state {
            *token = Some(taken);
        }
    }

    /// The callout under way has ended, and the proxy does not say so; the next one may be asked for at once.
    pub(crate) fn lose(&mut self) {
        if let CalloutState::Out { .. } = self.state {
            self.state = CalloutState::Resting { until_millis: 0 };
        }
    }

    /// Whether that callout is the callout under way.
    pub(crate) fn carries(&self, callout: Token) -> bool {
        matches!(self.state, CalloutState::Out { token, .. } if token == Some(callout))
    }

    /// When the callout under way was asked for.
    pub(crate) fn asked_millis(&self) -> Option<u64> {
        match self.state {
            CalloutState::Out { asked_millis, .. } => Some(asked_millis),
            CalloutState::Resting { .. } => None,
        }
    }

    /// Whether the callout under way should have ended by now.
    pub(crate) fn is_overdue(&self, now_millis: u64) -> bool {
        let limit = self.timeout_millis.saturating_add(GRACE_MILLIS);
        self.asked_millis()
            .is_some_and(|asked_millis| now_millis.saturating_sub(asked_millis) >= limit)
    }

    /// It ended well; the next one may be asked for from `next` on. How many had failed in a row before it.
    pub(crate) fn succeed(&mut self, next_millis: u64) -> u32 {
        self.backoff.reset();
        self.state = CalloutState::Resting {
            until_millis: next_millis,
        };
        std::mem::take(&mut self.failures)
    }

    /// It failed. How many have in a row.
    pub(crate) fn fail(&mut self, now_millis: u64) -> u32 {
        self.rest(now_millis);
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// The next one may be asked for at once.
    pub(crate) fn end_pause(&mut self, now_millis: u64) {
        if let CalloutState::Resting { until_millis } = &mut self.state {
            *until_millis = now_millis;
        }
    }

    /// Pauses, for longer each time until it succeeds.
    pub(crate) fn rest(&mut self, now_millis: u64) {
        let until_millis = now_millis.saturating_add(self.backoff.next_millis());
        self.state = CalloutState::Resting { until_millis };
    }
}
