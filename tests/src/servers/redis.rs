//! A private Redis, alone or as a cluster.

use super::{PrivateServer, is_private_server};
use crate::certificates::Identity;
use crate::stack::{Process, free_port, until};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longest time for a cluster to form, or to elect a new master, on a machine that also runs builds.
const CLUSTER_LIMIT: Duration = Duration::from_secs(60);

/// Milliseconds of silence after which the other nodes of a cluster consider a node failed.
const NODE_TIMEOUT_MS: &str = "1000";

/// A private Redis without persistence: it is empty whenever it starts.
#[derive(Debug)]
pub struct RedisServer {
    server: PrivateServer,
    password: Option<String>,
    options: Vec<String>,
    /// Options of `redis-cli`.
    client_options: Vec<String>,
}

is_private_server!(RedisServer);

impl RedisServer {
    /// Starts a server.
    pub async fn start() -> Self {
        Self::launch(None, &[], &[]).await
    }

    /// Starts a server that requires this password.
    pub async fn with_password(password: &str) -> Self {
        Self::launch(Some(password), &[], &[]).await
    }

    /// Starts a server that requires this password and accepts TLS only, as `identity`, issued by `authority`. The URL
    /// begins with `rediss`.
    pub async fn with_tls(password: &str, identity: &Identity, authority: &Path) -> Self {
        let [certificate, key, authority] = [&identity.certificate, &identity.key, authority]
            .map(|file| file.to_str().expect("a path"));
        let options = [
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            certificate,
            "--tls-key-file",
            key,
            "--tls-ca-cert-file",
            authority,
        ];
        Self::launch(Some(password), &options, &["--tls", "--cacert", authority]).await
    }

    pub(super) async fn launch(
        password: Option<&str>,
        options: &[&str],
        client_options: &[&str],
    ) -> Self {
        let owned = |options: &[&str]| -> Vec<String> {
            options.iter().map(|&option| option.to_owned()).collect()
        };
        let mut options = owned(options);
        if let Some(password) = password {
            options.extend(["--requirepass".to_owned(), password.to_owned()]);
        }
        let mut server = Self {
            server: PrivateServer::start("redis", |folder, port| spawn(folder, port, &options)),
            password: password.map(str::to_owned),
            options,
            client_options: owned(client_options),
        };
        server.await_ready().await;
        server
    }

    async fn await_ready(&mut self) {
        let (port, password) = (self.port(), self.password.clone());
        let options = self.client_options.clone();
        let ping = || ask_with(port, password.as_deref(), &options, &["PING"]);
        self.server
            .process
            .await_ready(async || ping().trim() == "PONG")
            .await;
    }

    /// URL, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.password.as_ref();
        let password = password.map_or(String::new(), |password| format!(":{password}@"));
        let tls = if self.client_options.is_empty() {
            ""
        } else {
            "s"
        };
        format!("redis{tls}://{password}127.0.0.1:{}", self.port())
    }

    /// Runs a command and returns the output of `redis-cli`.
    #[must_use]
    pub fn ask(&self, command: &[&str]) -> String {
        let password = self.password.as_deref();
        ask_with(self.port(), password, &self.client_options, command)
    }

    /// Number of calls of a command since the start, by `INFO commandstats`.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.ask(&["INFO", "commandstats"]);
        let prefix = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        let digits = calls.and_then(|calls| calls.split(',').next());
        digits.map_or(0, |digits| digits.parse().expect("a number of calls"))
    }

    /// Restarts the server on its port, empty, killing it first if it is still running.
    pub async fn restart(&mut self) {
        let options = &self.options;
        self.server
            .relaunch(|folder, port| spawn(folder, port, options));
        self.await_ready().await;
    }
}

