//! Building the clients and keeping them connected.

use super::{Redis, RedisError};
use crate::config::Secret;
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::{ClusterDiscoveryPolicy, Config, ReconnectPolicy, TcpConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The first and the longest pause between two tries to connect, in milliseconds. With cold jitter between replicas a
/// restarted Redis is not met by all of them at once.
const RECONNECT_MS: (u32, u32) = (50, 2_000);
const RECONNECT_JITTER_MS: u32 = 50;

/// How long connecting may take, name resolution and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The most commands that wait for a connection to take them.
const MAX_QUEUED: usize = 8_192;

/// The channel that nudges come by.
pub(super) const NUDGES: &str = "edgelink:nudge";

/// The clients of one process.
pub(super) struct Clients {
    pub(super) commands: Client,
    pub(super) reader: Client,
    pub(super) subscriber: SubscriberClient,
}

impl Clients {
    pub(super) fn build(url: &Secret, timeout: Duration) -> Result<Self, RedisError> {
        let refused = |error: fred::error::Error| RedisError::Url(error.details().to_owned());
        let mut config = Config::from_url(url.expose()).map_err(refused)?;
        config.fail_fast = false;
        // After a failover the nodes that the URL names may be the ones that are gone.
        if config.server.is_clustered() {
            config
                .server
                .set_cluster_discovery_policy(ClusterDiscoveryPolicy::UseCache)
                .map_err(refused)?;
        }
        // A connection that answers nothing is given up, and so are the commands that wait on it.
        let commands = builder(&config, timeout * 20).build().map_err(refused)?;
        let reader = builder(&config, super::feed::MAX_BLOCK * 3)
            .build()
            .map_err(refused)?;
        let subscriber = builder(&config, Duration::ZERO)
            .build_subscriber_client()
            .map_err(refused)?;
        Ok(Self {
            commands,
            reader,
            subscriber,
        })
    }
}

/// A builder of clients that give up a connection on which a command has waited for `unresponsive`.
fn builder(config: &Config, unresponsive: Duration) -> Builder {
    let mut builder = Builder::from_config(config.clone());
    builder.with_connection_config(|connection| {
        connection.connection_timeout = CONNECT_TIMEOUT;
        connection.internal_command_timeout = CONNECT_TIMEOUT;
        connection.max_command_attempts = 1;
        connection.max_command_buffer_len = MAX_QUEUED;
        connection.auto_client_setname = true;
        connection.reconnect_on_auth_error = true;
        connection.tcp = TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        };
        if !unresponsive.is_zero() {
            connection.unresponsive.max_timeout = Some(unresponsive);
            connection.unresponsive.interval = unresponsive / 4;
        }
    });
    let mut policy = ReconnectPolicy::new_exponential(0, RECONNECT_MS.0, RECONNECT_MS.1, 2);
    policy.set_jitter(RECONNECT_JITTER_MS);
    builder.set_policy(policy);
    builder
}

/// How long a Redis that does not answer may hold up a stop.
const QUIT: Duration = Duration::from_secs(1);

impl Redis {
    /// Keeps the clients connected until [`Redis::shutdown`].
    pub(super) fn connect(self: &Arc<Self>) {
        self.spawn_connection(self.commands.clone());
        self.spawn_connection(self.reader.clone());
        self.spawn_connection(self.subscriber.clone());
        self.tasks
            .spawn(subscribe(self.subscriber.clone(), self.stop.clone()));
    }

    fn spawn_connection<C: ClientLike + EventInterface + 'static>(&self, client: C) {
        self.tasks.spawn(keep_connected(client, self.stop.clone()));
    }
}

/// The client reconnects by itself after nearly everything; where it gives up, it is started again.
async fn keep_connected<C: ClientLike + EventInterface>(client: C, stop: CancellationToken) {
    loop {
        let connection = client.connect();
        tokio::select! {
            () = stop.cancelled() => break,
            ended = connection => {
                tracing::debug!(?ended, "a connection to Redis ended for good");
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(Duration::from_millis(RECONNECT_MS.1.into())) => {}
        }
    }
    match tokio::time::timeout(QUIT, client.quit()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to Redis was not closed in order"),
        Err(_) => tracing::debug!("a connection to Redis was not closed in time"),
    }
}

/// Subscribes to nudges, and again after every reconnection.
async fn subscribe(subscriber: SubscriberClient, stop: CancellationToken) {
    let again = subscriber.manage_subscriptions();
    let first = async {
        while subscriber.wait_for_connect().await.is_err()
            || subscriber.subscribe(NUDGES).await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(RECONNECT_MS.0.into())).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = first => stop.cancelled().await,
    }
    again.abort();
}
