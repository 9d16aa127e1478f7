//! Envoy with the filter, as started by `envoy/run.sh`.

use super::listeners::ListenerFile;
use super::place::{Filter, Version, bridge_module, envoy_binary, free_port, local, root};
use super::{Connection, EDGE_TOKEN, Listener, Process, Stats, until};
use crate::scenario::{Answer, DOMAIN, Request};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Options of Envoys in tests; everything else is as in production.
#[derive(Clone, Debug)]
pub struct EnvoyOptions {
    /// Worker threads.
    pub workers: u16,
    /// The domains of the filter, the default one first.
    pub domains: Vec<String>,
    /// `freshSeconds` and `absentFreshSeconds`.
    pub fresh_seconds: u32,
    /// `staleSeconds`.
    pub stale_seconds: u32,
    /// `controlPlane.timeoutMs`.
    pub callout_timeout_ms: u32,
    /// `lru.maxBytes`.
    pub lru_bytes: u32,
    /// Access to Redis; `None` for no Redis.
    pub redis: Option<RedisOptions>,
    /// `EDGELINK_FEED`: `none` or `poll`.
    pub feed: &'static str,
    /// `EDGELINK_CLICKS`: `true` or `false`.
    pub clicks: &'static str,
    /// `EDGELINK_CLICKS_ATTRIBUTES`.
    pub click_attributes: &'static str,
    /// `EDGELINK_CLICKS_ORPHANS`: `true` or `false`.
    pub orphans: &'static str,
    /// Text of a template in place of `envoy/bootstrap.yaml`.
    pub bootstrap: Option<String>,
    /// Text of a template in place of `envoy/plugin.json`.
    pub plugin: Option<String>,
    /// Kind of the filter.
    pub filter: Filter,
    /// Build of the edge, if it is not this checkout's: the filter is then Wasm.
    pub version: Option<Version>,
    /// Another Wasm module in place of the filter.
    pub module: Option<PathBuf>,
    /// Has Envoy read its listener from a file that [`Envoy::put_listeners`] replaces.
    pub listener_file: bool,
    /// `EDGELINK_DRAIN_SECONDS`.
    pub drain_seconds: u32,
    /// `EDGELINK_RATE_PER_SECOND` and `EDGELINK_RATE_BURST`; `None` for no limit on addresses.
    pub rate: Option<(u32, u32)>,
    /// `EDGELINK_TRUSTED_HOPS`.
    pub trusted_hops: u8,
    /// `EDGELINK_PUBLIC_PAGES`.
    pub public_pages: bool,
    /// `EDGELINK_COUNTRY_HEADER` and `EDGELINK_CITY_HEADER`; empty for none.
    pub geo_headers: [&'static str; 2],
    /// Further variables of `envoy/run.sh`, which override the others.
    pub variables: Vec<(&'static str, String)>,
}

/// Access of an Envoy to Redis.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `EDGELINK_REDIS`: `direct`, `pooled` or `cluster`.
    pub mode: &'static str,
    /// The ports on 127.0.0.1.
    pub ports: Vec<u16>,
}

impl RedisOptions {
    /// One server, queried directly.
    #[must_use]
    pub fn direct(port: u16) -> Self {
        Self {
            mode: "direct",
            ports: vec![port],
        }
    }
}

impl EnvoyOptions {
    /// Has nginx listen to HTTP/2, and returns where that is.
    fn listen_to_http2(&mut self, edge: SocketAddr) -> SocketAddr {
        if self.filter != Filter::Nginx {
            return edge;
        }
        let http2 = local(free_port());
        // The answers say which worker they are of.
        let listen = format!("listen {http2} http2; add_header x-worker $pid always;");
        self.variables.insert(0, ("EDGELINK_NGINX_SERVER", listen));
        // Otherwise one worker may take all connections of a test.
        let spread = ("EDGELINK_NGINX_LISTEN", "reuseport".to_owned());
        self.variables.insert(0, spread);
        http2
    }
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            domains: vec![DOMAIN.to_owned()],
            fresh_seconds: 5,
            stale_seconds: 86_400,
            callout_timeout_ms: 800,
            lru_bytes: 64 << 20,
            redis: None,
            feed: "none",
            clicks: "false",
            click_attributes: "",
            orphans: "false",
            bootstrap: None,
            plugin: None,
            filter: Filter::of_tests(),
            version: None,
            module: None,
            listener_file: false,
            drain_seconds: 20,
            rate: None,
            trusted_hops: 0,
            public_pages: false,
            geo_headers: [""; 2],
            variables: Vec::new(),
        }
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    options: EnvoyOptions,
    control_planes: Vec<SocketAddr>,
    edge: SocketAddr,
    /// For nginx, which has HTTP/2 without TLS on a port of its own.
    http2: SocketAddr,
    admin: SocketAddr,
    /// Requests to the admin interface of nginx, which counts them among the others.
    asked: AtomicU64,
    listeners: Option<ListenerFile>,
    folder: TempDir,
}

