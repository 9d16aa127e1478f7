//! A Redis Cluster, or the master named by Sentinels, presented to the core as a single connection.
//!
//! The commands of the core are decoded from its bytes and passed to a client of `fred`, which tracks the nodes, follows
//! redirections, and reconnects. Answers are returned in the order of the commands; [`nodes`] ensures that answers of one node do
//! not wait for another node that is silent.

mod nodes;

use self::nodes::{Node, Nodes};
use super::{Receiver, client_config};
use edgelink_filter_core::host::StreamToken;
use edgelink_filter_core::resp::client::{Auth, Mode};
use edgelink_filter_core::resp::decode::Decoder;
use edgelink_filter_core::resp::{Reply, encode};
use edgelink_filter_core::settings::RedisSettings;
use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, HostMapping, ReconnectPolicy, Server, ServerConfig, TlsConfig,
    TlsConnector, TlsHostMapping,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, Value};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// First and longest pause before reconnecting to a node, in milliseconds.
const RECONNECT_MILLIS: (u32, u32) = (50, 2_000);

/// Number of consecutive error answers that end the connection: the core reconnects, and asks the control plane until then.
const FAILURES_TO_END: usize = 64;

/// The command of lookups; any other command only gets a stub answer.
const LOOKUP: &[u8] = b"HMGET";

/// Transports commands and answers, until the core is done with the connection, or no node can be reached.
pub(super) async fn run(
    receiver: &'static dyn Receiver,
    token: StreamToken,
    settings: &RedisSettings,
    unsent: UnboundedReceiver<Vec<u8>>,
) -> io::Result<()> {
    carry(settings, unsent, |bytes| receiver.on_data(token, bytes)).await
}

/// Transports commands from `unsent`, and answers to `tell`, which returns false to end the connection.
async fn carry(
    settings: &RedisSettings,
    mut unsent: UnboundedReceiver<Vec<u8>>,
    mut tell: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let (client, mut connection) = connect(settings).await.map_err(io::Error::other)?;
    let mut failures = 0;
    let mut decoder = Decoder::new(settings.lookups.limits);
    let mut answers = FuturesOrdered::new();
    let mut nodes = Nodes::default();
    loop {
        let mut bytes = Vec::new();
        tokio::select! {
            sent = unsent.recv() => {
                let Some(sent) = sent else {
                    return Ok(());
                };
                let mut rest = sent.as_slice();
                while let Some(command) = decoder.next(&mut rest).map_err(io::Error::other)? {
                    let command = words(command);
                    let node = nodes.of(&client, command.get(1));
                    answers.push_back(ask(client.clone(), node, command));
                }
                continue;
            }
            Some(answer) = answers.next() => failures = write(&answer, failures, &mut bytes),
            ended = &mut connection.0 => {
                let ended = ended.map_err(io::Error::other)?;
                return ended.map_err(|error| io::Error::other(error.details().to_owned()));
            }
        }
        // Further available answers are sent along.
        while let Some(Some(answer)) = answers.next().now_or_never() {
            failures = write(&answer, failures, &mut bytes);
        }
        if !tell(&bytes) {
            return Ok(());
        }
        if failures >= FAILURES_TO_END {
            return Err(io::Error::other("no node answers"));
        }
    }
}

/// The words of a command.
fn words(command: Reply<'_>) -> Vec<Vec<u8>> {
    let Reply::Array(words) = command else {
        return Vec::new();
    };
    words
        .filter_map(|word| match word {
            Reply::Bulk(word) => Some(word.to_vec()),
            _ => None,
        })
        .collect()
}

/// The answer to a command.
enum Answer {
    Simple(&'static [u8]),
    Strings(Values),
    Error(String),
}

async fn ask(client: Client, node: Arc<Node>, command: Vec<Vec<u8>>) -> Answer {
    match command.first().map(Vec::as_slice) {
        Some(LOOKUP) => {
            let found = node.ask(look_up(client, command)).await;
            match found {
                Ok(values) => Answer::Strings(values),
                Err(error) => Answer::Error(error.details().replace(['\r', '\n'], " ")),
            }
        }
        Some(b"PING") => Answer::Simple(b"PONG"),
        // Part of the core's handshake: the client itself logs in and selects the database.
        _ => Answer::Simple(b"OK"),
    }
}

/// The answer of a node to a lookup.
type Values = Vec<Option<Vec<u8>>>;

async fn look_up(client: Client, command: Vec<Vec<u8>>) -> Result<Values, Error> {
    let arguments = command.into_iter().skip(1);
    let arguments: Vec<_> = arguments.map(|word| Value::Bytes(word.into())).collect();
    let lookup = CustomCommand::new_static("HMGET", ClusterHash::FirstKey, false);
    client.custom(lookup, arguments).await
}

/// Writes an answer. Takes and returns the number of consecutive failures.
fn write(answer: &Answer, failures: usize, out: &mut Vec<u8>) -> usize {
    match answer {
        Answer::Simple(word) => {
            out.push(b'+');
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        Answer::Error(message) => {
            out.extend_from_slice(format!("-ERR {message}\r\n").as_bytes());
            return failures + 1;
        }
        Answer::Strings(values) => {
            encode::command(values.len(), out);
            for value in values {
                match value {
                    Some(value) => encode::argument(value, out),
                    None => out.extend_from_slice(b"$-1\r\n"),
                }
            }
        }
    }
    0
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
        let connector = client_config(tls).map_err(|error| error.to_string())?;
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
        // Answers wait for earlier ones: a node that falls silent must not use up the whole timeout of the others.
        let half = Duration::from_millis(lookups.timeout_millis.div_ceil(2));
        performance.default_command_timeout = half;
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
