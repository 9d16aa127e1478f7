//! The disturbed deployment: control planes, MariaDB, Redis and Envoys, with one of our proxies between each pair.

mod database;
mod edges;
mod redis;
mod secrets;

use super::clock;
use super::part::{Part, Probe};
use super::proxy::Proxy;
use crate::servers::Keeper;
use crate::stack::{edgelink_binary, free_port, local};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub(super) use edges::Listener;
pub(super) use redis::redis_cli;
pub(super) use secrets::Side;

/// Number of control planes.
pub(super) const CONTROL_PLANES: usize = 2;
/// Number of Envoys.
pub(super) const ENVOYS: usize = 2;
/// Worker threads of each.
pub(super) const WORKERS: usize = 2;
/// Visits that a worker leases at once, at most.
pub(super) const MAX_BLOCK: u64 = 20;
/// Duration of a lease, and how long it is awaited after that.
pub(super) const VISITS_LEASE: Duration = Duration::from_secs(2);
pub(super) const VISITS_GRACE: Duration = Duration::from_secs(8);
/// Longest time for a part to start, on a machine that also runs builds.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that a control plane waits for an answer from the receiver.
pub(super) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// Log filter that shows how each change reaches the edges.
const LOG: &str =
    "info,edgelink_feed=debug,edgelink_feed::publisher=debug,edgelink_http::edge_api::feed=debug";
const CODE_KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Redis topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A master with a replica, which Envoys query directly.
    Single,
    /// Redis Cluster of three masters and three replicas, which Envoys query through their pool.
    Cluster,
}

/// The running deployment. All processes end with it, even if the test is killed before it is dropped.
pub(super) struct DisturbedDeployment {
    shape: Shape,
    /// By name: `cp-0`, `envoy-1`, `mariadb`, `redis-0`, ...
    parts: BTreeMap<String, Arc<Part>>,
    /// By name: `cp-0>mariadb`, `envoy-1>cp-0`, ... In a cluster each node has one, `>redis-0`, which all others use.
    proxies: BTreeMap<String, Proxy>,
    control_planes: Vec<SocketAddr>,
    /// Addresses of the edge API of the control planes, over TLS.
    edge_apis: Vec<SocketAddr>,
    stray: SocketAddr,
    is_stray_up: AtomicBool,
    envoys: Vec<edges::EdgeEnvoy>,
    redis_ports: Vec<u16>,
    /// Of [`Shape::Single`].
    redis_tls_ports: Vec<u16>,
    /// Of the two Redis of [`Shape::Single`], the one that is the master.
    master: Arc<AtomicUsize>,
    admin_key: String,
    database: database::Database,
    secrets: secrets::Secrets,
    folder: TempDir,
    _keeper: Keeper,
}

