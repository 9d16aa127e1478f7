//! The row by which the replicas agree on the publisher, and the rules for taking its lease.

use crate::leases::MAX_LEASE_MILLIS;
use edgelink_wire::{FeedPoint, FeedPosition};

/// Milliseconds that a publisher writing to its own process waits after the lease of one writing to Redis has expired, unless
/// it was released: the latter may be restarting, and the former may be running by mistake.
pub const OTHER_KIND_WAIT_MILLIS: u64 = 30_000;

/// Milliseconds that a publisher writing to Redis waits after the lease of one that does not. Until then the feed brings no changes
/// to edges.
const OWN_PROCESS_WAIT_MILLIS: u64 = 5_000;

/// The kind of feed that a publisher writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Its own process.
    Local,
    /// Redis, for all replicas that share it.
    Redis,
}

/// The row shared by the replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PublisherState {
    /// The database's clock when the row was read, in unix microseconds. Earlier commits were visible.
    pub now: u64,
    /// The process that has, or had, the lease.
    pub owner: String,
    /// Expiry of the lease, in unix milliseconds; 0 after it was released.
    pub lease_until: u64,
    /// Grows with every acquisition and renewal of the lease.
    pub token: u64,
    /// The generation of the feed; 0 before the first.
    pub generation: u64,
    /// The last entry of that generation known to be published; the start if there is none.
    #[sqlx(skip)]
    pub position: FeedPosition,
    /// The kind of feed that the owner writes to, by [`FeedKind::as_str`]; empty before the first.
    pub kind: String,
    /// Upper bound of the published revisions of links without a row, or with an older one.
    pub rev_floor: u64,
    /// The low-water mark of the outbox: rows up to it are removed, except for rows of transactions that committed long after writing
    /// them.
    pub outbox_mark: u64,
    /// The name of this database.
    pub installation: String,
    /// The generation in which numbers were last skipped, because the database had gone back; 0 if they never were.
    pub skipped_in: u64,
    /// The generation with which caches last had to drop everything, for that reason or by [`crate::Store::flush`]; 0 if they
    /// never had to.
    pub flushed_in: u64,
}

/// The claim of a process to the lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseClaim<'a> {
    /// A unique name of the process.
    pub owner: &'a str,
    /// The kind of feed that it writes to.
    pub kind: FeedKind,
    /// Duration of the lease, in milliseconds.
    pub lease_millis: u64,
    /// The generation in which it publishes, and the last entry known to be published there.
    pub published: Option<FeedPoint>,
    /// A generation, and a position that the row is known to have had in it. If the row is behind it, its position stays unchanged, to
    /// show that the database went back.
    pub seen: FeedPoint,
    /// The greatest token before the database went back; `None` if it is not known to have. A lease of equal kind
    /// without a greater token is void, because its owner does not know.
    pub lost: Option<u64>,
}

impl FeedKind {
    /// The name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Redis => "redis",
        }
    }
}

impl PublisherState {
    /// True if the lease had expired when the row was read.
    #[must_use]
    pub fn has_expired(&self) -> bool {
        self.lease_end() <= self.now / 1000
    }

    /// Time at which the lease expires or has expired, in unix milliseconds.
    fn lease_end(&self) -> u64 {
        let most = (self.now / 1000).saturating_add(MAX_LEASE_MILLIS);
        Some(self.lease_until)
            .filter(|until| *until <= most)
            .unwrap_or(0)
    }

    /// True if the claim may take the lease.
    #[must_use]
    pub fn admits(&self, claim: &LeaseClaim<'_>) -> bool {
        let now = self.now / 1000;
        let is_same_kind = self.kind.is_empty() || self.kind == claim.kind.as_str();
        let is_void = is_same_kind && claim.lost.is_some_and(|lost| self.token <= lost);
        if self.owner == claim.owner || is_void {
            return true;
        }
        let end = self.lease_end();
        let is_free = is_same_kind || end == 0;
        let wait = match claim.kind {
            _ if is_free => 0,
            FeedKind::Local => OTHER_KIND_WAIT_MILLIS,
            FeedKind::Redis => OWN_PROCESS_WAIT_MILLIS,
        };
        end.saturating_add(wait) <= now
    }

