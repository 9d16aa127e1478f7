//! The connections of a process to Redis, and the nudges: a replica that has changed a link wakes the publisher by a
//! nudge.

use super::error::RedisError;
use super::{Redis, measured};
use bytes::Bytes;
use edgelink_settings::config::{FileText, Secret};
use edgelink_settings::pem;
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{ClientLike, EventInterface, KeysInterface, PubsubInterface};
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ReconnectPolicy, Server, TcpConfig, TlsConnector,
};
use fred::types::{Builder, Expiration, Message, Value};
use rand::random;
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// First and longest pause before a reconnection, in milliseconds. With jitter, replicas do not return to a restarted
/// Redis all at once. The longest one is short, because changes are late while the stream is not read, and replicas are few.
const RECONNECT_MILLIS: (u32, u32) = (50, 400);
const RECONNECT_JITTER_MILLIS: u32 = 50;

/// Time limit of connecting, name resolution and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The most commands that are queued for a connection.
const MAX_QUEUED: usize = 8_192;

/// The channel of nudges.
const NUDGES: &str = "edgelink:nudge";

/// The key that probes if Redis accepts writes, and its TTL in seconds.
const PROBE: &str = "edgelink:probe";
const PROBE_SECONDS: i64 = 10;

/// The channel of committed click reports.
const REPORTS: &str = "edgelink:clicks";

/// The channel of reports of workers.
pub(super) const WORKERS: &str = "edgelink:workers";

/// Prefix of the channel on which a process receives its own heartbeats.
const ALIVE: &str = "edgelink:alive:";

/// Interval and time limit of heartbeats: a connection whose other end has vanished silently (a restarted host, a firewall that has
/// dropped its state) would otherwise never receive messages again.
const ALIVE_PERIOD: Duration = Duration::from_secs(1);
const ALIVE_LIMIT: Duration = Duration::from_secs(2);

/// Time limit of the answer to a PING on the other connections.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The key that exists while a replica follows reports, and its TTL in seconds.
const LISTENERS: &str = "edgelink:listeners";
const LISTENERS_SECONDS: i64 = 10;

/// Most messages that wait for a reader in this process; beyond it the oldest are lost.
const MAX_MESSAGES: usize = 256;

/// Longest blocking read of the feed.
pub(super) const MAX_BLOCK: Duration = Duration::from_secs(1);

/// The clients of one process.
pub(super) struct RedisClients {
    pub(super) commands: Client,
    pub(super) reader: Client,
    /// Publishes reports, which are large, so that lookups do not queue behind them.
    pub(super) reports: Client,
    pub(super) subscriber: SubscriberClient,
}

impl RedisClients {
    pub(super) fn build(
        url: &Secret,
        authorities: Option<&FileText>,
        timeout: Duration,
    ) -> Result<Self, RedisError> {
        let wrong = |error: fred::error::Error| RedisError::Url(error.details().to_owned());
        let mut config = Config::from_url(url.expose()).map_err(wrong)?;
        config.fail_fast = false;
        if let (Some(tls), Some(authorities)) = (&mut config.tls, authorities) {
            tls.connector = connector(authorities).map_err(RedisError::Authorities)?;
        }
        // After a failover the nodes in the URL may be the ones that are gone.
        if config.server.is_clustered() {
            config
                .server
                .set_cluster_discovery_policy(ClusterDiscoveryPolicy::UseCache)
                .map_err(wrong)?;
        }
        // A connection without answers is closed, and the commands that wait on it fail.
        let mut subscriber = builder(&config, Duration::ZERO);
        subscriber.with_performance_config(|performance| {
            performance.broadcast_channel_capacity = MAX_MESSAGES;
        });
        let subscriber = subscriber.build_subscriber_client();
        Ok(Self {
            commands: builder(&config, timeout * 20).build().map_err(wrong)?,
            reports: builder(&config, timeout * 20).build().map_err(wrong)?,
            reader: builder(&config, MAX_BLOCK * 3).build().map_err(wrong)?,
            subscriber: subscriber.map_err(wrong)?,
        })
    }
}

/// Creates a TLS connector that trusts these authorities.
fn connector(authorities: &FileText) -> Result<TlsConnector, String> {
    let roots = pem::roots(authorities)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(config.into())
}

