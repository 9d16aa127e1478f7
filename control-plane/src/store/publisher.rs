//! What the publisher needs of a store: the outbox, and the row in which the replicas agree on who publishes and how far the
//! feed has come.

use super::{Packed, PendingBatch, StoreError};
use async_trait::async_trait;
use edgelink_wire::FeedPosition;

/// By how many sequences every issuer is moved on at most when the database went back, so that numbers of links that are lost
/// are not given out again. An issuer is moved by half of what is left to the bound at most: raising the bound takes
/// [`BOUND_LEAD_MS`](super::BOUND_LEAD_MS), and links are to be created meanwhile.
pub const NUMBERS_SKIPPED: u64 = 1_000_000;

/// For how long after the last lease a publisher of another kind waits, in milliseconds, unless the lease was given back.
pub const OTHER_KIND_WAIT_MS: u64 = 30_000;

/// The longest lease for work that one process does at a time, in milliseconds. One that ends later was written by a clock that was ahead, and is over.
pub const MAX_LEASE_MS: u64 = 60_000;

/// Where a publisher publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Its own process.
    Local,
    /// Redis, for all replicas that have the same one.
    Redis,
}

/// The part of a store that the publisher works on. Times are those of the database's clock.
#[async_trait]
pub trait PublisherStore: Send + Sync + 'static {
    /// The greatest [`PublisherState::token`] that this process has read, without asking the database.
    fn newest_token(&self) -> u64;

    /// [`PublisherState::skipped_in`] of the row with that token. Numbers that were drawn before it are not used any more: others
    /// may have drawn the same from a database that had gone back.
    fn skipped_in(&self) -> u64;

    /// The row that the replicas agree on.
    async fn publisher(&self) -> Result<PublisherState, StoreError>;

    /// The oldest changes that are not published yet, in `limit` batches at most, and the row as of the same moment.
    async fn pending(&self, limit: u32) -> Result<Pending, StoreError>;

    /// The keys of changes that are not published yet, of `limit` batches at most, and the row as of the same moment.
    async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError>;

    /// How much waits to be published.
    async fn outbox_size(&self) -> Result<OutboxSize, StoreError>;

    /// Takes or renews the lease and raises the token; the row after that, or `None` if another replica has the lease, or
    /// has to be waited for.
    async fn take_publisher_lease(
        &self,
        claim: &LeaseClaim<'_>,
    ) -> Result<Option<PublisherState>, StoreError>;

    /// Gives the lease back before its time if `owner` has it.
    async fn release_publisher_lease(&self, owner: &str) -> Result<(), StoreError>;

    /// Forgets batches that are published, the last of them as the entry at `position`. `false`, and nothing is forgotten, if
    /// `token` is not the newest one.
    async fn forget_published(
        &self,
        token: u64,
        position: FeedPosition,
        ids: &[u64],
    ) -> Result<bool, StoreError>;

    /// Begins a generation in which nothing is published yet; the row after that, or `None` if `token` is not the newest one.
    async fn begin_generation(
        &self,
        token: u64,
        past: Past,
    ) -> Result<Option<PublisherState>, StoreError>;
}

/// The row that the replicas agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublisherState {
    /// The database's clock when the row was read: unix time in microseconds. What was committed before was visible.
    pub now: u64,
    /// Who has, or had, the lease.
    pub owner: String,
    /// Until when: unix time in milliseconds, 0 after it was given back.
    pub lease_until: u64,
    /// Grows with every take and renewal of the lease.
    pub token: u64,
    /// The generation of the feed; 0 before the first.
    pub generation: u64,
    /// The last entry of that generation that is known to be published; the start if there is none.
    pub position: FeedPosition,
    /// Where the owner publishes to, as [`FeedKind::as_str`] says it; empty before the first.
    pub kind: String,
    /// No cache was told of a greater revision of a link that has no row, or of which the row is older.
    pub rev_floor: u64,
    /// Which database this is.
    pub installation: String,
    /// The generation with which numbers were skipped last, because the database had gone back; 0 if they never were.
    pub skipped_in: u64,
}

/// The outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The row as of the same moment.
    pub state: PublisherState,
    /// The oldest batches, in the order in which they are to be published.
    pub batches: Vec<PendingBatch>,
}

/// The keys in the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingKeys {
    /// The row as of the same moment.
    pub state: PublisherState,
    /// The keys of each batch.
    pub keys: Vec<Packed>,
}

/// How much waits to be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxSize {
    /// Rows, counted up to 100,000.
    pub rows: u64,
    /// How long the oldest row has waited, in milliseconds.
    pub age_millis: u64,
}

/// Who wants the lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseClaim<'a> {
    /// A name that no other process has.
    pub owner: &'a str,
    /// Where it publishes to.
    pub kind: FeedKind,
    /// For how long.
    pub milliseconds: u64,
    /// The generation that it publishes in, and the last entry that is known to be published there.
    pub published: Option<(u64, FeedPosition)>,
    /// If the database is known to have gone back: the greatest token that was taken before. A lease for the same kind that was
    /// taken with none above it counts nothing, because its owner does not know.
    pub lost: Option<u64>,
}

/// What is known of the database's past when a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It is as caches were told.
    Kept,
    /// It may be another one than caches were told: what is read from now on counts as newer than all of that.
    Unknown,
    /// The database went back behind what was published: in addition, a token above `token` is taken, and no number is
    /// handed out that may have been before.
    WentBack {
        /// The greatest token that is known.
        token: u64,
    },
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
    /// Whether this owner has the lease by the row as it was read.
    #[must_use]
    pub fn is_held_by(&self, owner: &str) -> bool {
        self.owner == owner && !self.is_over()
    }

    /// Whether the lease has ended by the row as it was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lease_end() <= self.now / 1000
    }

    /// When the lease ends or has ended, in unix milliseconds.
    fn lease_end(&self) -> u64 {
        let most = (self.now / 1000).saturating_add(MAX_LEASE_MS);
        if self.lease_until > most {
            0
        } else {
            self.lease_until
        }
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
        let wait = if is_same_kind || end == 0 {
            0
        } else {
            OTHER_KIND_WAIT_MS
        };
        end.saturating_add(wait) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(owner: &str, kind: FeedKind) -> LeaseClaim<'_> {
        LeaseClaim {
            owner,
            kind,
            milliseconds: 1,
            published: None,
            lost: None,
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
