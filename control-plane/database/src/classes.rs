//! Classes of calls, each with reserved connections.
//!
//! Each class has some connections of a store for itself. The rest is shared, but a class may take at most three quarters of
//! it. A class whose calls hang (locked rows, slow queries) thus leaves every other class its own connections, and some of
//! the rest. The publisher and the work related to it use a separate pool.

#![allow(
    clippy::disallowed_types,
    reason = "an `Admission` before them has queues and shares; these two tell what is the class's own from the rest"
)]

use super::error::{Fault, Limit};
use edgelink_settings::admission::{Admission, Bounds, Claim, Permit, Refusal};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The publisher, leases, bounds, and draws of numbers, on connections of their own.
    Control,
    /// A link or a domain, by its key.
    Lookups,
    /// Pages, lists and queries.
    Reads,
    /// Changes of existing data.
    Changes,
    /// Creations of links, with their lookups and counts.
    Creations,
    /// API keys and sessions that come with requests.
    Accounts,
    /// Uses of links with a limit.
    Visits,
    /// Reports of clicks.
    Clicks,
    /// Background work: purging, webhooks, the click writer, scans.
    Background,
}

/// Number of classes that share connections.
pub(super) const SHARING: usize = 8;

impl Class {
    /// Its index among the classes that share connections.
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

/// Number of connections, and the shares of classes in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionShares {
    /// All shared connections.
    pub(super) connections: usize,
    /// Connections reserved for each class, or an eighth of all if that is less.
    pub(super) reserved: usize,
    /// The most waiting calls of a class.
    pub(super) waiting: usize,
    /// The most lookups at once, if lower than the bound of their class.
    pub(super) lookups: usize,
}

/// The permits of calls, one for each shared connection.
#[derive(Debug)]
pub(super) struct Bulkheads {
    shares: ConnectionShares,
    rest: Arc<Semaphore>,
    classes: [ClassPermits; SHARING],
}

/// The permits of a class: a call first waits for one of the class, and then for a reserved or a shared one, whichever is free
/// first.
#[derive(Debug)]
struct ClassPermits {
    all: Admission,
    own: Arc<Semaphore>,
}

/// A permit for one connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    /// Released before the next call of the class begins.
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

    /// Creates permits for the same connections, with at most `most` for lookups.
    pub(super) fn with_lookups(&self, most: usize) -> Self {
        Self::new(ConnectionShares {
            lookups: most,
            ..self.shares
        })
    }

    /// Waits for a permit; `None` for calls that have connections of their own.
    ///
    /// # Errors
    /// Too many calls of the class wait, or the permit does not come before `deadline`, or is not expected to.
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
    async fn class_when_it_takes_all_leaves_others_their_own() {
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
    async fn permits_when_all_are_taken_equal_the_connections() {
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
    async fn class_when_capped_takes_no_more_than_its_cap() {
        for (reserved, most, expected) in [(1, 12, 7), (1, 4, 4), (2, 1, 1), (0, 3, 3)] {
            let bulkheads = bulkheads(16, reserved, 8);
            let bulkheads = bulkheads.with_lookups(most);
            assert_eq!(take_all(&bulkheads, Class::Lookups).len(), expected);
        }
    }

    #[tokio::test]
    async fn call_when_an_earlier_one_left_gets_the_free_permit() {
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
    async fn class_when_its_queue_is_full_or_late_names_the_limit() {
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
