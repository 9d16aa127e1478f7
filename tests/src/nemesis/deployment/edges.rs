//! The Envoys. Each has its listener in a separate file, which is replaced while it runs. With `EDGELINK_TEST_FILTER=nginx` there are
//! nginx in their place, under their names, whose settings are replaced.

use super::{CONTROL_PLANES, DisturbedDeployment, ENVOYS, Shape, WORKERS, subfolder};
use crate::nemesis::part::{Part, Probe, get};
use crate::stack::{Filter, Signal, Stats, envoy_binary, free_port, local, root, until};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const STATS_LIMIT: Duration = Duration::from_secs(1);
const ADMITTING_LIMIT: Duration = Duration::from_secs(60);
/// Names of the files with a [`Configuration`].
const LDS: &str = "lds.yaml";
const SETTINGS: &str = "settings.json";
const LISTENERS: &str = "\n  listeners:\n";
const CLUSTERS: &str = "\n  clusters:\n";
/// Setting by which the plugin's configuration is recognized.
const SETTING: &str = r#""retryAfterSeconds": 1"#;

/// A configuration of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nemesis) enum Listener {
    /// The one that Envoy starts with.
    First,
    /// Another one that works as well.
    Second,
    /// One that the filter refuses.
    Refused,
}

/// Connection options of the bootstrap, and their replacement here: connections are soon replaced, so that new ones show
/// whether both sides still accept each other.
const KEPT: &str = "{ idle_timeout: 30s }";
const REPLACED: &str = "{ idle_timeout: 30s, max_connection_duration: 1s }";

/// An Envoy: its addresses, files and command.
pub(super) struct EdgeEnvoy {
    address: SocketAddr,
    admin: SocketAddr,
    folder: PathBuf,
    configuration: Configuration,
    /// `envoy/run.sh` or `nginx/module/run.sh` with its environment.
    run: Arc<dyn Fn() -> Command + Send + Sync>,
}

/// The configuration that it starts with, and how it gets another one.
enum Configuration {
    /// The listener, in a file that Envoy watches.
    Listener(String),
    /// The settings, in a file that nginx reads when it reloads.
    Settings(String),
}

