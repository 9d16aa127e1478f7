//! Redis: a master with a replica, or a cluster.

use super::secrets::Side;
use super::{DisturbedDeployment, Shape, subfolder};
use crate::certificates::Identity;
use crate::nemesis::part::{Part, Probe};
use crate::stack::{free_port, local, until};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

const CLI_LIMIT: Duration = Duration::from_secs(3);
const CLUSTER_LIMIT: Duration = Duration::from_secs(60);
/// Servers of [`Shape::Single`].
pub(super) const SERVERS: usize = 2;
const NODES: usize = 6;
/// Milliseconds of silence after which the other nodes of a cluster consider a node failed.
const NODE_TIMEOUT_MS: &str = "5000";
const REPLICATION: &str = "redis>redis";

/// Runs a command and returns the output of `redis-cli`; empty if the server does not answer.
pub(in crate::nemesis) async fn redis_cli(port: u16, command: &[&str]) -> String {
    let mut cli = tokio::process::Command::new("redis-cli");
    cli.args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(command)
        .kill_on_drop(true);
    let output = timeout(CLI_LIMIT, cli.output()).await;
    let output = output.ok().and_then(Result::ok);
    output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

fn server(port: u16, folder: &PathBuf) -> Command {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(["--repl-diskless-sync-delay", "0", "--dir"])
        .arg(folder)
        .process_group(0);
    command
}

impl DisturbedDeployment {
    /// Starts a master and a replica, which reaches it through a proxy. A failover swaps them. Control planes and Envoys
    /// connect over TLS.
    pub(super) async fn start_redis(&mut self) {
        [self.redis_ports, self.redis_tls_ports] =
            [(); 2].map(|()| (0..SERVERS).map(|_| free_port()).collect());
        let first = local(self.redis_ports[0]);
        let proxy = self.add_proxy(REPLICATION.to_owned(), first).await;
        let authorities = self.secrets.authorities(Side::Redis);
        for number in 0..SERVERS {
            let (port, master) = (self.redis_ports[number], self.master.clone());
            let name = format!("redis-{number}");
            let folder = subfolder(self.folder(), &name);
            let tls_port = self.redis_tls_ports[number].to_string();
            let (identity, authorities) = (self.secrets.identity(&name), authorities.clone());
            let part = Part::new(&name, self.folder(), Probe::Redis(port), move || {
                let mut command = server(port, &folder);
                command
                    .args(["--tls-port", &tls_port, "--tls-auth-clients", "no"])
                    .arg("--tls-cert-file")
                    .arg(&identity.certificate)
                    .arg("--tls-key-file")
                    .arg(&identity.key)
                    .arg("--tls-ca-cert-file")
                    .arg(&authorities);
                if master.load(Ordering::Relaxed) != number {
                    let port = proxy.port().to_string();
                    command.args(["--replicaof", &format!("127.0.0.1 {port}")]);
                }
                command
            });
            self.add_part(part).await;
        }
        self.await_replica().await;
    }

    /// Waits until the replica has copied the master, or for some seconds; returns whether it has.
    pub(in crate::nemesis) async fn await_replica(&self) -> bool {
        let port = self.redis_ports[1 - self.master.load(Ordering::Relaxed)];
        let copied = timeout(Duration::from_secs(20), async {
            while !redis_cli(port, &["INFO", "replication"])
                .await
                .contains("master_link_status:up")
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        copied.await.is_ok()
    }

    pub(in crate::nemesis) fn redis_port(&self, number: usize) -> u16 {
        self.redis_ports[number]
    }

    /// Address that control planes and Envoys connect to.
    pub(super) fn redis_over_tls(&self, number: usize) -> SocketAddr {
        local(self.redis_tls_ports[number])
    }

    /// Has a Redis reload its certificate, and control planes and Envoys reconnect.
    pub(super) async fn read_certificate(&self, number: usize) {
        let Identity { certificate, key } = self.secrets.identity(&format!("redis-{number}"));
        let [certificate, key] = [&certificate, &key].map(|file| file.to_str().expect("a path"));
        let files = ["tls-cert-file", certificate, "tls-key-file", key];
        let port = self.redis_ports[number];
        redis_cli(port, &[&["CONFIG", "SET"], &files[..]].concat()).await;
        for kind in ["normal", "pubsub"] {
            redis_cli(port, &["CLIENT", "KILL", "TYPE", kind]).await;
        }
    }

    pub(in crate::nemesis) fn redis_count(&self) -> usize {
        self.redis_ports.len()
    }

    /// Number of the master of [`Shape::Single`].
    pub(in crate::nemesis) fn master(&self) -> usize {
        self.master.load(Ordering::Relaxed)
    }

    /// Number of each master of a cluster that serves slots.
    pub(in crate::nemesis) async fn masters(&self) -> Vec<usize> {
        if self.shape == Shape::Single {
            return vec![self.master()];
        }
        for &port in &self.redis_ports {
            let nodes = redis_cli(port, &["CLUSTER", "NODES"]).await;
            let masters: Vec<usize> = nodes
                .lines()
                .filter_map(|line| self.master_of(line))
                .collect();
            if masters.len() >= 3 {
                return masters;
            }
        }
        Vec::new()
    }

    fn master_of(&self, line: &str) -> Option<usize> {
        let fields: Vec<&str> = line.split(' ').collect();
        let flags = fields.get(2)?;
        if !flags.contains("master") || flags.contains("fail") || fields.len() <= 8 {
            return None;
        }
        let port = fields.get(1)?.split('@').next()?.rsplit(':').next()?;
        self.node_at(port.parse().ok()?)
    }

    /// Node that announces that port, which is the port of its proxy.
    fn node_at(&self, port: u16) -> Option<usize> {
        (0..self.redis_ports.len())
            .find(|number| self.proxy(&format!(">redis-{number}")).address().port() == port)
    }

    /// Number of a replica of a master of a cluster.
    pub(in crate::nemesis) async fn replica_of(&self, master: usize) -> Option<usize> {
        if self.shape == Shape::Single {
            return Some(1 - master);
        }
        let port = self.redis_ports[master];
        let id = redis_cli(port, &["CLUSTER", "MYID"]).await;
        let nodes = redis_cli(port, &["CLUSTER", "NODES"]).await;
        nodes.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let is_replica = fields.get(2)?.contains("slave") && *fields.get(3)? == id.trim();
            let port = fields.get(1)?.split('@').next()?.rsplit(':').next()?;
            is_replica.then(|| self.node_at(port.parse().ok()?))?
        })
    }

    /// Promotes the replica to master for all parts.
    pub(in crate::nemesis) async fn change_places(&self) {
        let next = 1 - self.master();
        self.master.store(next, Ordering::Relaxed);
        redis_cli(self.redis_ports[next], &["REPLICAOF", "NO", "ONE"]).await;
        for (name, proxy) in self.proxies() {
            if name == REPLICATION {
                proxy.repoint(local(self.redis_ports[next]));
            } else if name.ends_with(">redis") {
                proxy.repoint(self.redis_over_tls(next));
            }
        }
    }

    /// Snapshot that a Redis loads when it starts.
    pub(in crate::nemesis) fn dump(&self, number: usize) -> PathBuf {
        self.folder().join(format!("redis-{number}/dump.rdb"))
    }

    /// Removes the snapshot, so that a Redis starts empty.
    pub(in crate::nemesis) fn remove_dump(&self, number: usize) {
        let _ = fs::remove_file(self.dump(number)); // it may not exist
    }

    /// Each node announces its proxy, through which all others reach it.
    pub(super) async fn start_cluster(&mut self) {
        let mut addresses = Vec::new();
        for number in 0..NODES {
            let (port, bus) = (free_port(), free_port().to_string());
            self.redis_ports.push(port);
            let address = self
                .add_proxy(format!(">redis-{number}"), local(port))
                .await;
            let announced = address.port().to_string();
            addresses.push(address.to_string());
            let name = format!("redis-{number}");
            let folder = subfolder(self.folder(), &name);
            let part = Part::new(&name, self.folder(), Probe::Redis(port), move || {
                let mut command = server(port, &folder);
                command
                    .args(["--cluster-enabled", "yes", "--cluster-port", &bus])
                    .args(["--cluster-node-timeout", NODE_TIMEOUT_MS])
                    .args(["--cluster-replica-validity-factor", "0"])
                    .args(["--cluster-announce-ip", "127.0.0.1"])
                    .args(["--cluster-announce-port", &announced])
                    .args(["--cluster-announce-bus-port", &bus]);
                command
            });
            self.add_part(part).await;
        }
        let mut create = tokio::process::Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(&addresses).args([
            "--cluster-replicas",
            "1",
            "--cluster-yes",
        ]);
        let output = create.output().await.expect("redis-cli");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "redis-cli: {printed}");
        until("the cluster serves all slots", CLUSTER_LIMIT, async || {
            self.is_cluster_whole().await.then_some(())
        })
        .await;
    }

    /// True if every node serves and every replica has copied its master.
    pub(in crate::nemesis) async fn is_cluster_whole(&self) -> bool {
        let mut copies = 0;
        for &port in &self.redis_ports {
            let info = redis_cli(port, &["CLUSTER", "INFO"]).await;
            if !info.contains("cluster_state:ok") {
                return false;
            }
            let replication = redis_cli(port, &["INFO", "replication"]).await;
            copies += usize::from(replication.contains("master_link_status:up"));
        }
        copies == NODES / 2
    }

    pub(super) fn cluster_url(&self) -> String {
        let addresses: Vec<String> = (0..self.redis_ports.len())
            .filter_map(|number| self.proxies.get(&format!(">redis-{number}")))
            .map(|proxy| proxy.address().to_string())
            .collect();
        let [first, others @ ..] = addresses.as_slice() else {
            return String::new();
        };
        let others: Vec<String> = others.iter().map(|node| format!("node={node}")).collect();
        format!("redis-cluster://{first}?{}", others.join("&"))
    }
}