/// Creates a builder of clients that close a connection on which a command has waited for `unresponsive`.
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
    let mut policy = ReconnectPolicy::new_exponential(0, RECONNECT_MILLIS.0, RECONNECT_MILLIS.1, 2);
    policy.set_jitter(RECONNECT_JITTER_MILLIS);
    builder.set_policy(policy);
    builder
}

/// Time by which closing a connection may delay a stop.
const QUIT: Duration = Duration::from_secs(1);

impl Redis {
    /// Keeps the clients connected until [`Redis::shutdown`].
    pub(super) fn connect(self: &Arc<Self>) {
        let stop = || self.stop.clone();
        let (commands, reader) = (self.commands.clone(), self.reader.clone());
        let reports = self.reports.clone();
        for client in [commands, reader, reports] {
            self.tasks.spawn(keep_connected(client.clone(), stop()));
            // In a cluster all nodes would be reconnected because of one.
            if !client.is_clustered() {
                let stop = stop();
                self.tasks.spawn(async move {
                    stop.run_until_cancelled(watch(client)).await;
                });
            }
        }
        let subscriber = self.subscriber.clone();
        self.tasks.spawn(keep_connected(subscriber.clone(), stop()));
        let alive = format!("{ALIVE}{:032x}", random::<u128>());
        self.tasks
            .spawn(subscribe(subscriber, alive.clone(), stop()));
        let redis = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = redis.stop.clone();
            stop.run_until_cancelled(Box::pin(redis.watch_subscriber(&alive)))
                .await;
        });
    }

    /// Nudges the publisher, which polls the outbox if the nudge is lost.
    pub async fn nudge(&self) -> Result<(), RedisError> {
        let client = self.in_background();
        measured("nudge", client.publish::<(), _, _>(NUDGES, "")).await
    }

    /// Reconnects the subscriber when this process's heartbeats do not come back. While Redis accepts nothing, that proves nothing about
    /// the subscriber.
    async fn watch_subscriber(&self, alive: &str) {
        loop {
            sleep(ALIVE_PERIOD).await;
            let mut messages = self.subscriber.message_rx();
            let client = self.for_reports();
            let published = measured("alive", client.publish::<(), _, _>(alive, "")).await;
            let came = timeout(ALIVE_LIMIT, async {
                loop {
                    match messages.recv().await {
                        Ok(message) if message.channel != alive => {}
                        Ok(_) | Err(RecvError::Lagged(_)) => return,
                        Err(RecvError::Closed) => std::future::pending::<()>().await,
                    }
                }
            });
            if published.is_err() || came.await.is_ok() || !self.subscriber.is_connected() {
                continue;
            }
            tracing::warn!("the Redis connection for nudges receives no messages; reconnecting");
            let reconnected = self.subscriber.force_reconnection();
            if let Err(error) = reconnected.await {
                tracing::debug!(%error, "reconnecting to Redis for nudges failed; retrying");
            }
        }
    }

    /// Publishes a report of clicks to the replicas that follow them.
    pub async fn publish_report(&self, report: Bytes) -> Result<(), RedisError> {
        let client = self.for_reports();
        let report = Value::Bytes(report);
        measured(
            "publish_report",
            client.publish::<(), _, _>(REPORTS, report),
        )
        .await
    }

    /// Announces for a while that a replica follows reports.
    pub async fn note_listeners(&self) -> Result<(), RedisError> {
        let client = self.for_reports();
        let expires = Some(Expiration::EX(LISTENERS_SECONDS));
        let set = client.set::<(), _, _>(LISTENERS, 1, expires, None, false);
        measured("note_listeners", set).await
    }

    /// True if a replica follows reports.
    pub async fn has_listeners(&self) -> Result<bool, RedisError> {
        let client = self.for_reports();
        measured("has_listeners", client.exists(LISTENERS)).await
    }

    /// Starts or stops following the reports of all replicas.
    pub async fn follow_reports(&self, follows: bool) -> Result<(), RedisError> {
        let follow = async {
            if follows {
                self.subscriber.subscribe(REPORTS).await
            } else {
                self.subscriber.unsubscribe(REPORTS).await
            }
        };
        measured("follow_reports", follow).await
    }

    /// The reports of all replicas from now on, while they are followed.
    #[must_use]
    pub fn reports(&self) -> MessageReceiver {
        self.messages(REPORTS)
    }

    /// The messages of a subscribed channel from now on.
    pub(super) fn messages(&self, channel: &'static str) -> MessageReceiver {
        MessageReceiver {
            channel,
            messages: self.subscriber.message_rx(),
        }
    }

    /// The nudges of all replicas from now on.
    #[must_use]
    pub fn nudges(&self) -> Nudges {
        Nudges {
            messages: self.subscriber.message_rx(),
            reconnections: self.subscriber.reconnect_rx(),
        }
    }

    /// True while nudges are lost for lack of a connection.
    #[must_use]
    pub fn misses_nudges(&self) -> bool {
        !self.subscriber.is_connected()
    }

    /// True if Redis accepts writes.
    pub async fn takes_writes(&self) -> bool {
        let client = self.in_background();
        let expires = Some(Expiration::EX(PROBE_SECONDS));
        let set = client.set::<(), _, _>(PROBE, 1, expires, None, false);
        measured("probe", set).await.is_ok()
    }
}

