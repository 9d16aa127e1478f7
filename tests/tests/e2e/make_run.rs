//! `envoy/up.sh`, which is what `make run` and `make run-full` start.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{
    Collector, Connection, Filter, Process, built_nginx_module, edgelink_binary, free_port, root,
    until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);
const TARGET: &str = "https://example.com/a?b=1";

struct Run {
    script: Process,
    addresses: Addresses,
    /// What short URLs begin with: nginx, or Envoy where there is no nginx.
    visited: String,
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy)]
struct Addresses {
    edge: SocketAddr,
    api: SocketAddr,
    admin: SocketAddr,
    second_api: SocketAddr,
    mariadb: SocketAddr,
    redis: SocketAddr,
    https: SocketAddr,
    http: SocketAddr,
    status: SocketAddr,
    metrics: SocketAddr,
    events: SocketAddr,
}

impl Addresses {
    fn free() -> Self {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        Self {
            edge: local(),
            api: local(),
            admin: local(),
            second_api: local(),
            mariadb: local(),
            redis: local(),
            https: local(),
            http: local(),
            status: local(),
            metrics: local(),
            events: local(),
        }
    }

    fn all(&self) -> [(&'static str, SocketAddr); 11] {
        [
            ("EDGELINK_EDGE_PORT", self.edge),
            ("EDGELINK_API_PORT", self.api),
            ("EDGELINK_ADMIN_PORT", self.admin),
            ("EDGELINK_API2_PORT", self.second_api),
            ("EDGELINK_MARIADB_PORT", self.mariadb),
            ("EDGELINK_REDIS_PORT", self.redis),
            ("EDGELINK_HTTPS_PORT", self.https),
            ("EDGELINK_HTTP_PORT", self.http),
            ("EDGELINK_FRONT_STATUS_PORT", self.status),
            ("EDGELINK_FRONT_METRICS_PORT", self.metrics),
            ("EDGELINK_FRONT_EVENTS_PORT", self.events),
        ]
    }
}

impl Run {
    async fn start(shape: &str) -> Self {
        Self::with_variables(shape, Vec::new()).await
    }

