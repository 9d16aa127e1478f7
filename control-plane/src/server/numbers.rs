//! The source of numbers that the configuration names.

use crate::config::{Config, NumberSourceKind};
use crate::issuer::snowflake::{Snowflake, StoredWorkers, SystemClock};
use crate::issuer::{
    Digest, Membership, Minter, NumberSource, SegmentIssuer, SegmentOptions, ZookeeperOptions,
    counter, zookeeper,
};
use crate::store::{ListQuery, Store, StoreError};
use edgelink_wire::CodeSpace;
use std::sync::Arc;

/// Numbers of the configured source, and their codes.
pub(super) async fn minter(
    config: &Config,
    store: Arc<Store>,
    known: Arc<dyn Membership>,
) -> Result<Minter, StoreError> {
    let space = config.links.code_space();
    if config.issuer.source != NumberSourceKind::Segment {
        admit_every_number(&space, store.as_ref()).await?;
    }
    let source: Arc<dyn NumberSource> = match config.issuer.source {
        NumberSourceKind::Segment => SegmentIssuer::start(store, segment_options(config)),
        NumberSourceKind::Counter => counter(store, config.issuer.step),
        NumberSourceKind::Zookeeper => zookeeper(zookeeper_options(config, store.as_ref()).await?),
        NumberSourceKind::Snowflake => Arc::new(Snowflake::new(
            SystemClock,
            Arc::new(StoredWorkers::new(store)),
        )),
        NumberSourceKind::Digest => Arc::new(Digest::new(space.clone(), Some(known))),
    };
    Ok(Minter::new(source, space))
}

/// The bound of the edges' admission follows the segments alone, so for other sources it is the end of all numbers.
async fn admit_every_number(space: &CodeSpace, store: &Store) -> Result<(), StoreError> {
    let end = space.length().count();
    if store.bound_state().await?.bound < end {
        store.add_bound(end).await?;
    }
    Ok(())
}

fn segment_options(config: &Config) -> SegmentOptions {
    let issuer = &config.issuer;
    SegmentOptions {
        length: config.links.code_space().length(),
        least_step: issuer.step,
        most_step: issuer.max_step,
        lease: issuer.lease(),
        ..SegmentOptions::default()
    }
}

async fn zookeeper_options(config: &Config, store: &Store) -> Result<ZookeeperOptions, StoreError> {
    let issuer = &config.issuer;
    let servers = issuer.zookeeper_servers.clone().unwrap_or_default();
    Ok(ZookeeperOptions {
        path: issuer.zookeeper_path.clone(),
        range: issuer.zookeeper_range,
        auth: issuer.zookeeper_auth(),
        // A ZooKeeper that has lost its data must not start from 0 again.
        first: (!has_links(store).await?).then_some(0),
        ..ZookeeperOptions::new(servers)
    })
}

async fn has_links(store: &Store) -> Result<bool, StoreError> {
    let any = ListQuery {
        domain: None,
        after: None,
        limit: 1,
    };
    Ok(!store.list_links(&any).await?.is_empty())
}