/// A receiver of nudges.
pub struct Nudges {
    messages: Receiver<Message>,
    reconnections: Receiver<Server>,
}

impl Nudges {
    /// Waits for a nudge. A missed one counts, and so does a reconnection, because nudges before it are lost.
    pub async fn next(&mut self) {
        loop {
            let message = tokio::select! {
                message = self.messages.recv() => message,
                Ok(_) = self.reconnections.recv() => return,
            };
            match message {
                Ok(message) if message.channel != NUDGES => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => std::future::pending::<()>().await,
            }
        }
    }
}

/// A receiver of the messages of a channel.
pub struct MessageReceiver {
    channel: &'static str,
    messages: Receiver<Message>,
}

impl MessageReceiver {
    /// Waits for a message; the error is the number of missed messages.
    pub async fn next(&mut self) -> Result<Bytes, u64> {
        loop {
            match self.messages.recv().await {
                Ok(message) if message.channel == self.channel => {
                    return message.value.convert().map_err(|_| 1);
                }
                Ok(_) => {}
                Err(RecvError::Lagged(count)) => return Err(count),
                Err(RecvError::Closed) => std::future::pending::<()>().await,
            }
        }
    }
}

/// Keeps a client connected: it reconnects by itself after most failures, and is restarted when it gives up.
async fn keep_connected<C: ClientLike>(client: C, stop: CancellationToken) {
    let connected = async {
        loop {
            let ended = client.connect().await;
            tracing::debug!(?ended, "a connection to Redis ended; reconnecting");
            sleep(Duration::from_millis(RECONNECT_MILLIS.1.into())).await;
        }
    };
    stop.run_until_cancelled(connected).await;
    match timeout(QUIT, client.quit()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%error, "closing a connection to Redis failed; dropping it");
        }
        Err(_) => tracing::debug!("closing a connection to Redis takes too long; dropping it"),
    }
}

/// Reconnects a client that gets no answers. It would do so by itself, but its timeout restarts with every command: to an end that has
/// vanished it would wait as long as commands keep coming.
async fn watch(client: Client) {
    loop {
        sleep(ALIVE_PERIOD).await;
        let answers = async { timeout(ANSWER_LIMIT, client.ping::<()>(None)).await.is_ok() };
        if client.is_connected() && !answers.await {
            tracing::warn!("a connection to Redis gets no answers; reconnecting");
            reconnect(&client).await;
        }
    }
}

async fn reconnect(client: &impl ClientLike) {
    if let Err(error) = client.force_reconnection().await {
        tracing::debug!(%error, "reconnecting to Redis failed; retrying");
    }
}

/// Subscribes to nudges, to reports of workers, and to this process's channel, and again after every reconnection.
async fn subscribe(subscriber: SubscriberClient, alive: String, stop: CancellationToken) {
    let again = subscriber.manage_subscriptions();
    let first = async {
        while subscriber.wait_for_connect().await.is_err()
            || subscriber.subscribe(NUDGES).await.is_err()
            || subscriber.subscribe(WORKERS).await.is_err()
            || subscriber.subscribe(alive.as_str()).await.is_err()
        {
            sleep(Duration::from_millis(RECONNECT_MILLIS.0.into())).await;
        }
    };
    stop.run_until_cancelled(first).await;
    stop.cancelled().await;
    again.abort();
}
