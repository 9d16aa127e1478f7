//! Background tasks: publishing changes, following the feed, and scanning the keys.

use bytes::Bytes;
use edgelink_clicks::Reports;
use edgelink_clicks::analytics::{ClickHouse, ClickWriter, Engine, LinkResolver, SqlEngine};
use edgelink_clicks::live::{Live, LiveReader};
use edgelink_feed::Domains;
use edgelink_feed::publisher::{FeedSink, Publisher, PublisherStatus};
use edgelink_feed::resolve::{KeyScanner, KnownKeys, Memory, Resolver};
use edgelink_feed::snapshot::{SnapshotSettings, Snapshots};
use edgelink_feed::{Feed, Listener, Sharing, Tail};
use edgelink_http::app::Clicks;
use edgelink_redis::{Redis, RedisError};
use edgelink_settings::config::{Config, EngineKind, ServerConfig};
use edgelink_settings::reloaded::Reloaded;
use edgelink_store::{OnChange, Store};
use edgelink_wire::feed::FeedMessage;
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The click writer's cache of links, once there is one.
#[derive(Default)]
struct ClickedLinks(OnceLock<Arc<LinkResolver>>);

impl ClickedLinks {
    fn invalidate(&self, key: &str) {
        if let Some(links) = self.0.get() {
            links.invalidate(key);
        }
    }
}

impl Listener for ClickedLinks {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put { key, .. }
            | FeedMessage::Del { key, .. }
            | FeedMessage::Changed { key } => self.invalidate(key),
            FeedMessage::Flush | FeedMessage::Beat(_) => {}
        }
    }

    fn invalidate_all(&self) {
        if let Some(links) = self.0.get() {
            links.invalidate_all();
        }
    }
}

/// The background tasks and their shared state.
pub(super) struct Background {
    pub(super) feed: Arc<Feed>,
    memory: Arc<Memory>,
    known_keys: Arc<KnownKeys>,
    pub(super) domains: Arc<Domains>,
    pub(super) redis: Option<Arc<Redis>>,
    /// The live stream of clicks.
    pub(super) live: Arc<Live>,
    clicked_links: Arc<ClickedLinks>,
    wake: Arc<Notify>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Background {
    /// Connects to Redis if it is configured. Nothing else happens before [`Background::start`].
    pub(super) fn new(config: &Config) -> Result<Self, RedisError> {
        let redis = Redis::start(&config.redis, &config.feed)?;
        let memory = Arc::new(Memory::new(&config.resolve));
        let known_keys = Arc::new(KnownKeys::new(config.links.code_space()));
        let domains = Arc::new(Domains::new(&config.links.domains));
        let clicked_links = Arc::<ClickedLinks>::default();
        let listeners: Vec<Arc<dyn Listener>> = vec![
            known_keys.clone(),
            memory.clone(),
            domains.clone(),
            clicked_links.clone(),
        ];
        Ok(Self {
            feed: Arc::new(Feed::new(&config.feed, listeners)),
            memory,
            known_keys,
            domains,
            live: Live::new(redis.clone()),
            redis,
            clicked_links,
            wake: Arc::new(Notify::new()),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// The listener for changes of this process. It invalidates the link in the resolver's memory, so that clients see their
    /// own changes here, and wakes the publisher.
    pub(super) fn on_change(&self) -> OnChange {
        let (memory, wake) = (self.memory.clone(), self.wake.clone());
        let clicked_links = self.clicked_links.clone();
        Arc::new(move |keys| {
            for key in keys {
                let key = key.to_string();
                memory.invalidate(&key);
                clicked_links.invalidate(&key);
            }
            wake.notify_one();
        })
    }

    /// The filter of known keys.
    pub(super) fn known_keys(&self) -> Arc<KnownKeys> {
        self.known_keys.clone()
    }

    /// Starts the publisher, the tail of the feed, and the scan of the keys; returns the status of publishing.
    pub(super) fn start(&self, config: &Config, store: &Arc<Store>) -> PublisherStatus {
        let publisher = Publisher::new(
            store.clone(),
            self.destination(),
            self.feed.clone(),
            &config.publisher,
            &config.clicks,
            edgelink_numbers::bound_policy(config),
            self.wake.clone(),
        );
        let status = publisher.status();
        let scanner = KeyScanner::new(self.known_keys.clone(), store.clone());
        self.tasks.spawn(publisher.run(self.stop.clone()));
        self.tasks.spawn(scanner.run(self.stop.clone()));
        let following = self
            .domains
            .clone()
            .follow(store.clone(), self.stop.clone());
        self.tasks.spawn(following);
        status
    }

    /// Starts another task with a token that stops it.
    pub(super) fn spawn<F>(&self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Starts a task that reloads a value from its files.
    pub(super) fn follow<T: Send + Sync + 'static>(
        &self,
        value: &Arc<Reloaded<T>>,
        config: &ServerConfig,
    ) {
        self.spawn(|stop| value.clone().follow(config.reload_ms, stop));
    }

    /// Starts accepting, writing and streaming click reports.
    pub(super) fn clicks(&self, config: &Config, store: &Arc<Store>) -> Clicks {
        let settings = &config.analytics;
        let engine: Arc<dyn Engine> = match settings.engine {
            EngineKind::Sql => Arc::new(SqlEngine::new(store.clone(), settings.clone())),
            EngineKind::ClickHouse => Arc::new(ClickHouse::new(settings, store.clicks().clone())),
        };
        let links = LinkResolver::new(store.clone(), settings.max_known_links);
        let (links, wake) = (Arc::new(links), Arc::new(Notify::new()));
        let links = self.clicked_links.0.get_or_init(|| links).clone();
        let writer = ClickWriter::new(
            store.clone(),
            engine.clone(),
            links.clone(),
            (settings, &config.clicks),
            wake.clone(),
        );
        self.tasks.spawn(writer.run(self.stop.clone()));
        let reader = LiveReader::new(store.clone(), links);
        self.spawn(|stop| self.live.clone().run(reader, stop));
        let live = self.live.clone();
        let publish = Arc::new(move |report: &Bytes| live.publish(report));
        Clicks {
            reports: Reports::start(
                store.clicks().clone(),
                wake,
                publish,
                settings.max_queued_bytes,
            ),
            engine,
        }
    }

    /// The destination of changes. With Redis it starts the tail of the feed.
    fn destination(&self) -> FeedSink {
        let Some(redis) = &self.redis else {
            return FeedSink::Local(self.feed.clone());
        };
        let tail = Tail::new(redis.clone(), self.feed.clone());
        self.tasks.spawn(tail.run(self.stop.clone()));
        let sharing = Sharing::new(redis.clone(), self.feed.clone());
        self.tasks.spawn(sharing.run(self.stop.clone()));
        FeedSink::Redis(redis.clone())
    }

    /// The resolver of links.
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

    /// The snapshots from which edges start.
    pub(super) fn snapshots(&self, config: &Config, store: &Arc<Store>) -> Snapshots {
        let settings = SnapshotSettings {
            length: config.links.code_space().length(),
            key: config.links.permutation_key(),
            domains: config.links.domains.clone(),
            clicks: config.clicks.clone(),
        };
        let (known_keys, feed) = (self.known_keys.clone(), self.feed.clone());
        Snapshots::new(store.clone(), known_keys, feed, settings)
    }

    /// Answers waiting polls of edges, and ends live streams.
    pub(super) fn release_edges(&self) {
        self.live.shutdown();
        self.feed.shutdown();
    }

    /// Stops the tasks and closes Redis.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(redis) = &self.redis {
            redis.shutdown().await;
        }
    }
}
