//! A Redis master, its replica, and a Sentinel, which promotes the replica if the master dies.

use super::{PrivateServer, RedisServer};
use crate::stack::{Process, until};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The three servers.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The master first.
    servers: Vec<RedisServer>,
    sentinel: PrivateServer,
}

impl RedisSentinel {
    /// Name of the master in the Sentinel.
    pub const NAME: &str = "links";

    /// Starts them, and returns when the replica can be promoted.
    pub async fn start() -> Self {
        let master = RedisServer::start().await;
        let port = master.port();
        let options = ["--replicaof", "127.0.0.1", &port.to_string()];
        let replica = RedisServer::launch(None, &options, &[]).await;
        let launch = |folder: &Path, own: u16| spawn(folder, own, port);
        let sentinel = Self {
            sentinel: PrivateServer::start("sentinel", launch),
            servers: vec![master, replica],
        };
        until("the Sentinel knows the replica", LIMIT, async || {
            let replica = sentinel.servers[1].port().to_string();
            let known = sentinel.ask("REPLICAS");
            let copied = sentinel.servers[1].ask(&["INFO", "replication"]);
            let is_copied = copied.contains("master_link_status:up");
            (is_copied && known.lines().any(|line| line == replica)).then_some(())
        })
        .await;
        sentinel
    }

    /// The port of the Sentinel.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.sentinel.port()
    }

    /// URL of the master for control planes.
    #[must_use]
    pub fn url(&self) -> String {
        let (port, name) = (self.port(), Self::NAME);
        format!("redis-sentinel://127.0.0.1:{port}?sentinelServiceName={name}")
    }

    /// The master.
    #[must_use]
    pub fn master(&self) -> &RedisServer {
        &self.servers[0]
    }

    /// Kills the master, and returns when the replica has been promoted.
    pub async fn fail_over(&mut self) {
        self.servers.remove(0).kill();
        let port = self.master().port().to_string();
        until("the replica is the master", LIMIT, async || {
            let named = self.ask("GET-MASTER-ADDR-BY-NAME");
            let role = self.master().ask(&["ROLE"]);
            (named.lines().any(|line| line == port) && role.starts_with("master")).then_some(())
        })
        .await;
    }

    /// Reply of the Sentinel to a command about the master's name.
    fn ask(&self, command: &str) -> String {
        let output = Command::new("redis-cli")
            .args([
                "-p",
                &self.port().to_string(),
                "SENTINEL",
                command,
                Self::NAME,
            ])
            .output();
        let output = output.expect("redis-cli is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn spawn(folder: &Path, port: u16, master: u16) -> Process {
    let name = RedisSentinel::NAME;
    let file = folder.join("sentinel.conf");
    let settings = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {name} 127.0.0.1 {master} 1\n\
         sentinel down-after-milliseconds {name} 500\nsentinel failover-timeout {name} 3000\n",
        folder.display()
    );
    fs::write(&file, settings).expect("a file");
    let mut command = Command::new("redis-server");
    command.arg(&file).arg("--sentinel").process_group(0);
    let process = Process::start("redis-sentinel", command, folder.join("log"));
    fs::write(folder.join("pid"), process.id().to_string()).expect("a file");
    process
}
