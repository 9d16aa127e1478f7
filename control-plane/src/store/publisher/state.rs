//! The row in which the replicas agree on which of them publishes, and who may take the lease by it.

use crate::store::leases::MAX_LEASE_MILLIS;
use edgelink_wire::FeedPosition;

/// How long a publisher that writes to its own process waits after the last lease of one that writes to Redis has ended, in
/// milliseconds, unless it was given back: one of those is restarted, and this one may be there by mistake.
pub const OTHER_KIND_WAIT_MILLIS: u64 = 30_000;

/// How long one that writes to Redis waits for one that does not. Until then changes come to no edge by the feed.
const OWN_PROCESS_WAIT_MILLIS: u64 = 5_000;

/// The kind of feed that a publisher writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Its own process.
    Local,
    /// Redis, for all replicas that have the same one.
    Redis,
}

/// The row that the replicas agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PublisherState {
    /// The database's clock when the row was read: unix time in microseconds. What was committed before was visible.
    pub now: u64,
    /// The process that has, or had, the lease.
    pub owner: String,
    /// When the lease ends: unix time in milliseconds, 0 after it was given back.
    pub lease_until: u64,
    /// Grows with every take and renewal of the lease.
    pub token: u64,
    /// The generation of the feed; 0 before the first.
    pub generation: u64,
    /// The last entry of that generation that is known to be published; the start if there is none.
    #[sqlx(skip)]
    pub position: FeedPosition,
    /// The kind of feed that the owner writes to, as [`FeedKind::as_str`] says it; empty before the first.
    pub kind: String,
    /// No greater revision was published of a link that has no row, or of which the row is older.
    pub rev_floor: u64,
    /// The low-water mark of the outbox: rows up to there were removed, but for those of transactions that have committed much later
    /// than they wrote them.
    pub outbox_mark: u64,
    /// The name of this database.
    pub installation: String,
    /// The generation in which numbers were skipped last, because the database had gone back; 0 if they never were.
    pub skipped_in: u64,
    /// The generation with which caches had to drop everything last, for that reason or by [`crate::store::Store::flush`]; 0 if they
    /// never had to.
    pub flushed_in: u64,
}

/// The claim of a process to the lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseClaim<'a> {
    /// A name that no other process has.
    pub owner: &'a str,
    /// The kind of feed that it writes to.
    pub kind: FeedKind,
    /// For how long, in milliseconds.
    pub lease_millis: u64,
    /// The generation that it publishes in, and the last entry that is known to be published there.
    pub published: Option<(u64, FeedPosition)>,
    /// A generation, and a position that the row is known to have had in it. In a row that is behind it the position stays as it is:
    /// it shows that the database went back.
    pub seen: (u64, FeedPosition),
    /// The greatest token before the database went back; `None` if it is not known to have. A lease of the same kind
    /// with no greater token is void, because its owner does not know.
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
    /// Whether the lease had expired when the row was read.
    #[must_use]
    pub fn has_expired(&self) -> bool {
        self.lease_end() <= self.now / 1000
    }

    /// When the lease expires or has expired, in unix milliseconds.
    fn lease_end(&self) -> u64 {
        let most = (self.now / 1000).saturating_add(MAX_LEASE_MILLIS);
        Some(self.lease_until)
            .filter(|until| *until <= most)
            .unwrap_or(0)
    }

    /// Whether that claim may take the lease.
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

    /// Begins a generation in which nothing is published yet.
    pub(super) fn begin_generation(&mut self) {
        self.generation = self.now.max(self.generation + 1);
        self.position = FeedPosition::START;
    }

    /// Gives the lease to a claim that is admitted.
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
    fn a_position_when_the_row_is_behind_what_was_seen_stays() {
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
    fn a_lease_goes_to_another_kind_only_if_it_was_given_back_or_is_long_over() {
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