impl DisturbedDeployment {
    /// Starts the deployment, and returns once everything serves.
    ///
    /// # Panics
    /// Panics if it does not.
    pub(super) async fn start(shape: Shape) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("edgelink-nemesis-")
            .tempdir();
        let folder = folder.expect("a temporary folder");
        let keeper = Keeper::of(folder.path());
        clock::compile(folder.path());
        let mut deployment = Self {
            shape,
            parts: BTreeMap::new(),
            proxies: BTreeMap::new(),
            control_planes: Vec::new(),
            edge_apis: Vec::new(),
            stray: local(free_port()),
            is_stray_up: AtomicBool::new(false),
            envoys: Vec::new(),
            redis_ports: Vec::new(),
            redis_tls_ports: Vec::new(),
            master: Arc::new(AtomicUsize::new(0)),
            admin_key: String::new(),
            database: database::Database::install(folder.path()),
            secrets: secrets::Secrets::make(folder.path()),
            folder,
            _keeper: keeper,
        };
        deployment.start_database().await;
        match shape {
            Shape::Single => deployment.start_redis().await,
            Shape::Cluster => deployment.start_cluster().await,
        }
        deployment.start_control_planes().await;
        deployment.start_envoys().await;
        deployment
    }

    /// Redis topology.
    #[must_use]
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// True if there is only one master.
    pub(super) fn is_single(&self) -> bool {
        self.shape == Shape::Single
    }

    /// Folder with the logs.
    #[must_use]
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn part(&self, name: &str) -> &Arc<Part> {
        let part = self.parts.get(name);
        part.unwrap_or_else(|| panic!("there is no part '{name}'"))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.parts.values()
    }

    pub(super) fn proxy(&self, name: &str) -> &Proxy {
        let proxy = self.proxies.get(name);
        proxy.unwrap_or_else(|| panic!("there is no proxy '{name}'"))
    }

    pub(super) fn proxies(&self) -> impl Iterator<Item = (&str, &Proxy)> {
        self.proxies
            .iter()
            .map(|(name, proxy)| (name.as_str(), proxy))
    }

    /// Address of a control plane.
    pub(super) fn control_plane(&self, number: usize) -> SocketAddr {
        self.control_planes[number]
    }

    /// Address of the control plane without Redis, while it runs.
    pub(super) fn stray(&self) -> Option<SocketAddr> {
        self.is_stray_up
            .load(Ordering::Relaxed)
            .then_some(self.stray)
    }

    /// Sets whether visitors may use the control plane without Redis.
    pub(super) fn set_stray(&self, is_up: bool) {
        self.is_stray_up.store(is_up, Ordering::Relaxed);
    }

    pub(super) fn admin_key(&self) -> &str {
        &self.admin_key
    }

    async fn add_part(&mut self, part: Part) {
        part.start();
        let is_ready = part.await_ready(START_LIMIT).await;
        let log = fs::read_to_string(self.folder().join(format!("{}.log", part.name)));
        assert!(
            is_ready,
            "{} does not start: {}",
            part.name,
            log.unwrap_or_default()
        );
        self.parts.insert(part.name.clone(), Arc::new(part));
    }

    async fn add_proxy(&mut self, name: String, target: SocketAddr) -> SocketAddr {
        let proxy = Proxy::start(target).await;
        let address = proxy.address();
        self.proxies.insert(name, proxy);
        address
    }

    async fn start_control_planes(&mut self) {
        for number in 0..CONTROL_PLANES {
            self.start_control_plane(number).await;
        }
        let (address, folder) = (self.stray, self.folder().to_owned());
        let database = self.database.address();
        let database = self.add_proxy("stray>mariadb".to_owned(), database).await;
        let stray = Part::new(
            "stray",
            &folder.clone(),
            Probe::Http(address, "/health/live"),
            move || serve(&folder, address, database),
        );
        self.parts.insert("stray".to_owned(), Arc::new(stray));
        let key = fs::read_to_string(self.folder().join("admin-key"));
        key.expect("the admin key")
            .trim()
            .clone_into(&mut self.admin_key);
    }

    async fn start_control_plane(&mut self, number: usize) {
        let name = format!("cp-{number}");
        let database = self.database.address();
        let database = self.add_proxy(format!("{name}>mariadb"), database).await;
        let mut redis_url = self.cluster_url();
        if self.shape == Shape::Single {
            let redis = self.redis_over_tls(0);
            let proxy = self.add_proxy(format!("{name}>redis"), redis).await;
            redis_url = format!("rediss://{proxy}");
        }
        let [address, edge_api] = [(); 2].map(|()| local(free_port()));
        let folder = self.folder().to_owned();
        let secrets = self.secrets.of_control_plane(&name, self.shape);
        let run = move || {
            let mut command = serve(&folder, address, database);
            command
                .env("EDGELINK_REDIS_URL", &redis_url)
                .env("EDGELINK_SERVER_EDGE_LISTEN", edge_api.to_string())
                .envs(secrets.clone());
            command
        };
        let probe = Probe::Http(address, "/health/ready");
        let part = Part::new(&name, self.folder(), probe, run);
        self.control_planes.push(address);
        self.edge_apis.push(edge_api);
        self.add_part(part).await;
    }
}

/// Command of a control plane; all of them share the folder with the admin key.
fn serve(folder: &Path, address: SocketAddr, database: SocketAddr) -> Command {
    let mut command = Command::new(edgelink_binary());
    command
        .arg("serve")
        .env("EDGELINK_SERVER_LISTEN", address.to_string())
        .env("EDGELINK_STORE_URL", database_url(database))
        .env("EDGELINK_LINKS_DOMAINS", crate::scenario::DOMAIN)
        .env("EDGELINK_LINKS_SHORT_URL_SCHEME", "http")
        .env(
            "EDGELINK_AUTH_EDGE_TOKEN_FILE",
            folder.join(secrets::TOKENS),
        )
        .env("EDGELINK_AUTH_ADMIN_KEY_FILE", folder.join("admin-key"))
        .env("EDGELINK_LINKS_CODE_KEY", CODE_KEY)
        .env("EDGELINK_LOG_FILTER", LOG)
        .env("EDGELINK_DOMAINS_REQUIRE_VERIFICATION", "false")
        .env("EDGELINK_VISITS_MAX_BLOCK", MAX_BLOCK.to_string())
        .env(
            "EDGELINK_VISITS_LEASE_MS",
            VISITS_LEASE.as_millis().to_string(),
        )
        .env(
            "EDGELINK_VISITS_GRACE_MS",
            VISITS_GRACE.as_millis().to_string(),
        )
        .env("EDGELINK_WEBHOOKS_ALLOWED_HOSTS", "127.0.0.1")
        .env("EDGELINK_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.0/8")
        .env("EDGELINK_WEBHOOKS_ALLOW_HTTP", "true")
        .env(
            "EDGELINK_WEBHOOKS_TIMEOUT_MS",
            WEBHOOK_TIMEOUT.as_millis().to_string(),
        )
        .env("EDGELINK_WEBHOOKS_FIRST_PAUSE_MS", "200")
        .env("EDGELINK_WEBHOOKS_LONGEST_PAUSE_MS", "2000")
        .env("EDGELINK_WEBHOOKS_LONGEST_PROBE_PAUSE_MS", "1000")
        .process_group(0);
    command
}

fn database_url(address: SocketAddr) -> String {
    format!("mysql://root@{address}/{}", database::NAME)
}

/// Creates a folder in `folder`.
fn subfolder(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(&path).expect("a folder");
    path
}