impl Envoy {
    /// Text of `envoy/bootstrap.yaml`, for variants of it.
    #[must_use]
    pub fn bootstrap_template() -> String {
        fs::read_to_string(root().join("envoy/bootstrap.yaml")).expect("the bootstrap")
    }

    /// Starts an Envoy in front of control planes, and returns when it answers.
    pub async fn start(options: &EnvoyOptions, control_planes: &[SocketAddr]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (edge, admin) = (local(free_port()), local(free_port()));
        let mut options = options.clone();
        let http2 = options.listen_to_http2(edge);
        let options = &options;
        let mut command = run_sh(options, folder.path(), edge, admin, control_planes);
        let listeners = options.listener_file.then(|| {
            let output = run_sh(options, folder.path(), edge, admin, control_planes)
                .args(["--mode", "validate"])
                .output();
            let output = output.expect("envoy/run.sh");
            assert!(output.status.success(), "{output:?}");
            let filled = fs::read_to_string(folder.path().join("envoy/bootstrap.yaml"));
            let filled = filled.expect("a filled bootstrap");
            let (listeners, bootstrap) =
                ListenerFile::take_out(&filled, edge.port(), folder.path());
            let file = folder.path().join("dynamic.yaml");
            fs::write(&file, bootstrap).expect("a file");
            command.env("EDGELINK_ENVOY_BOOTSTRAP", file);
            listeners
        });
        Self {
            process: start(command, folder.path(), edge).await,
            options: options.clone(),
            control_planes: control_planes.to_vec(),
            edge,
            http2,
            admin,
            asked: AtomicU64::new(0),
            listeners,
            folder,
        }
    }

    /// Sets the version of its next start.
    pub fn set_version(&mut self, version: &Version) {
        self.options.version = Some(version.clone());
    }

    /// Restarts it on its ports after it has ended; without [`EnvoyOptions::listener_file`].
    pub async fn restart(&mut self) {
        let folder = self.folder.path();
        let command = run_sh(
            &self.options,
            folder,
            self.edge,
            self.admin,
            &self.control_planes,
        );
        self.process = start(command, folder, self.edge).await;
    }

    /// Gives it the token that its file now holds.
    pub fn replace_token(&self) {
        let folder = self.folder.path();
        let mut command = run_sh(
            &self.options,
            folder,
            self.edge,
            self.admin,
            &self.control_planes,
        );
        let output = command.arg("--token").output().expect("envoy/run.sh");
        assert!(output.status.success(), "{output:?}");
    }

