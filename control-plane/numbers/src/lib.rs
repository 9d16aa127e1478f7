//! Numbers of new links. A number is never issued twice.
//!
//! A [`Minter`] takes numbers from the configured [`NumberSource`] and turns them into codes. Segments, counter and
//! ZooKeeper are ranges that an issuer draws ([`ranges`]); snowflake derives numbers from time, digest from the link.

mod counter;
mod digest;
mod minter;
mod ranges;
mod segment;
pub(crate) mod snowflake;
mod source;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use counter::counter;
pub use digest::Membership;
pub use minter::{Minted, Minter};
pub use segment::{SegmentOptions, segment};
pub use snowflake::snowflake;
pub use source::{IssueError, NumberSource, Subject};
#[cfg(feature = "zookeeper")]
pub use zookeeper::{ZookeeperOptions, zookeeper};

use digest::Digest;
use edgelink_settings::config::{Config, NumberSourceKind};
use edgelink_store::{Store, StoreError};
use std::sync::Arc;

/// Above every number that can be issued.
pub const EVERY_NUMBER: u64 = i64::MAX as u64;

/// Policy for keeping the bound ahead of issued numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundPolicy {
    /// Ahead by this many numbers, or a tenth of those issued, or as the pace of issuing requires, whichever is most.
    Ahead(u64),
    /// For sources other than the database's segments: any number may be issued, and edges look up all of them.
    Everything,
}

/// The least room between the numbers issued and the bound.
const MIN_BOUND_ROOM: u64 = 10_000_000;

/// Failure to create a minter.
#[derive(Debug, thiserror::Error)]
pub enum MinterError {
    /// The source is not part of this build.
    #[error(
        "numbers.source: this build has no zookeeper; build it with the cargo feature `zookeeper`, or choose another source"
    )]
    WithoutZookeeper,
    /// The database failed.
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
}

/// Creates a minter of the configured source.
///
/// # Errors
/// [`MinterError`]; the bound is not lifted for a source that is not part of this build.
pub async fn minter(
    config: &Config,
    store: Arc<Store>,
    known: Arc<dyn Membership>,
) -> Result<Minter, MinterError> {
    let is_zookeeper = config.numbers.source == NumberSourceKind::Zookeeper;
    if is_zookeeper && !cfg!(feature = "zookeeper") {
        return Err(MinterError::WithoutZookeeper);
    }
    if bound_policy(config) == BoundPolicy::Everything
        && store.bound_state().await?.bound < EVERY_NUMBER
    {
        // The current publisher may still have another source.
        store.add_bound(EVERY_NUMBER).await?;
    }
    let space = config.links.code_space();
    let source: Arc<dyn NumberSource> = match config.numbers.source {
        NumberSourceKind::Segment => segment(store, segment_options(config)),
        NumberSourceKind::Counter => counter(store, config.numbers.step),
        #[cfg(feature = "zookeeper")]
        NumberSourceKind::Zookeeper => zookeeper(zookeeper_options(config, &store).await?),
        #[cfg(not(feature = "zookeeper"))]
        NumberSourceKind::Zookeeper => return Err(MinterError::WithoutZookeeper),
        NumberSourceKind::Snowflake => snowflake(store),
        NumberSourceKind::Digest => Arc::new(Digest::new(space.clone(), Some(known))),
    };
    Ok(Minter::new(source, space))
}

/// The policy of the configured source. The bound follows segments only, with room for at most a thousandth of all codes:
/// more would make edges look up codes that were never issued.
pub fn bound_policy(config: &Config) -> BoundPolicy {
    if config.numbers.source != NumberSourceKind::Segment {
        return BoundPolicy::Everything;
    }
    let thousandth = config.links.code_space().length().count() / 1000;
    BoundPolicy::Ahead(
        config
            .publisher
            .bound_room
            .min(thousandth.max(MIN_BOUND_ROOM)),
    )
}

fn segment_options(config: &Config) -> SegmentOptions {
    let numbers = &config.numbers;
    SegmentOptions {
        length: config.links.code_space().length(),
        min_step: numbers.step,
        max_step: numbers.max_step,
        lease: numbers.lease_seconds,
        ..SegmentOptions::default()
    }
}

#[cfg(feature = "zookeeper")]
async fn zookeeper_options(config: &Config, store: &Store) -> Result<ZookeeperOptions, StoreError> {
    let numbers = &config.numbers;
    Ok(ZookeeperOptions {
        path: numbers.zookeeper_path.clone(),
        range: numbers.zookeeper_range,
        auth: numbers.zookeeper_auth(),
        // A ZooKeeper that has lost its data must not start from 0 again.
        first: (!store.has_links().await?).then_some(0),
        ..ZookeeperOptions::new(numbers.zookeeper_servers.clone().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::config::Secret;
    use edgelink_wire::LinkKey;

    /// Knows that there are no links.
    struct NoLinks;

    impl Membership for NoLinks {
        fn may_contain(&self, _: &LinkKey) -> bool {
            false
        }
    }

    #[test]
    fn bound_policy_when_source_is_not_segment_covers_everything() {
        let mut config = Config::default();
        assert_eq!(bound_policy(&config), BoundPolicy::Ahead(1_000_000_000));
        config.links.code_length = 6;
        assert_eq!(bound_policy(&config), BoundPolicy::Ahead(56_800_235));
        for source in [
            NumberSourceKind::Counter,
            NumberSourceKind::Zookeeper,
            NumberSourceKind::Snowflake,
            NumberSourceKind::Digest,
        ] {
            config.numbers.source = source;
            assert_eq!(bound_policy(&config), BoundPolicy::Everything);
        }
    }

    #[tokio::test]
    async fn bound_when_source_is_not_segment_is_lifted() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.numbers.source = NumberSourceKind::Counter;
        let url = format!("sqlite://{}/e.db", folder.path().display());
        config.store.url = Secret::new(url);
        // Others may keep the disk busy.
        config.store.timeout_ms = std::time::Duration::from_secs(10);
        let store = edgelink_store::open_store(&config.store).await.unwrap();
        assert!(store.bound_state().await.unwrap().bound < EVERY_NUMBER);
        for _ in 0..2 {
            let minter = minter(&config, store.clone(), Arc::new(NoLinks))
                .await
                .unwrap();
            minter.shutdown().await;
            assert_eq!(store.bound_state().await.unwrap().bound, EVERY_NUMBER);
        }
    }
}