    /// Begins a generation without published changes.
    pub(super) fn begin_generation(&mut self) {
        self.generation = self.now.max(self.generation + 1);
        self.position = FeedPosition::START;
    }

    /// Gives the lease to an admitted claim.
    pub(super) fn grant(&mut self, claim: &LeaseClaim<'_>) {
        claim.owner.clone_into(&mut self.owner);
        claim.kind.as_str().clone_into(&mut self.kind);
        self.lease_until = (self.now / 1000).saturating_add(claim.lease_millis);
        self.token += 1;
        let (generation, seen) = claim.seen;
        let went_back = generation == self.generation && self.position < seen;
        let published = claim
            .published
            .filter(|(generation, _)| *generation == self.generation && !went_back);
        // A late call never sets the position back.
        self.position =
            published.map_or(self.position, |(_, position)| position.max(self.position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(owner: &str, kind: FeedKind) -> LeaseClaim<'_> {
        LeaseClaim {
            owner,
            kind,
            lease_millis: 1,
            published: None,
            seen: (0, FeedPosition::START),
            lost: None,
        }
    }

    #[test]
    fn position_when_row_is_behind_what_was_seen_stays() {
        let at = |millis| FeedPosition::new(millis, 0);
        for (seen, published, position) in [
            ((7, at(5)), (7, at(9)), at(9)),
            ((7, at(4)), (7, at(9)), at(9)),
            // The row was behind it.
            ((7, at(6)), (7, at(9)), at(5)),
            ((6, at(6)), (7, at(9)), at(9)),
            ((7, at(5)), (6, at(9)), at(5)),
            ((7, at(5)), (7, at(4)), at(5)),
        ] {
            let mut state = PublisherState {
                generation: 7,
                position: at(5),
                ..PublisherState::default()
            };
            state.grant(&LeaseClaim {
                published: Some(published),
                seen,
                ..claim("one", FeedKind::Redis)
            });
            assert_eq!(state.position, position, "{seen:?} {published:?}");
        }
    }

    #[test]
    fn lease_when_kind_differs_is_granted_after_long_expiry() {
        let state = |lease_until: u64, now: u64| PublisherState {
            now: now * 1000,
            owner: "one".to_owned(),
            lease_until,
            kind: "redis".to_owned(),
            ..PublisherState::default()
        };
        for (lease_until, now, redis, local) in [
            (1000, 999, false, false),
            (1000, 1000, true, false),
            (1000, 30_999, true, false),
            (1000, 31_000, true, true),
            (0, 1, true, true),
            // The clock was ahead when the publisher died.
            (60_001, 1, false, false),
            (60_002, 1, true, true),
            (u64::MAX, 1, true, true),
        ] {
            let state = state(lease_until, now);
            assert!(state.admits(&claim("one", FeedKind::Redis)));
            assert_eq!(state.admits(&claim("two", FeedKind::Redis)), redis);
            assert_eq!(state.admits(&claim("two", FeedKind::Local)), local);
        }
        for (now, redis) in [(1000, false), (5_999, false), (6_000, true)] {
            let of_own_process = PublisherState {
                kind: "local".to_owned(),
                ..state(1000, now)
            };
            let admits = |kind| of_own_process.admits(&claim("two", kind));
            assert_eq!(
                (admits(FeedKind::Redis), admits(FeedKind::Local)),
                (redis, true)
            );
        }
        let held = PublisherState {
            token: 7,
            ..state(1000, 1)
        };
        for (lost, redis) in [(6, false), (7, true), (8, true)] {
            let claim = |kind| LeaseClaim {
                lost: Some(lost),
                ..claim("two", kind)
            };
            assert_eq!(held.admits(&claim(FeedKind::Redis)), redis);
            assert!(!held.admits(&claim(FeedKind::Local)));
        }
        let fresh = PublisherState::default();
        assert!(fresh.admits(&claim("two", FeedKind::Local)));
    }
}
