//! Classes of calls, each of which has connections that the others cannot take.
//!
//! Of the connections of a store each class has some for itself. The rest is for all that come, but a class takes no more of it
//! than three quarters. A class whose calls do not come back (rows that are locked, queries that take long) so leaves every other
//! one its own connections, and some of the rest. The publisher and what hangs on it have connections of their own altogether.

#![allow(
    clippy::disallowed_types,
    reason = "an `Admission` before them has queues and shares; these two tell what is the class's own from the rest"
)]

use super::error::{Fault, Limit};
use crate::admission::{Admission, Bounds, Claim, Permit, Refusal};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The publisher, leases, bounds, and draws of numbers, on connections of their own.
    Control,
    /// A link or a domain, by its key.
    Lookups,
    /// Pages, lists and questions.
    Reads,
    /// Changes of what is there.
    Changes,
    /// Links that are created, and what is looked up and counted for it.
    Creations,
    /// API keys and sessions that come with requests.
    Accounts,
    /// Visits of links that have a limit.
    Visits,
    /// Reports of clicks.
    Clicks,
    /// Work for no request: purging, webhooks, the writer of clicks, scans.
    Background,
}

/// How many classes share connections.
pub(super) const SHARING: usize = 8;

impl Class {
    /// Its place among those that share connections.
    fn place(self) -> Option<usize> {
        Some(match self {
            Self::Control => return None,
            Self::Lookups => 0,
            Self::Reads => 1,
            Self::Changes => 2,
            Self::Creations => 3,
            Self::Accounts => 4,
            Self::Visits => 5,
            Self::Clicks => 6,
            Self::Background => 7,
        })
    }
}

/// How many connections there are, and who may have how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionShares {
    /// All that are shared.
    pub(super) connections: usize,
    /// What each class has for itself, or an eighth of all if that is less.
    pub(super) reserved: usize,
    /// The most calls of a class that wait.
    pub(super) waiting: usize,
    /// The most lookups, where that is less than they may have as a class.
    pub(super) lookups: usize,
}

/// The permits of calls, one for each connection that is shared.
#[derive(Debug)]
pub(super) struct Bulkheads {
    shares: ConnectionShares,
    rest: Arc<Semaphore>,
    classes: [ClassPermits; SHARING],
}

/// The permits of a class: a call waits for one of the class first, and then for one of those that are the class's alone, or of the
/// rest, whichever is free first.
#[derive(Debug)]
struct ClassPermits {
    all: Admission,
    own: Arc<Semaphore>,
}

/// A permit for one connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    /// Given up before the class has another call begin.
    _connection: OwnedSemaphorePermit,
    _class: Permit,
}

impl Bulkheads {
    pub(super) fn new(shares: ConnectionShares) -> Self {
        let reserved = shares.reserved.min(shares.connections / SHARING);
        let rest = shares.connections - reserved * SHARING;
        let of_rest = match reserved {
            0 => rest,
            _ => (rest * 3).div_ceil(4),
        };
        let of_class = |place| {
            let most = if Class::Lookups.place() == Some(place) {
                (reserved + of_rest).min(shares.lookups.max(1))
            } else {
                reserved + of_rest
            };
            let bounds = Bounds {
                waiting: shares.waiting,
                ..Bounds::new("store.max_connections", most)
            };
            ClassPermits {
                all: Admission::new(bounds),
                own: Arc::new(Semaphore::new(reserved)),
            }
        };
        Self {
            shares,
            rest: Arc::new(Semaphore::new(rest)),
            classes: std::array::from_fn(of_class),
        }
    }

    /// Others for the same connections, with no more than `most` for lookups.
    pub(super) fn with_lookups(&self, most: usize) -> Self {
        Self::new(ConnectionShares {
            lookups: most,
            ..self.shares
        })
    }