/// A Redis Cluster of three masters, each with one replica.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster, and returns when all slots are served.
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..6 {
            let bus = free_port().to_string();
            let options = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                NODE_TIMEOUT_MS,
                // A replica that has not copied its master yet is not elected in the master's place.
                "--repl-diskless-sync-delay",
                "0",
            ];
            nodes.push(RedisServer::launch(None, &options, &[]).await);
        }
        form(&nodes);
        let cluster = Self { nodes };
        cluster.await_all_slots().await;
        cluster.await_copies().await;
        cluster
    }

    /// The URL, with all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let [first, others @ ..] = self.nodes.as_slice() else {
            unreachable!("a cluster has nodes");
        };
        let others: Vec<String> = others
            .iter()
            .map(|node| format!("node=127.0.0.1:{}", node.port()))
            .collect();
        format!(
            "redis-cluster://127.0.0.1:{}?{}",
            first.port(),
            others.join("&")
        )
    }

    /// The ports of all nodes, the first masters first.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port()).collect()
    }

    /// Runs a command on the node that has the key, and returns the output of `redis-cli`.
    #[must_use]
    pub fn ask(&self, command: &[&str]) -> String {
        let node = self.running().expect("a node that runs");
        ask_with(node.port(), None, &["-c".to_owned()], command)
    }

    /// Kills the master that has `key`, and returns its port.
    pub fn kill_master_of(&mut self, key: &str) -> u16 {
        let port = self.master_of(key);
        let node = self.nodes.iter_mut().find(|node| node.port() == port);
        node.expect("a node").kill();
        port
    }

    /// Has the master that has `key` swap roles with its replica. Returns when it is a replica.
    pub async fn demote_master_of(&self, key: &str) {
        let port = self.master_of(key);
        let demoted = self.nodes.iter().find(|node| node.port() == port);
        let demoted = demoted.expect("a node");
        let id = demoted.ask(&["CLUSTER", "MYID"]);
        // A cluster that has just begun may not know its replicas yet.
        let replica = until("a replica of the master", CLUSTER_LIMIT, async || {
            let nodes = demoted.ask(&["CLUSTER", "NODES"]);
            let replica = nodes.lines().find(|line| {
                let is_of_master = |field| field == Some(id.trim());
                line.contains("slave") && is_of_master(line.split(' ').nth(3))
            });
            replica.and_then(port_of)
        })
        .await;
        let _ = ask(replica, None, &["CLUSTER", "FAILOVER"]);
        until("the master is a replica", CLUSTER_LIMIT, async || {
            let role = demoted.ask(&["ROLE"]);
            role.starts_with("slave").then_some(())
        })
        .await;
    }

    /// The port of the master that has `key`.
    fn master_of(&self, key: &str) -> u16 {
        let slot = self.ask(&["CLUSTER", "KEYSLOT", key]);
        let slot: u32 = slot.trim().parse().expect("a slot");
        let nodes = self.ask(&["CLUSTER", "NODES"]);
        let port = nodes.lines().find_map(|line| master_of(line, slot));
        port.expect("a master of the slot")
    }

    /// Waits until every slot has a master that answers.
    pub async fn await_all_slots(&self) {
        until("the cluster serves all slots", CLUSTER_LIMIT, async || {
            let is_ok = |node: &RedisServer| {
                let info = ask(node.port(), None, &["CLUSTER", "INFO"]);
                info.is_empty() || info.contains("cluster_state:ok")
            };
            self.nodes.iter().all(is_ok).then_some(())
        })
        .await;
    }

    /// Waits until every replica has copied its master.
    async fn await_copies(&self) {
        until(
            "the replicas have copied their masters",
            CLUSTER_LIMIT,
            async || {
                let replication = self
                    .nodes
                    .iter()
                    .map(|node| node.ask(&["INFO", "replication"]));
                let copies = replication.filter(|info| info.contains("master_link_status:up"));
                (copies.count() == 3).then_some(())
            },
        )
        .await;
    }

    fn running(&self) -> Option<&RedisServer> {
        self.nodes
            .iter()
            .find(|node| ask(node.port(), None, &["PING"]).trim() == "PONG")
    }
}

/// Port in a line of `CLUSTER NODES`, if the line is about a working master with `slot`.
fn master_of(line: &str, slot: u32) -> Option<u16> {
    let fields: Vec<&str> = line.split(' ').collect();
    let is_master = fields.get(2)?.contains("master") && !fields.get(2)?.contains("fail");
    let has_slot = fields.get(8..)?.iter().any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse::<u32>(), last.parse::<u32>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    });
    (is_master && has_slot).then(|| port_of(line)).flatten()
}

/// Port in a line of `CLUSTER NODES`.
fn port_of(line: &str) -> Option<u16> {
    let address = line.split(' ').nth(1)?.split('@').next()?;
    address.rsplit(':').next()?.parse().ok()
}

fn form(nodes: &[RedisServer]) {
    let addresses = nodes
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port()));
    let output = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(addresses)
        .args(["--cluster-replicas", "1", "--cluster-yes"])
        .output()
        .expect("redis-cli");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "redis-cli --cluster create: {printed}"
    );
}

fn spawn(folder: &Path, port: u16, options: &[String]) -> Process {
    let mut command = Command::new("redis-server");
    let port = port.to_string();
    let is_tls = options.iter().any(|option| option == "--tls-cert-file");
    let ports: &[&str] = if is_tls {
        &["--port", "0", "--tls-port", &port]
    } else {
        &["--port", &port]
    };
    command
        .args(ports)
        .args(["--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder)
        .arg("--pidfile")
        .arg(folder.join("pid"))
        .args(options)
        .process_group(0);
    let _ = fs::remove_file(folder.join("nodes.conf"));
    let server = Process::start("redis-server", command, folder.join("log"));
    // Redis writes its own pid file only after it answers.
    fs::write(folder.join("pid"), server.id().to_string()).expect("a file");
    server
}

fn ask(port: u16, password: Option<&str>, command: &[&str]) -> String {
    ask_with(port, password, &[], command)
}

fn ask_with(port: u16, password: Option<&str>, options: &[String], command: &[&str]) -> String {
    let mut cli = Command::new("redis-cli");
    cli.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    if let Some(password) = password {
        cli.env("REDISCLI_AUTH", password);
    }
    let output = cli.args(options).args(command).output();
    let output = output.expect("redis-cli is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
