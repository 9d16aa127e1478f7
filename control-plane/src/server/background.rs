//! What goes on besides requests: publishing changes, and keeping up with those of others.

use crate::config::Config;
use crate::feed::{Feed, Listener, Tail};
use crate::numbers;
use crate::redis::{Redis, RedisError};
use crate::relay::{Outlet, PublisherStatus, Relay};
use crate::resolve::{KeyScanner, KnownKeys, Memory, Resolver};
use crate::snapshot::{SnapshotFacts, Snapshots};
use crate::store::{OnChange, Store};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What goes on besides requests.
pub(super) struct Background {
    pub(super) feed: Arc<Feed>,
    memory: Arc<Memory>,
    known_keys: Arc<KnownKeys>,
    redis: Option<Arc<Redis>>,
    wake: Arc<Notify>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Background {
    /// Connects to Redis where there is one. Nothing else happens before [`Background::start`].
    pub(super) fn new(config: &Config) -> Result<Self, RedisError> {
        let redis = Redis::start(&config.redis, &config.feed)?;
        let memory = Arc::new(Memory::new(&config.resolve));
        let known_keys = Arc::new(KnownKeys::new(config.links.code_space()));
        let listeners: Vec<Arc<dyn Listener>> = vec![known_keys.clone(), memory.clone()];
        Ok(Self {
            feed: Arc::new(Feed::new(&config.feed, listeners)),
            memory,
            known_keys,
            redis,
            wake: Arc::new(Notify::new()),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// What follows a change that this process has made, before it is published: its resolver forgets what it knows of the
    /// link, so that who makes a change here sees it here, and the relay wakes up.
    pub(super) fn on_change(&self) -> OnChange {
        let (memory, wake) = (self.memory.clone(), self.wake.clone());
        Arc::new(move |keys| {
            for key in keys {
                memory.void(&key.to_string());
            }
            wake.notify_one();
        })
    }

    /// Which links there are.
    pub(super) fn known_keys(&self) -> Arc<KnownKeys> {
        self.known_keys.clone()
    }

    /// Starts publishing what is in the outbox, following the feed, and scanning the keys; returns who publishes.
    pub(super) fn start(&self, config: &Config, store: &Arc<Store>) -> PublisherStatus {
        let relay = Relay::new(
            store.clone(),
            self.outlet(),
            self.feed.clone(),
            &config.publisher,
            &config.clicks,
            numbers::bound_policy(config),
            self.wake.clone(),
        );
        let status = relay.status();
        let scanner = KeyScanner::new(self.known_keys.clone(), store.clone());
        self.tasks.spawn(relay.run(self.stop.clone()));
        self.tasks.spawn(scanner.run(self.stop.clone()));
        status
    }

    /// Where changes are published; follows the feed from there.
    fn outlet(&self) -> Outlet {
        let Some(redis) = &self.redis else {
            return Outlet::Local(self.feed.clone());
        };
        let tail = Tail::new(redis.clone(), self.feed.clone());
        self.tasks.spawn(tail.run(self.stop.clone()));
        Outlet::Redis(redis.clone())
    }

    /// What answers for links.
    pub(super) fn resolver(&self, config: &Config, store: &Arc<Store>) -> Resolver {
        Resolver::new(
            store.clone(),
            self.redis.clone(),
            self.known_keys.clone(),
            self.feed.clone(),
            self.memory.clone(),
            config.resolve.clone(),
        )
    }

    /// What edges start from.
    pub(super) fn snapshots(&self, config: &Config, store: &Arc<Store>) -> Snapshots {
        let facts = SnapshotFacts {
            length: config.links.code_space().length(),
            key: config.links.permutation_key(),
            domains: config.links.domains.clone(),
            clicks: config.clicks.clone(),
        };
        let (known_keys, feed) = (self.known_keys.clone(), self.feed.clone());
        Snapshots::new(store.clone(), known_keys, feed, facts)
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
