//! A control plane on a database that it shares with others.

use edgelink_tests::stack::{EDGE_TOKEN, Process, Signal, edgelink_binary, free_port};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One of several control planes.
pub(crate) struct Replica {
    name: String,
    folder: PathBuf,
    port: u16,
    variables: Vec<(String, String)>,
    process: Process,
}

impl Replica {
    /// Starts one with its files in `folder`, which all replicas share, and returns when it is ready.
    pub(crate) async fn start(name: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(own).collect();
        let port = free_port();
        let mut replica = Self {
            process: launch(name, folder, port, &variables),
            name: name.to_owned(),
            folder: folder.to_owned(),
            port,
            variables,
        };
        replica.ready().await;
        replica
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The admin key, which all replicas take.
    pub(crate) fn key(&self) -> String {
        let key = std::fs::read_to_string(self.folder.join("admin-key"));
        key.expect("an admin key").trim().to_owned()
    }

    /// `kill -9`, and a start that is not waited for.
    pub(crate) fn crash(&mut self) {
        self.process.kill();
        self.process = launch(&self.name, &self.folder, self.port, &self.variables);
    }

    /// `kill -9`, and a start.
    pub(crate) async fn crash_and_start(&mut self) {
        self.crash();
        self.ready().await;
    }

    /// A clean stop, and a start.
    pub(crate) async fn restart(&mut self) {
        self.process.terminate().await;
        self.process = launch(&self.name, &self.folder, self.port, &self.variables);
        self.ready().await;
    }

    pub(crate) fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn cont(&self) {
        self.process.signal(Signal::CONT);
    }

    async fn ready(&mut self) {
        let url = format!("{}/health/ready", self.url());
        self.process
            .await_ready(async || {
                let answer = reqwest::get(&url).await;
                answer.is_ok_and(|answer| answer.status().is_success())
            })
            .await;
    }
}

fn launch(name: &str, folder: &Path, port: u16, variables: &[(String, String)]) -> Process {
    let mut command = Command::new(edgelink_binary());
    command
        .arg("serve")
        .env("EDGELINK_SERVER_LISTEN", format!("127.0.0.1:{port}"))
        .env("EDGELINK_LINKS_DOMAINS", "go.example")
        .env("EDGELINK_AUTH_EDGE_TOKENS", EDGE_TOKEN)
        .env("EDGELINK_AUTH_ADMIN_KEY_FILE", folder.join("admin-key"))
        .envs(variables.iter().cloned());
    Process::start(name, command, folder.join(format!("{name}.log")))
}
