//! A control plane on the database.

use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::stack::{EDGE_TOKEN, Process, edgelink_binary, free_port, until};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time for a control plane to scan all keys.
const LIMIT: Duration = Duration::from_secs(600);

/// A running control plane.
pub(crate) struct Replica {
    process: Process,
    address: SocketAddr,
    /// Seconds from the start until it was ready.
    pub(crate) ready: f64,
    /// Seconds from the start until it had scanned all keys.
    pub(crate) complete: f64,
}

impl Replica {
    /// Starts a control plane, and returns when it has scanned all keys.
    pub(crate) async fn start(folder: &Path, url: &str) -> Self {
        Self::start_with(folder, url, &[]).await
    }

    /// Starts a control plane with further settings, as environment variables.
    pub(crate) async fn start_with(folder: &Path, url: &str, settings: &[(&str, &str)]) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let start = Instant::now();
        let mut process = launch(folder, url, address, settings);
        let health = format!("http://{address}/health/ready");
        process
            .await_ready(async || {
                let answer = reqwest::get(&health).await;
                answer.is_ok_and(|answer| answer.status().is_success())
            })
            .await;
        let ready = start.elapsed().as_secs_f64();
        until("all keys are known", LIMIT, async || {
            process.log().contains("all keys are known").then_some(())
        })
        .await;
        Self {
            process,
            address,
            ready,
            complete: start.elapsed().as_secs_f64(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Stops it, cleanly.
    pub(crate) async fn stop(mut self) {
        self.process.terminate().await;
    }
}

/// The admin key, accepted by all control planes ever started in `folder`.
pub(crate) fn admin_key(folder: &Path) -> String {
    let key = std::fs::read_to_string(folder.join("admin-key"));
    key.expect("an admin key").trim().to_owned()
}

fn launch(folder: &Path, url: &str, address: SocketAddr, settings: &[(&str, &str)]) -> Process {
    let mut command = Command::new(edgelink_binary());
    command
        .arg("serve")
        .env("EDGELINK_SERVER_LISTEN", address.to_string())
        .env("EDGELINK_STORE_URL", url)
        .env("EDGELINK_LINKS_DOMAINS", DOMAIN)
        .env("EDGELINK_AUTH_EDGE_TOKENS", EDGE_TOKEN)
        .env("EDGELINK_AUTH_ADMIN_KEY_FILE", folder.join("admin-key"))
        .envs(settings.iter().copied());
    let log = folder.join(format!("{}.log", address.port()));
    Process::start("control plane", command, log)
}
