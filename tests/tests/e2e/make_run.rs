//! `envoy/up.sh`, which is what `make run` starts.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{
    Connection, Process, edgelink_binary, filter_module, free_port, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

struct Run {
    script: Process,
    edge: SocketAddr,
    api: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
}

impl Run {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let target = folder.path().join("target/debug");
        std::fs::create_dir_all(&target).expect("a folder");
        symlink(edgelink_binary(), target.join("edgelink")).expect("a link");
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (edge, api, admin) = (local(), local(), local());
        Self {
            script: up(folder.path(), edge, api, admin),
            edge,
            api,
            admin,
            folder,
        }
    }

    async fn start() -> Self {
        let mut run = Self::new();
        run.await_ready().await;
        run
    }

    async fn restart(&mut self) {
        let file = self.log_file();
        std::fs::remove_file(file).expect("the log of the first start");
        self.script = up(self.folder.path(), self.edge, self.api, self.admin);
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

    /// Follows the steps that the script has printed.
    async fn create_link(&self) -> String {
        let key = std::fs::read_to_string(self.state("admin-key")).expect("the admin key");
        let request = Request::new("POST", b"/api/v1/links")
            .header("x-api-key", key.trim().as_bytes())
            .header("content-type", b"application/json");
        let mut connection = Connection::open(self.api).await.expect("the API");
        let body = br#"{"longUrl":"https://example.com/a?b=1"}"#;
        let answer = connection
            .exchange(&request, body)
            .await
            .expect("an answer");
        assert_eq!(answer.status, 201, "{answer:?}");
        let link: serde_json::Value = serde_json::from_slice(&answer.body).expect("a link");
        let url = link["shortUrl"].as_str().expect("a short URL").to_owned();
        let prefix = format!("http://{}", self.edge);
        url.strip_prefix(&prefix)
            .unwrap_or_else(|| panic!("{url}"))
            .to_owned()
    }

    async fn follow(&self, path: &str) -> Option<String> {
        let mut connection = Connection::open(self.edge).await.expect("the edge");
        let answer = connection
            .exchange(&Request::get(path), b"")
            .await
            .expect("an answer");
        answer.location().map(str::to_owned)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    async fn assert_nothing_listens(&self) {
        for address in [self.edge, self.api, self.admin] {
            until(&format!("{address} is free"), LIMIT, async || {
                Connection::open(address).await.is_err().then_some(())
            })
            .await;
        }
    }

    /// Kills one of the two, and returns how the script ended.
    async fn end_after_killing(&mut self, name: &str) -> ExitStatus {
        let id = std::fs::read_to_string(self.state(&format!("{name}.pid"))).expect("its id");
        let id = id.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process id"), Signal::KILL).expect("a process");
        self.script.await_end().await
    }
}

fn up(folder: &Path, edge: SocketAddr, api: SocketAddr, admin: SocketAddr) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/up.sh");
    let mut command = Command::new(script);
    command
        .arg("dev")
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("EDGELINK_WASM", filter_module())
        .env("EDGELINK_STATE_DIR", folder.join("state"))
        .env("EDGELINK_EDGE_PORT", edge.port().to_string())
        .env("EDGELINK_API_PORT", api.port().to_string())
        .env("EDGELINK_ADMIN_PORT", admin.port().to_string());
    Process::start("envoy/up.sh", command, folder.join("up.log"))
}

#[tokio::test]
async fn what_it_prints_works_and_a_second_start_finds_the_links_of_the_first() {
    let mut run = Run::start().await;
    let path = run.create_link().await;
    let target = Some("https://example.com/a?b=1".to_owned());
    assert_eq!(run.follow(&path).await, target);
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

    run.restart().await;
    assert_eq!(run.follow(&path).await, target);
    assert_ne!(run.create_link().await, path);
}

#[tokio::test]
async fn when_one_ends_the_other_is_stopped_and_the_script_says_so() {
    for victim in ["control-plane", "envoy"] {
        let mut run = Run::start().await;
        let ended = run.end_after_killing(victim).await;

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
async fn a_port_that_is_taken_is_named() {
    let mut run = Run::start().await;
    let mut second = up(run.folder.path(), run.edge, run.api, run.admin);

    let ended = second.await_end().await;

    assert_eq!(ended.code(), Some(1));
    let message = format!("port {} is taken", run.edge.port());
    assert!(second.log().contains(&message), "{}", second.log());
    assert!(run.script.terminate().await.success());
}