    async fn with_variables(shape: &str, variables: Vec<(&'static str, String)>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let target = folder.path().join("target/debug");
        std::fs::create_dir_all(&target).expect("a folder");
        symlink(edgelink_binary(), target.join("edgelink")).expect("a link");
        let addresses = Addresses::free();
        let mut run = Self {
            script: up(folder.path(), shape, addresses, &variables),
            addresses,
            visited: match shape {
                "small" => format!("http://{}", addresses.edge),
                _ => format!("https://{}", addresses.https),
            },
            folder,
            variables,
        };
        run.await_ready().await;
        run
    }

    async fn restart(&mut self, shape: &str) {
        let file = self.log_file();
        std::fs::remove_file(file).expect("the log of the first start");
        self.script = up(self.folder.path(), shape, self.addresses, &self.variables);
        self.await_ready().await;
    }

    async fn await_ready(&mut self) {
        let log = self.log_file();
        let is_ready = || {
            std::fs::read_to_string(&log)
                .unwrap_or_default()
                .contains("is ready")
        };
        self.script.await_ready(async || is_ready()).await;
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("up.log")
    }

    async fn create_link(&self) -> String {
        self.try_to_create_link().await.expect("201")
    }

    /// Follows the steps that the script has printed.
    async fn try_to_create_link(&self) -> Option<String> {
        let body = json!({ "longUrl": TARGET });
        let answer = self.api("POST", "/api/v1/links", &body).await?;
        let link: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let url = link["shortUrl"].as_str()?;
        let path = url.strip_prefix(&self.visited);
        Some(path.unwrap_or_else(|| panic!("{url}")).to_owned())
    }

    async fn api(&self, method: &'static str, path: &str, body: &Value) -> Option<Answer> {
        let key = std::fs::read_to_string(self.state("admin-key")).expect("the admin key");
        let request = Request::new(method, path.as_bytes())
            .header("x-api-key", key.trim().as_bytes())
            .header("content-type", b"application/json");
        let mut connection = Connection::open(self.addresses.api).await.ok()?;
        let body = body.to_string();
        connection.exchange(&request, body.as_bytes()).await.ok()
    }

    async fn follow(&self, path: &str) -> Answer {
        let mut connection = Connection::open(self.addresses.edge)
            .await
            .expect("the edge");
        let answer = connection.exchange(&Request::get(path), b"").await;
        answer.expect("an answer")
    }

    /// As [`Self::follow`]; `None` if that is no redirect, or Envoy is not there.
    async fn try_to_follow(&self, path: &str) -> Option<()> {
        let mut connection = Connection::open(self.addresses.edge).await.ok()?;
        let answer = connection.exchange(&Request::get(path), b"").await.ok()?;
        (answer.location() == Some(TARGET)).then_some(())
    }

    /// What a shell prints that is given these lines, which name the ports and the folder of the default.
    fn paste(&self, lines: &str) -> String {
        let state = self.folder.path().join("state");
        let lines = lines
            .replace("127.0.0.1:8080", &self.addresses.edge.to_string())
            .replace("127.0.0.1:8081", &self.addresses.api.to_string())
            .replace(".edgelink", state.to_str().expect("a path"));
        let output = Command::new("bash").arg("-c").arg(lines).output();
        String::from_utf8(output.expect("a shell").stdout).expect("text")
    }

    /// Returns when a link is followed through nginx, from HTTP on, and nginx has its metrics.
    async fn await_front(&self) {
        let path = self.create_link().await;
        let metrics = self.addresses.metrics;
        let lines = format!(
            "curl -ksL --max-redirs 1 -o /dev/null -w '%{{redirect_url}}\n' http://{}{path}
             curl -s http://{metrics}/metrics | grep '^nginx_up'
             curl -s -o /dev/null -w '%{{http_code}}\n' http://{}/metrics",
            self.addresses.http, self.addresses.events
        );
        let wanted = format!("{TARGET}\nnginx_up 1\n200\n");
        until("the front works", LIMIT, async || {
            (self.paste(&lines) == wanted).then_some(())
        })
        .await;
    }

    /// Returns when spans of Envoy and of the control plane, which are asked for that path, have come to the collector.
    async fn await_traces(&self, path: &str, collector: &Collector) {
        let parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let request = Request::get(path).header("traceparent", parent);
        for address in [self.addresses.edge, self.addresses.api] {
            let mut connection = Connection::open(address).await.expect("a connection");
            let answer = connection.exchange(&request, b"").await;
            assert_eq!(answer.expect("an answer").location(), Some(TARGET));
        }
        until("spans of both", LIMIT, async || {
            let spans = collector.spans_of("0af7651916cd43dd8448eb211c80319c");
            let of = |service| spans.iter().any(|span| span.service == service);
            (of("edgelink-edge") && of("edgelink")).then_some(())
        })
        .await;
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    async fn assert_nothing_listens(&self) {
        for (_, address) in self.addresses.all() {
            until(&format!("{address} is free"), LIMIT, async || {
                Connection::open(address).await.is_err().then_some(())
            })
            .await;
        }
    }

    /// The process of a part.
    fn id(&self, name: &str) -> Option<Pid> {
        let id = std::fs::read_to_string(self.state(&format!("{name}.pid"))).ok()?;
        id.trim().parse().ok().and_then(Pid::from_raw)
    }

    fn kill(&self, name: &str) -> Pid {
        let id = self.id(name).expect("a process id");
        kill_process(id, Signal::KILL).expect("a process");
        id
    }

    /// Kills a part, and returns when another one has taken its place and the whole works.
    async fn restart_of(&mut self, name: &str) {
        let killed = self.kill(name);
        until(&format!("{name} is another one"), LIMIT, async || {
            self.id(name).filter(|id| *id != killed)
        })
        .await;
        let line = format!("{name} was ended by SIGKILL; starting it again");
        assert!(self.script.log().contains(&line), "{}", self.script.log());
        until("links are made and followed", LIMIT, async || {
            let path = self.try_to_create_link().await?;
            self.try_to_follow(&path).await
        })
        .await;
        self.script.assert_running();
    }

    /// Lets every control plane that is started from now on end at once.
    fn break_control_plane(&self) {
        let program = self.folder.path().join("target/debug/edgelink");
        std::fs::remove_file(&program).expect("a link");
        symlink("/bin/false", program).expect("a link");
    }
}

fn up(
    folder: &Path,
    shape: &str,
    addresses: Addresses,
    variables: &[(&'static str, String)],
) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/up.sh");
    let mut command = Command::new(script);
    command
        .args(["dev", shape])
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .envs(Filter::of_tests().variables())
        .env("EDGELINK_STATE_DIR", folder.join("state"))
        .envs(variables.iter().cloned());
    for (variable, address) in addresses.all() {
        command.env(variable, address.port().to_string());
    }
    Process::start("envoy/up.sh", command, folder.join("up.log"))
}

/// What `make` would run, each line behind the filter that its environment names.
fn recipes(arguments: &[&str], filter: Option<&str>) -> String {
    let folder = TempDir::new().unwrap();
    let shell = folder.path().join("shell");
    std::fs::write(&shell, "#!/bin/sh\necho \"$EDGELINK_FILTER: $2\"\n").unwrap();
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).unwrap();
    let mut make = Command::new("make");
    make.current_dir(root()).env_remove("EDGELINK_FILTER");
    for inherited in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FILTER"] {
        make.env_remove(inherited);
    }
    make.envs(filter.map(|filter| ("EDGELINK_FILTER", filter)));
    make.arg("--silent").args(arguments);
    make.arg(format!("SHELL={}", shell.display()));
    let output = make.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn make_when_a_filter_is_chosen_builds_and_starts_it() {
    for (arguments, variable, filter, up) in [
        (&["run"][..], None, "wasm", ""),
        (&["run-full"], Some(""), "wasm", " full"),
        (&["FILTER=native", "run"], None, "native", ""),
        (&["run-cluster"], Some("native"), "native", " cluster"),
        (&["FILTER=wasm", "run"], Some("native"), "wasm", ""),
        (&["FILTER=nginx", "run-full"], None, "nginx", " full"),
    ] {
        let (built_by, package) = match filter {
            "wasm" => ("cargo build", "edgelink-filter"),
            "nginx" => ("nginx/module/build.sh", "quick"),
            _ => ("cargo build", "edgelink-native"),
        };
        let recipes = recipes(arguments, variable);
        let is_built = |line: &str| line.contains(built_by) && line.contains(package);
        assert!(recipes.lines().any(is_built), "{arguments:?}: {recipes}");
        let up = format!("{filter}: exec envoy/up.sh quick{up}");
        assert_eq!(recipes.lines().last(), Some(up.as_str()));
    }
}

#[tokio::test]
async fn make_run_when_started_again_finds_its_links() {
    let collector = Collector::start().await;
    let variables = vec![
        ("EDGELINK_OTLP", collector.address().to_string()),
        ("EDGELINK_TRACE_PARENTS", "true".to_owned()),
    ];
    let mut run = Run::with_variables("small", variables).await;
    let path = run.create_link().await;
    assert_eq!(run.follow(&path).await.location(), Some(TARGET));
    run.await_traces(&path, &collector).await;
    for secret in [
        "admin-key",
        "edge-token",
        "code-key",
        "envoy/bootstrap.yaml",
    ] {
        let file = std::fs::metadata(run.state(secret)).expect(secret);
        assert_eq!(file.permissions().mode() & 0o077, 0, "{secret}");
    }

    let ended = run.script.terminate().await;
    assert!(ended.success(), "{ended:?}");
    run.assert_nothing_listens().await;

    run.restart("small").await;
    assert_eq!(run.follow(&path).await.location(), Some(TARGET));
    assert_ne!(run.create_link().await, path);
}

/// From the first change on, and whichever worker answers: once it says that it is ready, every worker reads the feed.
/// Another start is for a machine so busy that a feed message takes longer than two runs of curl.
#[tokio::test]
async fn readme_tour_when_pasted_shows_all_changes() {
    let wanted = [
        "HTTP/1.1 307 Temporary Redirect",
        "location: https://example.com/sale",
        "HTTP/1.1 307 Temporary Redirect",
        "location: https://example.com/sale2",
        "HTTP/1.1 307 Temporary Redirect",
        "location: https://example.com/app",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 303 See Other",
        "location: /sale",
        "HTTP/1.1 410 Gone",
        "HTTP/1.1 404 Not Found",
    ];
    let mut printed = String::new();
    for _ in 0..3 {
        let run = Run::start("small").await;
        // What the API answers ends without a line feed.
        printed = run.paste(&tour()).replace("HTTP/1.1", "\nHTTP/1.1");
        let lines = printed.lines().map(str::trim_end);
        let seen = lines.filter(|line| line.starts_with("HTTP/") || line.starts_with("location:"));
        let counted = r#"{"value":"Android","clicks":1}"#;
        if seen.eq(wanted) && printed.contains(counted) {
            return;
        }
    }
    panic!("{printed}");
}

/// The first block of the README's "A tour".
fn tour() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let (_, rest) = readme.split_once("## A tour\n").expect("a tour");
    let lines = rest.lines();
    let block = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    block.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn make_run_when_one_part_ends_stops_the_other() {
    for victim in ["control-plane", "envoy"] {
        let mut run = Run::start("small").await;
        run.kill(victim);
        let ended = run.script.await_end().await;

        assert_eq!(ended.code(), Some(1), "{victim}");
        let log = run.script.log();
        assert!(
            log.contains(&format!("{victim} ended unexpectedly")),
            "{log}"
        );
        run.assert_nothing_listens().await;
    }
}

#[tokio::test]
async fn run_when_of_nginx_has_no_envoy() {
    let Some(module) = built_nginx_module() else {
        println!("skipped: the module of nginx is not built, `make nginx-module` builds it");
        return;
    };
    let variables = vec![
        ("EDGELINK_FILTER", "nginx".to_owned()),
        ("EDGELINK_NGINX_MODULE", module.display().to_string()),
    ];
    for shape in ["small", "full"] {
        let mut run = Run::with_variables(shape, variables.clone()).await;
        assert_eq!(run.id("envoy"), None);
        if shape == "small" {
            let path = run.create_link().await;
            assert_eq!(run.follow(&path).await.location(), Some(TARGET));
        } else {
            run.await_front().await;
        }
        let ended = run.script.terminate().await;
        assert!(ended.success(), "{ended:?}");
        run.assert_nothing_listens().await;
    }
}

#[tokio::test]
async fn production_part_when_killed_is_started_again() {
    let mut run = Run::start("full").await;
    for part in [
        "redis",
        "mariadb",
        "control-plane",
        "control-plane-2",
        "envoy",
        "nginx",
    ] {
        run.restart_of(part).await;
    }
    run.await_front().await;
    let redis = run.id("redis").expect("a process id");
    kill_process(redis, Signal::STOP).expect("a process");

    let ended = run.script.terminate().await;

    assert!(ended.success(), "{ended:?}");
    assert!(run.script.log().contains("stopping"));
    run.assert_nothing_listens().await;
}

#[tokio::test]
async fn production_part_when_it_keeps_ending_ends_everything() {
    let mut run = Run::start("full").await;
    run.break_control_plane();
    run.kill("control-plane-2");

    let ended = run.script.await_end().await;

    assert_eq!(ended.code(), Some(1));
    let log = run.script.log();
    assert_eq!(log.matches("starting it again in ").count(), 4, "{log}");
    let reason = "control-plane-2 ended with status 1, 5 times in a row within 10 s of its start";
    assert!(log.contains(reason), "{log}");
    run.assert_nothing_listens().await;
}

#[tokio::test]
async fn port_when_taken_is_named() {
    let mut run = Run::start("small").await;
    let mut second = up(run.folder.path(), "small", run.addresses, &[]);

    let ended = second.await_end().await;

    assert_eq!(ended.code(), Some(1));
    let message = format!("port {} is taken", run.addresses.edge.port());
    assert!(second.log().contains(&message), "{}", second.log());
    assert!(run.script.terminate().await.success());
}
