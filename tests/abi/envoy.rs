//! Real Envoy with the probe.

use super::peer::Peer;
use super::{CONFIGURATION, ProbedHost};
use crate::scenario::{Answer, Request};
use crate::stack::{
    Connection, Process, Stats, envoy_binary, free_port, local, probe_module, request_bytes, until,
};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(10);

/// A running Envoy, its peer, and a persistent connection.
#[derive(Debug)]
pub struct ProbedEnvoy {
    edge: SocketAddr,
    admin: SocketAddr,
    _process: Process,
    _peer: Peer,
    _folder: TempDir,
}

impl ProbedEnvoy {
    /// Starts Envoy.
    pub async fn start() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let peer = Peer::start().await;
        let [edge, admin, grpc] = [(); 3].map(|()| local(free_port()));
        let file = folder.path().join("bootstrap.yaml");
        fs::write(&file, bootstrap(edge, admin, grpc, peer.address())).expect("a file");
        let mut command = Command::new(envoy_binary());
        command.args([
            "--concurrency",
            "1",
            "--use-dynamic-base-id",
            "-l",
            "warn",
            "-c",
        ]);
        command.arg(&file);
        let mut process = Process::start("envoy", command, folder.path().join("envoy.log"));
        process
            .await_ready(
                async || matches!(fetch(edge, "/").await, Some(answer) if answer.status == 200),
            )
            .await;
        Self {
            edge,
            admin,
            _process: process,
            _peer: peer,
            _folder: folder,
        }
    }

    async fn figure(&self, name: &str) -> u64 {
        let answer = fetch(self.admin, &format!("/stats?filter=^{name}$")).await;
        let answer = answer.expect("statistics");
        Stats::parse(&String::from_utf8_lossy(&answer.body)).get(name)
    }
}

fn bootstrap(edge: SocketAddr, admin: SocketAddr, grpc: SocketAddr, peer: SocketAddr) -> String {
    let values = [
        ("edge", edge.port().to_string()),
        ("admin", admin.port().to_string()),
        ("grpc", grpc.port().to_string()),
        ("peer", peer.port().to_string()),
        ("configuration", CONFIGURATION.to_owned()),
        ("module", probe_module().display().to_string()),
    ];
    let template = include_str!("bootstrap.yaml").to_owned();
    values.iter().fold(template, |text, (word, value)| {
        text.replace(&format!("{{{word}}}"), value)
    })
}

async fn fetch(address: SocketAddr, path: &str) -> Option<Answer> {
    let mut connection = Connection::open(address).await.ok()?;
    connection.exchange(&Request::get(path), b"").await.ok()
}

impl ProbedHost for ProbedEnvoy {
    async fn visit(&mut self, request: Request) -> Answer {
        let mut connection = Connection::open(self.edge).await.expect("a connection");
        connection.exchange(&request, b"").await.expect("an answer")
    }

    async fn leave(&mut self, request: Request) {
        let before = self.figure("http.edge.downstream_rq_total").await;
        let mut connection = Connection::open(self.edge).await.expect("a connection");
        let sent = connection.send(&request_bytes(&request, b"")).await;
        sent.expect("a connection that takes a request");
        until("Envoy sees the request", LIMIT, async || {
            let seen = self.figure("http.edge.downstream_rq_total").await;
            (seen > before).then_some(())
        })
        .await;
    }

    /// The backoff is a second and up to another half, counted from the VM's last start.
    async fn await_reload(&mut self) {
        tokio::time::sleep(Duration::from_millis(1600)).await;
    }

    async fn idle(&mut self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