    /// Has nginx load its configuration again, with other variables of its script, and returns what that has said.
    #[must_use]
    pub fn reload(&self, variables: &[(&'static str, String)]) -> Output {
        let mut options = self.options.clone();
        options.variables.extend_from_slice(variables);
        let (folder, planes) = (self.folder.path(), &self.control_planes);
        let mut command = run_sh(&options, folder, self.edge, self.admin, planes);
        command.args(["-s", "reload"]).output().expect("the script")
    }

    /// Reloads nginx, waits until the workers before have ended, and returns the others.
    pub async fn reload_to_new_workers(&self) -> Vec<u32> {
        let before = self.workers();
        let output = self.reload(&[]);
        assert!(output.status.success(), "{output:?}");
        self.await_other_workers(&before).await
    }

    /// Waits until these workers of nginx have ended, and returns the others.
    pub async fn await_other_workers(&self, before: &[u32]) -> Vec<u32> {
        let limit = Duration::from_secs(60);
        until("the workers before have ended", limit, async || {
            let workers = self.workers();
            let is_over = !workers.iter().any(|worker| before.contains(worker));
            (is_over && !workers.is_empty()).then_some(workers)
        })
        .await
    }

    /// The settings that the script has written for nginx.
    ///
    /// # Panics
    /// Panics if it has written none.
    #[must_use]
    pub fn settings(&self) -> Value {
        let file = self.folder.path().join("nginx-module/edgelink.json");
        let text = fs::read_to_string(file).expect("settings");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Checks such a configuration.
    #[must_use]
    pub fn check(&self, variables: &[(&'static str, String)]) -> Output {
        let mut options = self.options.clone();
        options.variables.extend_from_slice(variables);
        let (folder, planes) = (self.folder.path(), &self.control_planes);
        let mut command = run_sh(&options, folder, self.edge, self.admin, planes);
        command.arg("-t").output().expect("the script")
    }

    /// The process ids of nginx's workers, those that end among them.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        self.process.children()
    }

    /// The original listener, for variants of it. Needs [`EnvoyOptions::listener_file`].
    #[must_use]
    pub fn listener(&self) -> &Listener {
        self.listener_file().original()
    }

    /// Replaces all listeners of Envoy, waits until it has read them, and returns whether it accepted them.
    pub async fn put_listeners(&self, listeners: &[Listener]) -> bool {
        let updates = async || {
            let stats = self.stats("listener_manager.lds.update").await;
            ["success", "rejected"]
                .map(|end| stats.get(&format!("listener_manager.lds.update_{end}")))
        };
        let before = updates().await;
        self.listener_file().write(listeners);
        until(
            "Envoy reads its listeners",
            Duration::from_secs(10),
            async || {
                let [taken, refused] = updates().await;
                let is_taken = (taken > before[0]).then_some(true);
                is_taken.or((refused > before[1]).then_some(false))
            },
        )
        .await
    }

    /// Waits until no listener and no filter chain of a changed listener is draining, so that Envoy has ended the plugin
    /// configurations that only they used; until the workers of nginx from before a reload have ended.
    pub async fn await_drained(&self) {
        if self.options.filter == Filter::Nginx {
            let workers = usize::from(self.options.workers);
            let limit = Duration::from_secs(60);
            let are_all = async || (self.workers().len() == workers).then_some(());
            return until("old workers have ended", limit, are_all).await;
        }
        until(
            "listeners are drained",
            Duration::from_secs(60),
            async || {
                let stats = self.stats("listener_manager.total_.*_draining").await;
                (stats.sum_of("listener_manager.total_") == 0).then_some(())
            },
        )
        .await;
    }

    fn listener_file(&self) -> &ListenerFile {
        self.listeners
            .as_ref()
            .expect("EnvoyOptions::listener_file")
    }

    /// Address that visitors connect to.
    #[must_use]
    pub fn edge(&self) -> SocketAddr {
        self.edge
    }

    /// Address that takes HTTP/2 without TLS.
    #[must_use]
    pub fn http2(&self) -> SocketAddr {
        self.http2
    }

    /// Address of its admin interface.
    #[must_use]
    pub fn admin_interface(&self) -> SocketAddr {
        self.admin
    }

    /// Kind of its filter.
    #[must_use]
    pub fn filter(&self) -> Filter {
        self.options.filter
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Opens a connection to the edge.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.edge).await.expect("a connection")
    }

    /// Sends a request over a new connection.
    pub async fn visit(&self, request: &Request) -> Answer {
        let mut connection = self.connect().await;
        connection.exchange(request, b"").await.expect("an answer")
    }

    /// Follows a path by GET, over a new connection.
    pub async fn follow(&self, path: &str) -> Answer {
        self.visit(&Request::get(path)).await
    }

    /// Counters and gauges whose names match the regular expression `filter`; all that nginx has.
    pub async fn stats(&self, filter: &str) -> Stats {
        if self.options.filter == Filter::Nginx {
            let metrics = self.admin("/metrics").await;
            let status = self.admin("/stub_status").await;
            return Stats::parse_nginx(&metrics, &status, self.asked.load(Ordering::Relaxed));
        }
        let answer = get(self.admin, &format!("/stats?filter={filter}")).await;
        Stats::parse(&String::from_utf8_lossy(&answer.expect("statistics").body))
    }

    /// The filter's stats, as `edgelink.NAME`.
    pub async fn figures(&self) -> Stats {
        self.stats(Stats::OF_FILTER).await
    }

    /// Number of restarts of the filter in a worker after a trap or a panic.
    pub async fn crashes(&self) -> u64 {
        self.stats(Stats::OF_CRASHES).await.crashes()
    }

    /// Waits until the filter's stats satisfy `is_so`; a worker reports them once a tick.
    pub async fn await_figures(&self, is_so: impl Fn(&Stats) -> bool) {
        let what = "the figures of the filter are right";
        until(what, Duration::from_secs(5), async || {
            let stats = self.figures().await;
            is_so(&stats).then_some(())
        })
        .await;
    }

    /// The text of an admin page.
    pub async fn admin(&self, path: &str) -> String {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = get(self.admin, path).await.expect("an admin page");
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// Sends a POST to the admin interface.
    pub async fn admin_post(&self, path: &str) {
        let mut connection = Connection::open(self.admin)
            .await
            .expect("the admin interface");
        let request = Request::new("POST", path.as_bytes());
        let answer = connection.exchange(&request, b"").await.expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }

    /// Asserts that an attack did no harm: the filter did not crash, and Envoy still answers.
    pub async fn assert_unharmed(&self) {
        assert_eq!(self.crashes().await, 0, "a trap, or a panic");
        assert_eq!(self.follow("/health/live").await.status, 200);
    }
}

/// Starts that Envoy, and returns when it answers.
async fn start(command: Command, folder: &Path, edge: SocketAddr) -> Process {
    // Workers of nginx would outlive their master.
    let process = Process::start("envoy", command, folder.join("envoy.log"));
    let mut process = process.with_children();
    let is_live = async || matches!(get(edge, "/health/live").await, Ok(a) if a.status == 200);
    process.await_ready(is_live).await;
    process
}

/// Command `envoy/run.sh` with these options.
fn run_sh(
    options: &EnvoyOptions,
    folder: &Path,
    edge: SocketAddr,
    admin: SocketAddr,
    control_planes: &[SocketAddr],
) -> Command {
    let version = options.version.as_ref();
    let checkout = version.map_or_else(root, |version| version.checkout.clone());
    let mut command = Command::new(checkout.join(options.filter.script()));
    if version.is_some() {
        command.env("EDGELINK_ENVOY", envoy_binary());
    }
    command
        .env("EDGELINK_STATE_DIR", folder)
        .env("EDGELINK_EDGE_PORT", edge.port().to_string())
        .env("EDGELINK_ADMIN_PORT", admin.port().to_string())
        .env("EDGELINK_CONTROL_PLANES", list(control_planes))
        .env("EDGELINK_DOMAINS", list(&options.domains))
        .env("EDGELINK_EDGE_TOKEN", EDGE_TOKEN)
        .envs(filter_variables(options))
        .env("EDGELINK_TIER_HEADER", "true")
        .env("EDGELINK_FEED", options.feed)
        .env("EDGELINK_CLICKS", options.clicks)
        .env("EDGELINK_CLICKS_ATTRIBUTES", options.click_attributes)
        .env("EDGELINK_CLICKS_ORPHANS", options.orphans)
        .env("EDGELINK_WORKERS", options.workers.to_string())
        .env("EDGELINK_TRUSTED_HOPS", options.trusted_hops.to_string())
        .env("EDGELINK_PUBLIC_PAGES", options.public_pages.to_string())
        .env("EDGELINK_COUNTRY_HEADER", options.geo_headers[0])
        .env("EDGELINK_CITY_HEADER", options.geo_headers[1])
        .env("EDGELINK_DRAIN_SECONDS", options.drain_seconds.to_string())
        .env("EDGELINK_FRESH_SECONDS", options.fresh_seconds.to_string())
        .env("EDGELINK_STALE_SECONDS", options.stale_seconds.to_string())
        .env(
            "EDGELINK_CALLOUT_TIMEOUT_MS",
            options.callout_timeout_ms.to_string(),
        )
        .env("EDGELINK_LRU_BYTES", options.lru_bytes.to_string());
    let (per_second, burst) = options.rate.unwrap_or((0, 1));
    command
        .env("EDGELINK_RATE_PER_SECOND", per_second.to_string())
        .env("EDGELINK_RATE_BURST", burst.to_string());
    if let Some(redis) = &options.redis {
        let servers: Vec<SocketAddr> = redis.ports.iter().copied().map(local).collect();
        command
            .env("EDGELINK_REDIS", options.filter.redis_mode(redis.mode))
            .env("EDGELINK_REDIS_SERVERS", list(&servers));
    }
    let variables = options.variables.iter();
    command.envs(variables.map(|(name, value)| (name, value)));
    let templates = [
        (
            "EDGELINK_ENVOY_BOOTSTRAP",
            "template.yaml",
            &options.bootstrap,
        ),
        ("EDGELINK_ENVOY_PLUGIN", "template.json", &options.plugin),
    ];
    for (variable, name, text) in templates {
        if let Some(text) = text {
            let file = folder.join(name);
            fs::write(&file, text).expect("a file");
            command.env(variable, file);
        }
    }
    command
}

fn filter_variables(options: &EnvoyOptions) -> Vec<(&'static str, PathBuf)> {
    let wasm = |filter: &PathBuf, bridge| {
        vec![
            ("EDGELINK_WASM", filter.clone()),
            ("EDGELINK_BRIDGE_WASM", bridge),
        ]
    };
    match (&options.version, &options.module) {
        (Some(version), _) => wasm(&version.filter, version.bridge.clone()),
        (None, Some(module)) => wasm(module, bridge_module()),
        (None, None) => options.filter.variables(),
    }
}

fn list(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(",")
}

async fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut connection = Connection::open(address).await?;
    connection.exchange(&Request::get(path), b"").await
}