    /// Waits for a permit; `None` for calls that have connections of their own.
    ///
    /// # Errors
    /// Too many of the class wait, or the permit does not come before `deadline`, or will not as far as can be said.
    pub(super) async fn permit(
        &self,
        class: Class,
        deadline: Instant,
    ) -> Result<Option<ConnectionPermit>, Fault> {
        let Some(class) = class.place().and_then(|place| self.classes.get(place)) else {
            return Ok(None);
        };
        let permit = class.all.take(Claim::default(), deadline).await;
        let permit = permit.map_err(|refusal| match refusal {
            Refusal::Full(_) => Fault::Crowded(Limit::Waiting),
            Refusal::Late(_) | Refusal::Share(_) => Fault::Crowded(Limit::Connections),
        })?;
        let connection = async {
            tokio::select! {
                biased;
                own = Arc::clone(&class.own).acquire_owned() => own,
                rest = Arc::clone(&self.rest).acquire_owned() => rest,
            }
        };
        let connection = timeout_at(deadline, connection).await;
        // They are never closed.
        let connection = connection.ok().and_then(Result::ok);
        Ok(Some(ConnectionPermit {
            _connection: connection.ok_or(Fault::Crowded(Limit::Connections))?,
            _class: permit,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn bulkheads(connections: usize, reserved: usize, waiting: usize) -> Bulkheads {
        Bulkheads::new(ConnectionShares {
            connections,
            reserved,
            waiting,
            lookups: usize::MAX,
        })
    }

    const CLASSES: [Class; SHARING] = [
        Class::Lookups,
        Class::Reads,
        Class::Changes,
        Class::Creations,
        Class::Accounts,
        Class::Visits,
        Class::Clicks,
        Class::Background,
    ];

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// Takes permits of a class until there are no more.
    fn take_all(bulkheads: &Bulkheads, class: Class) -> Vec<ConnectionPermit> {
        let take = || bulkheads.permit(class, soon()).now_or_never();
        std::iter::from_fn(|| take().and_then(Result::ok).flatten()).collect()
    }

    #[tokio::test]
    async fn a_class_that_takes_all_it_can_leaves_each_other_one_its_own() {
        let bulkheads = bulkheads(16, 1, 8);
        let taken = take_all(&bulkheads, Class::Changes);
        assert_eq!(taken.len(), 1 + 6);
        let more = take_all(&bulkheads, Class::Reads);
        assert_eq!(more.len(), 1 + 2);
        for class in CLASSES {
            let expected = usize::from(!matches!(class, Class::Changes | Class::Reads));
            assert_eq!(take_all(&bulkheads, class).len(), expected, "{class:?}");
        }
        drop((taken, more));
        assert_eq!(take_all(&bulkheads, Class::Visits).len(), 7);
        let control = bulkheads.permit(Class::Control, soon()).await.unwrap();
        assert!(control.is_none());
    }

    #[tokio::test]
    async fn all_permits_together_are_as_many_as_connections() {
        for (connections, reserved) in [(1, 1), (7, 1), (8, 1), (16, 1), (16, 9), (40, 3), (16, 0)]
        {
            let bulkheads = bulkheads(connections, reserved, 8);
            let taken: Vec<_> = CLASSES
                .into_iter()
                .flat_map(|class| take_all(&bulkheads, class))
                .collect();
            assert_eq!(taken.len(), connections, "{connections} {reserved}");
        }
    }

    #[tokio::test]
    async fn a_class_takes_no_more_than_it_is_left() {
        for (reserved, most, expected) in [(1, 12, 7), (1, 4, 4), (2, 1, 1), (0, 3, 3)] {
            let bulkheads = bulkheads(16, reserved, 8);
            let bulkheads = bulkheads.with_lookups(most);
            assert_eq!(take_all(&bulkheads, Class::Lookups).len(), expected);
        }
    }

    #[tokio::test]
    async fn a_call_that_waits_gets_the_first_connection_that_is_free_and_one_that_leaves_takes_none()
     {
        let bulkheads = bulkheads(8, 1, 8);
        let held = take_all(&bulkheads, Class::Visits);
        assert_eq!(held.len(), 1);
        let mut left = Box::pin(bulkheads.permit(Class::Visits, soon()));
        let mut next = Box::pin(bulkheads.permit(Class::Visits, soon()));
        assert!(left.as_mut().now_or_never().is_none());
        assert!(next.as_mut().now_or_never().is_none());
        drop(left);
        drop(held);
        assert!(next.as_mut().now_or_never().unwrap().unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_whose_queue_is_full_or_moves_too_late_refuses_and_names_the_limit() {
        let bulkheads = bulkheads(8, 1, 1);
        let _held = take_all(&bulkheads, Class::Visits);
        let mut waiting = Box::pin(bulkheads.permit(Class::Visits, soon()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = bulkheads.permit(Class::Visits, soon()).now_or_never();
        let refused = refused.unwrap().unwrap_err();
        assert_eq!(refused.limit(), Some(Limit::Waiting));
        assert!(refused.remedy().is_transient() && !refused.is_suspicious());
        drop(waiting);
        let late = bulkheads.permit(Class::Visits, soon()).await.unwrap_err();
        assert_eq!(late.limit(), Some(Limit::Connections));
    }
}
