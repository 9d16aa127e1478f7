//! A client of `fred` for a Redis Cluster, or for the master named by Sentinels.
//!
//! It tracks the nodes, follows redirections, and reconnects. Lookups are answered as soon as their node has answered; [`nodes`] has
//! lookups at a node that is silent fail at once.

mod nodes;

use self::nodes::{NodeHealth, RedisNodes};
use super::Receiver;
use crate::tls::client_config;
use edgelink_filter_core::host::{ConnectionToken, HashAnswer, HashLookup, HashValues, RedisEvent};
use edgelink_filter_core::resp::client::{Auth, Mode};
use edgelink_filter_core::settings::RedisSettings;
use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, HostMapping, ReconnectPolicy, Server, ServerConfig, TlsConfig,
    TlsConnector, TlsHostMapping,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, Value};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;

/// First and longest pause before reconnecting to a node, in milliseconds.
const RECONNECT_MILLIS: (u32, u32) = (50, 2_000);

/// Number of errors in a row that end the connection, if the last success is `dead_after` ago: the core reconnects, and asks the control
/// plane until then.
const FAILURES_TO_END: usize = 64;

/// Carries out lookups, until the core is done with the connection, or no node can be reached.
pub(super) async fn run(
    (receiver, token): (&'static dyn Receiver, ConnectionToken),
    settings: &RedisSettings,
    unsent: UnboundedReceiver<HashLookup>,
) -> io::Result<()> {
    let connected = connect(settings).await.map_err(io::Error::other)?;
    if !receiver.on_redis((token, RedisEvent::Connected)) {
        return Ok(());
    }
    let dead_after = Duration::from_millis(settings.lookups.dead_after_millis);
    carry(connected, unsent, dead_after, |answers| {
        receiver.on_redis((token, RedisEvent::Answered(answers)))
    })
    .await
}

/// Carries out lookups from `unsent`, and passes answers to `take`, which returns false to end the connection.
async fn carry(
    (client, mut connection): (Client, Connected),
    mut unsent: UnboundedReceiver<HashLookup>,
    dead_after: Duration,
    mut take: impl FnMut(&[HashAnswer]) -> bool,
) -> io::Result<()> {
    let (mut failures, mut last_success) = (0, Instant::now());
    let mut pending = FuturesUnordered::new();
    let mut nodes = RedisNodes::default();
    loop {
        let answer = tokio::select! {
            lookup = unsent.recv() => {
                let Some(lookup) = lookup else {
                    return Ok(());
                };
                let node = nodes.of(&client, &lookup.key);
                pending.push(ask(client.clone(), node, lookup));
                continue;
            }
            Some(answer) = pending.next() => answer,
            ended = &mut connection.0 => {
                let ended = ended.map_err(io::Error::other)?;
                return ended.map_err(|error| io::Error::other(error.details().to_owned()));
            }
        };
        // Further available answers are passed along.
        let mut answers = vec![answer];
        while let Some(Some(answer)) = pending.next().now_or_never() {
            answers.push(answer);
        }
        if !take(&answers) {
            return Ok(());
        }
        for (_, answer) in &answers {
            match answer {
                Ok(_) => (failures, last_success) = (0, Instant::now()),
                Err(_) => failures += 1,
            }
        }
        // Lookups at a node that is silent fail in great numbers between two answers of others.
        if failures >= FAILURES_TO_END && last_success.elapsed() >= dead_after {
            return Err(io::Error::other("no node answers"));
        }
    }
}

async fn ask(client: Client, node: Arc<NodeHealth>, lookup: HashLookup) -> HashAnswer {
    let number = lookup.number;
    let found = node.ask(look_up(client, lookup)).await;
    (number, found.map_err(|error| error.details().to_owned()))
}

async fn look_up(client: Client, lookup: HashLookup) -> Result<HashValues, Error> {
    let key = Value::Bytes(lookup.key.into());
    let fields = lookup
        .fields
        .iter()
        .map(|field| Value::from_static_str(field));
    let arguments: Vec<_> = std::iter::once(key).chain(fields).collect();
    let lookup = CustomCommand::new_static("HMGET", ClusterHash::FirstKey, false);
    client.custom(lookup, arguments).await
}

/// The task that maintains the connections of a client; aborted on drop.
struct Connected(ConnectHandle);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn connect(settings: &RedisSettings) -> Result<(Client, Connected), String> {
    let text = |error: fred::error::Error| error.details().to_owned();
    let client = builder(settings)?.build().map_err(text)?;
    let connection = Connected(client.connect());
    client.wait_for_connect().await.map_err(text)?;
    Ok((client, connection))
}

/// The name in the certificates of all nodes, whose addresses come from the cluster.
#[derive(Debug)]
struct ServerName(String);

impl HostMapping for ServerName {
    fn map(&self, _: &IpAddr, _: &str) -> Option<String> {
        Some(self.0.clone())
    }
}

fn builder(settings: &RedisSettings) -> Result<Builder, String> {
    let (servers, lookups) = (&settings.servers, &settings.lookups);
    let mut config = Config {
        server: server_config(settings),
        fail_fast: true,
        username: servers.user.clone(),
        ..Config::default()
    };
    if let Mode::Direct { auth, database, .. } = &lookups.mode {
        let password = auth.as_ref().map(|Auth { password, .. }| password.clone());
        config.password = password;
        config.database = u8::try_from(*database)
            .ok()
            .filter(|database| *database > 0);
    }
    if let Some(file) = &servers.password_file {
        let password = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        config.password = Some(password.trim_end().to_owned());
    }
    if let Some(tls) = &servers.tls {
        let connector = client_config(tls).map_err(|wrong| wrong.reason)?;
        let mut spoken = TlsConfig::from(TlsConnector::from(connector));
        if let Some(name) = &tls.server_name {
            spoken.hostnames = TlsHostMapping::Custom(Arc::new(ServerName(name.clone())));
        }
        config.tls = Some(spoken);
    }
    let mut builder = Builder::from_config(config);
    builder.with_connection_config(|connection| {
        let connect = Duration::from_millis(lookups.connect_timeout_millis);
        connection.connection_timeout = connect;
        connection.internal_command_timeout = connect;
        connection.max_command_attempts = 1;
        connection.max_command_buffer_len = lookups.max_waiting;
        connection.auto_client_setname = true;
        connection.reconnect_on_auth_error = true;
        connection.tcp.nodelay = Some(true);
        let dead = Duration::from_millis(lookups.dead_after_millis);
        connection.unresponsive.max_timeout = Some(dead);
        connection.unresponsive.interval = dead / 4;
    });
    builder.with_performance_config(|performance| {
        // Less than the core's, so that a slow node is an error before its lookups time out.
        let timeout = lookups.timeout_millis - lookups.timeout_millis / 4;
        performance.default_command_timeout = Duration::from_millis(timeout);
    });
    if servers.sentinel.is_none() {
        let (first, longest) = RECONNECT_MILLIS;
        builder.set_policy(ReconnectPolicy::new_exponential(0, first, longest, 2));
    }
    // A new master is a different Redis, which the core has to probe: the connection ends with the previous master.
    Ok(builder)
}

fn server_config(settings: &RedisSettings) -> ServerConfig {
    let addresses = settings.servers.addresses.iter();
    let hosts = addresses.filter_map(|address| {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        Some(Server::new(host, port.parse().ok()?))
    });
    let hosts = hosts.collect();
    match &settings.servers.sentinel {
        Some(service) => ServerConfig::Sentinel {
            hosts,
            service_name: service.clone(),
        },
        // After a failover the configured nodes may be the ones that are gone.
        None => ServerConfig::Clustered {
            hosts,
            policy: ClusterDiscoveryPolicy::UseCache,
        },
    }
}

#[cfg(test)]
mod tests;
