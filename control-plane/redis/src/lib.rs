//! Redis, as a cache that may be lost at any time: every command has a bound on its time, and every failure is a
//! [`RedisError`] that the caller answers by asking the database instead. A command that fails may have been executed.
//!
//! Each process has four connections (in a cluster: four a node): one for commands, pipelined, one that is blocked
//! reading the feed, one that publishes reports of clicks, and one that is subscribed to nudges, and to reports.

mod about;
mod breaker;
mod connect;
mod error;
mod feed;
mod limits;
mod links;
mod nodes;
mod scripts;
mod workers;

pub use about::ServerInfo;
pub use connect::{MessageReceiver, Nudges};
pub use error::RedisError;
pub use feed::{Append, Appended, StoredState, StreamEntry};
pub use links::{CachedLink, Lock, RedisLookup};

use breaker::RedisBreaker;
use connect::RedisClients;
use edgelink_settings::config::{FeedConfig, RedisConfig};
use edgelink_settings::telemetry::prometheus::{REDIS_ERRORS, REDIS_SECONDS};
use fred::clients::{Client, SubscriberClient, WithOptions};
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use metrics::{counter, histogram};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The connections to Redis.
pub struct Redis {
    commands: Client,
    reader: Client,
    reports: Client,
    subscriber: SubscriberClient,
    breaker: RedisBreaker,
    timeout: Duration,
    feed_length: u64,
    feed_bytes: u64,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Redis {
    /// Starts connecting, and retries until [`Redis::shutdown`]: the process starts even without Redis. `None` if no URL is
    /// configured.
    ///
    /// # Errors
    /// [`RedisError::Url`] if the URL is not one of Redis.
    pub fn start(config: &RedisConfig, feed: &FeedConfig) -> Result<Option<Arc<Self>>, RedisError> {
        let Some(url) = &config.url else {
            return Ok(None);
        };
        let clients = RedisClients::build(url, config.ca_file.as_ref(), config.timeout_ms)?;
        let redis = Arc::new(Self {
            commands: clients.commands,
            reader: clients.reader,
            reports: clients.reports,
            subscriber: clients.subscriber,
            breaker: RedisBreaker::default(),
            timeout: config.timeout_ms,
            feed_length: feed.stream_length,
            feed_bytes: feed.stream_bytes,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        redis.connect();
        Ok(Some(redis))
    }

    /// True if all connections are established.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.commands.is_connected() && self.reader.is_connected() && self.subscriber.is_connected()
    }

    /// True if the keys are spread over several masters.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.commands.is_clustered()
    }

    /// Ends all connections.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The client for lookups, bounded by the configured time.
    fn for_lookups(&self) -> WithOptions<Client> {
        self.commands.with_options(&options(self.timeout))
    }

    /// The client for the publisher and the reader of the feed, which may take ten times as long.
    fn in_background(&self) -> WithOptions<Client> {
        self.commands.with_options(&options(self.timeout * 10))
    }

    /// The client for reports of clicks.
    fn for_reports(&self) -> WithOptions<Client> {
        self.reports.with_options(&options(self.timeout * 10))
    }

    /// Makes a call for a lookup unless the circuit breaker is open. Boxed, because futures of calls are large.
    async fn guarded<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RedisError> {
        if !self.breaker.permits() {
            return Err(RedisError::Skipped);
        }
        let result = Box::pin(measured(operation, call)).await;
        self.breaker.note(&result);
        result
    }
}

/// Options for a single attempt, which fails without a connection.
fn options(timeout: Duration) -> Options {
    Options {
        max_attempts: Some(1),
        timeout: Some(timeout),
        fail_fast: true,
        ..Options::default()
    }
}

async fn measured<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, RedisError> {
    let start = Instant::now();
    let result = call.await.map_err(RedisError::from);
    histogram!(REDIS_SECONDS, "operation" => operation).record(start.elapsed());
    result.inspect_err(|error| {
        counter!(REDIS_ERRORS, "operation" => operation, "kind" => error.kind()).increment(1);
    })
}