impl Configuration {
    /// Writes a configuration into its file at once.
    fn write(&self, listener: Listener, folder: &Path) {
        let quoted = |setting: &str| match self {
            Self::Listener(_) => setting.replace('"', "\\\""),
            Self::Settings(_) => setting.to_owned(),
        };
        let (Self::Listener(first) | Self::Settings(first)) = self;
        let with = |setting| first.replace(&quoted(SETTING), &quoted(setting));
        let text = match listener {
            Listener::First => first.clone(),
            Listener::Second => with(r#""retryAfterSeconds": 2"#),
            Listener::Refused => with(r#""unknownField": 1"#),
        };
        let name = match self {
            Self::Listener(_) => LDS,
            Self::Settings(_) => SETTINGS,
        };
        assert!(
            listener == Listener::First || text != *first,
            "{name} has no {SETTING}"
        );
        let file = folder.join("new");
        fs::write(&file, text).expect("a file");
        fs::rename(file, folder.join(name)).expect("a file"); // Envoy sees moves only
    }
}

impl DisturbedDeployment {
    pub(super) async fn start_envoys(&mut self) {
        for number in 0..ENVOYS {
            self.start_envoy(number).await;
        }
    }

    async fn start_envoy(&mut self, number: usize) {
        let name = format!("envoy-{number}");
        let folder = subfolder(self.folder(), &name);
        let (address, admin) = (local(free_port()), local(free_port()));
        let run = self.run_sh(&name, &folder, address, admin).await;
        let is_nginx = Filter::of_tests() == Filter::Nginx;
        let (configuration, (variable, file)) = if is_nginx {
            let settings = Configuration::Settings(fill_settings(run(), &folder));
            (settings, ("EDGELINK_NGINX_SETTINGS", folder.join(SETTINGS)))
        } else {
            let listener = Configuration::Listener(split_bootstrap(run(), &folder));
            let bootstrap = folder.join("template.yaml");
            (listener, ("EDGELINK_ENVOY_BOOTSTRAP", bootstrap))
        };
        configuration.write(Listener::First, &folder);
        let edge = EdgeEnvoy {
            address,
            admin,
            folder,
            configuration,
            run: run.clone(),
        };
        let part = Part::new(
            &name,
            self.folder(),
            Probe::Http(address, "/health/live"),
            move || {
                let mut command = run();
                command.env(variable, &file);
                command
            },
        );
        self.envoys.push(edge);
        self.add_part(part).await;
        self.await_admission(number).await;
    }

    async fn run_sh(
        &mut self,
        name: &str,
        state: &Path,
        address: SocketAddr,
        admin: SocketAddr,
    ) -> Arc<dyn Fn() -> Command + Send + Sync> {
        let mut control_planes = Vec::new();
        for other in 0..CONTROL_PLANES {
            let target = self.edge_apis[other];
            let address = self.add_proxy(format!("{name}>cp-{other}"), target).await;
            control_planes.push(address);
        }
        let redis = self.redis_for(name).await;
        let mode = match self.shape {
            Shape::Single => "direct",
            Shape::Cluster => "cluster",
        };
        let (binary, state) = (envoy_binary(), state.to_owned());
        let secrets = self.secrets.of_envoy(name, self.shape);
        Arc::new(move || {
            let mut command = Command::new(root().join(Filter::of_tests().script()));
            command
                .env("EDGELINK_ENVOY", &binary)
                .env("EDGELINK_STATE_DIR", &state)
                .env("EDGELINK_EDGE_PORT", address.port().to_string())
                .env("EDGELINK_ADMIN_PORT", admin.port().to_string())
                .env("EDGELINK_CONTROL_PLANES", list(&control_planes))
                .env("EDGELINK_DOMAINS", crate::scenario::DOMAIN)
                .envs(Filter::of_tests().variables())
                .env("EDGELINK_REDIS", mode)
                .env("EDGELINK_REDIS_SERVERS", list(&redis))
                .env("EDGELINK_TIER_HEADER", "true")
                .env("EDGELINK_RATE_PER_SECOND", "0")
                .env("EDGELINK_PUBLIC_PAGES", "false")
                .env("EDGELINK_FEED", "poll")
                .env("EDGELINK_CLICKS", "true")
                .env("EDGELINK_WORKERS", WORKERS.to_string())
                // Otherwise one worker of nginx may take all connections.
                .env("EDGELINK_NGINX_LISTEN", "reuseport")
                .envs(secrets.clone())
                .process_group(0);
            command
        })
    }

    async fn redis_for(&mut self, name: &str) -> Vec<SocketAddr> {
        if self.shape == Shape::Single {
            let redis = self.redis_over_tls(0);
            return vec![self.add_proxy(format!("{name}>redis"), redis).await];
        }
        (0..self.redis_ports.len())
            .map(|number| self.proxy(&format!(">redis-{number}")).address())
            .collect()
    }

    /// A worker fetches its initial state with its first request; the kernel chooses which worker gets a request.
    async fn await_admission(&self, number: usize) {
        until("every worker admits", ADMITTING_LIMIT, async || {
            let _ = get(self.envoy(number), "/first-request").await; // the stats show whether it arrived
            let stats = self.stats(number, Stats::OF_FILTER).await?;
            (stats.get("edgelink.admission") == Filter::of_tests().edges(WORKERS as u16))
                .then_some(())
        })
        .await;
    }

    /// Address that visitors of an Envoy connect to.
    pub(in crate::nemesis) fn envoy(&self, number: usize) -> SocketAddr {
        self.envoys[number].address
    }

    /// Stats of an Envoy, if it answers.
    pub(in crate::nemesis) async fn stats(&self, number: usize, filter: &str) -> Option<Stats> {
        let is_nginx = Filter::of_tests() == Filter::Nginx;
        let path = if is_nginx {
            "/metrics".to_owned()
        } else {
            format!("/stats?filter={filter}")
        };
        let answer = timeout(STATS_LIMIT, get(self.envoys[number].admin, &path)).await;
        let answer = answer.ok()?.ok()?;
        let text = String::from_utf8_lossy(&answer.body);
        Some(if is_nginx {
            Stats::parse_nginx(&text, "", 0)
        } else {
            Stats::parse(&text)
        })
    }

    /// Connections accepted so far by each worker of an Envoy; nginx does not count them.
    pub(in crate::nemesis) async fn connections_by_worker(&self, number: usize) -> Vec<u64> {
        let stats = self.stats(number, "listener").await.unwrap_or_default();
        let port = self.envoy(number).port();
        let count = |worker| {
            stats.get(&format!(
                "listener.127.0.0.1_{port}.worker_{worker}.downstream_cx_total"
            ))
        };
        (0..WORKERS).map(count).collect()
    }

    /// Replaces the listener configuration of an Envoy, or the settings of an nginx.
    pub(in crate::nemesis) fn set_listener(&self, number: usize, listener: Listener) {
        let edge = &self.envoys[number];
        edge.configuration.write(listener, &edge.folder);
        if matches!(edge.configuration, Configuration::Settings(_)) {
            self.part(&format!("envoy-{number}")).signal(Signal::HUP);
        }
    }

    /// Gives an Envoy the token that its file now holds.
    pub(super) fn replace_token(&self, number: usize) {
        let output = (self.envoys[number].run)().arg("--token").output();
        let output = output.expect("the script");
        assert!(output.status.success(), "{output:?}");
    }
}

/// Has `nginx/module/run.sh` fill in its templates, and returns the settings.
fn fill_settings(mut run: Command, folder: &Path) -> String {
    let output = run.arg("-t").output().expect("run.sh");
    assert!(output.status.success(), "nginx/module/run.sh: {output:?}");
    fs::read_to_string(folder.join("nginx-module/edgelink.json")).expect("settings")
}

/// Has `envoy/run.sh` fill in its templates, writes the bootstrap without the listener as a new template, and returns the
/// listener as a discovery response.
fn split_bootstrap(mut run: Command, folder: &Path) -> String {
    let output = run.args(["--mode", "validate"]).output().expect("run.sh");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "envoy/run.sh: {errors}");
    let filled = fs::read_to_string(folder.join("envoy/bootstrap.yaml")).expect("a bootstrap");
    let (before, rest) = filled.split_once(LISTENERS).expect("listeners");
    let (listener, clusters) = rest
        .split_once(CLUSTERS)
        .expect("clusters behind listeners");
    let kept = usize::from(!Filter::of_tests().connects_by_itself());
    assert_eq!(clusters.matches(KEPT).count(), kept, "{clusters}");
    let clusters = clusters.replace(KEPT, REPLACED);
    let lds = folder.join(LDS);
    let dynamic = format!(
        "dynamic_resources:\n  lds_config:\n    resource_api_version: V3\n    path_config_source: {{ path: \"{}\" }}\n\n",
        lds.display()
    );
    let before = before.replacen(
        "static_resources:",
        &format!("{dynamic}static_resources:"),
        1,
    );
    fs::write(
        folder.join("template.yaml"),
        format!("{before}{CLUSTERS}{clusters}"),
    )
    .expect("a file");
    let kind = "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  ";
    let listener: Vec<&str> = listener
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    let listener = listener.join("\n").replacen("- ", kind, 1);
    format!("resources:\n{listener}\n")
}

fn list(items: &[SocketAddr]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(",")
}
