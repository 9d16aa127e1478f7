//! What goes on besides requests: publishing changes, and keeping up with those of others.

use crate::config::{Config, NumberSourceKind};
use crate::feed::{Feed, Tail};
use crate::redis::{Redis, RedisError};
use crate::relay::{BoundPolicy, Outlet, Relay};
use crate::store::Store;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The smallest room between the numbers issued and the bound.
const MIN_BOUND_ROOM: u64 = 10_000_000;

/// What goes on besides requests.
pub(super) struct Background {
    pub(super) feed: Arc<Feed>,
    redis: Option<Arc<Redis>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Background {
    /// Connects to Redis where there is one. Nothing else happens before [`Background::start`].
    pub(super) fn new(config: &Config) -> Result<Self, RedisError> {
        let options = config.redis.options(config.feed.stream_length);
        let redis = options.as_ref().map(Redis::start).transpose()?;
        Ok(Self {
            feed: Arc::new(Feed::new(config.feed.limits(), Vec::new())),
            redis,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Starts publishing what is in the outbox, whenever `changed` says so, and following the feed.
    pub(super) fn start(&self, config: &Config, store: Arc<dyn Store>, changed: Arc<Notify>) {
        let outlet = match &self.redis {
            None => Outlet::Local(self.feed.clone()),
            Some(redis) => {
                let tail = Tail::new(redis.clone(), self.feed.clone());
                self.tasks.spawn(tail.run(self.stop.clone()));
                Outlet::Redis(redis.clone())
            }
        };
        let options = config.relay.options();
        let relay = Relay::new(store, outlet, options, bound_policy(config), changed);
        self.tasks.spawn(relay.run(self.stop.clone()));
    }

    /// Ends the waiting of edges, so that their requests end.
    pub(super) fn release_edges(&self) {
        self.feed.shutdown();
    }

    /// Ends everything in order.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(redis) = &self.redis {
            redis.shutdown().await;
        }
    }
}

/// Room for a thousandth of all codes at most: more would make edges look up what nobody can have been given.
fn bound_policy(config: &Config) -> BoundPolicy {
    match config.issuer.source {
        NumberSourceKind::Segment | NumberSourceKind::Counter => {
            let thousandth = config.links.code_space().length().count() / 1000;
            BoundPolicy::Ahead(config.relay.bound_room.min(thousandth.max(MIN_BOUND_ROOM)))
        }
        NumberSourceKind::Zookeeper | NumberSourceKind::Snowflake | NumberSourceKind::Digest => {
            BoundPolicy::Everything
        }
    }
}
