//! The binary: its commands, its exit codes, its first start.

use crate::helpers::{client, environment, read_key, send};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn edgelink(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edgelink"));
    command
        .args(arguments)
        .env_clear()
        .envs(
            environment(
                folder,
                &[
                    ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
                    ("EDGELINK_LOG_FORMAT", "json"),
                ],
            )
            .variables(),
        )
        .stdin(Stdio::null());
    command
}

fn output(folder: &Path, arguments: &[&str]) -> Output {
    edgelink(folder, arguments).output().unwrap()
}

fn stdout(folder: &Path, arguments: &[&str]) -> String {
    let output = output(folder, arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

/// A server in a process of its own.
struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    url: String,
}

impl Process {
    fn start(folder: &Path) -> Self {
        Self::with(folder, &[])
    }

    /// With further environment variables.
    fn with(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = edgelink(folder, &["serve"])
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            if event["message"] == "listening" {
                break event["address"].as_str().unwrap().to_owned();
            }
        };
        Self {
            child,
            log,
            url: format!("http://{address}"),
        }
    }

    async fn create(&self, key: &str, slug: &str) -> u16 {
        let request = client()
            .post(format!("{}/api/v1/links", self.url))
            .bearer_auth(key)
            .json(&json!({ "longUrl": "https://example.com/?token=secret", "customSlug": slug }));
        send(request).await.status.as_u16()
    }

    async fn status(&self, key: &str) -> u16 {
        let request = client()
            .get(format!("{}/api/v1/links", self.url))
            .bearer_auth(key);
        send(request).await.status.as_u16()
    }

    /// Ends it with a signal; its exit code and the rest of its log.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn clock_millis() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_millis()
}

#[test]
fn configuration_when_wrong_stops_the_start_and_names_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edgelink.toml");
    std::fs::write(&file, "[links]\ncode_length = 5\n").unwrap();
    for command in [&["serve"][..], &["serve", "--check-config"], &["migrate"]] {
        let arguments = [command, &["--config", file.to_str().unwrap()]].concat();
        let parts = ["links.code_length", "is 5, must be 6 to 10"];
        assert_fails(&output(folder.path(), &arguments), 2, &parts);
    }
    let mut command = edgelink(folder.path(), &["serve"]);
    let output = command
        .env("EDGELINK_SERVER_LISTEN", "nowhere")
        .output()
        .unwrap();
    assert_fails(&output, 2, &["server.listen", "'nowhere'"]);
    assert!(!folder.path().join("edgelink.db").exists());
    assert_eq!(
        stdout(folder.path(), &["serve", "--check-config"]),
        "The configuration is valid.\n"
    );
}

#[test]
fn start_when_address_or_database_is_unusable_fails() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = edgelink(folder.path(), &["serve"]);
    let output = command
        .env("EDGELINK_SERVER_LISTEN", &address)
        .output()
        .unwrap();
    assert_fails(&output, 1, &["server.listen", &address]);

    let mut command = edgelink(folder.path(), &["serve"]);
    let output = command
        .env("EDGELINK_STORE_URL", "sqlite:///nowhere/at/all.db")
        .output()
        .unwrap();
    assert_fails(&output, 1, &["store.url"]);
}

#[tokio::test]
async fn admin_key_when_first_started_is_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path());
    let file = folder.path().join("admin-key");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let key = read_key(folder.path());
    assert_eq!(server.status(&key).await, 200);
    let (code, log) = server.end("-TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped") && !log.contains(&key), "{log}");

    // A second start makes no second key, even where the file has gone.
    std::fs::remove_file(&file).unwrap();
    let server = Process::start(folder.path());
    assert!(!file.exists());
    assert_eq!(server.status(&key).await, 200);
    assert_eq!(server.end("-INT").0, Some(0));
}

#[test]
fn admin_key_when_its_file_is_unusable_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = edgelink(folder.path(), &["serve"]);
    let output = command
        .env("EDGELINK_AUTH_ADMIN_KEY_FILE", "/nowhere/at/all")
        .output()
        .unwrap();
    assert_fails(&output, 1, &["auth.admin_key_file", "/nowhere/at/all"]);
    assert_eq!(stdout(folder.path(), &["keys", "list"]), "");

    std::fs::write(folder.path().join("admin-key"), "something else").unwrap();
    assert_fails(
        &edgelink(folder.path(), &["serve"]).output().unwrap(),
        1,
        &["holds no API key"],
    );
    assert_eq!(stdout(folder.path(), &["keys", "list"]), "");
}

#[tokio::test]
async fn key_when_already_in_the_file_becomes_the_admin_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("edgelink_{}_{}", "0".repeat(16), "a".repeat(64));
    std::fs::write(folder.path().join("admin-key"), &key).unwrap();
    let server = Process::start(folder.path());
    assert_eq!(server.status(&key).await, 200);
}

#[tokio::test]
async fn keys_command_when_server_runs_takes_effect_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path());
    let admin = read_key(folder.path());
    let key = stdout(folder.path(), &["keys", "create", "--name", "deploy bot"]);
    let key = key.trim_end();
    assert_eq!(server.status(key).await, 200);

    let list = stdout(folder.path(), &["keys", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].ends_with("admin") && lines[1].ends_with("deploy bot"),
        "{list}"
    );

    let id = |key: &str| key.split('_').nth(1).unwrap().to_owned();
    stdout(folder.path(), &["keys", "revoke", &id(&admin)]);
    assert_eq!(server.status(&admin).await, 401);
    assert_eq!(server.status(key).await, 200);

    assert_fails(
        &output(folder.path(), &["keys", "revoke", &id(&admin)]),
        1,
        &["no key"],
    );
    assert_fails(
        &output(folder.path(), &["keys", "revoke", &id(key)]),
        1,
        &["only admin key"],
    );
    assert_eq!(server.status(key).await, 200);
    assert_fails(
        &output(folder.path(), &["keys", "create", "--name", ""]),
        2,
        &["1 to 100 characters"],
    );
}

#[test]
fn migrate_command_when_auto_migrate_is_off_migrates() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        edgelink(folder.path(), arguments)
            .env("EDGELINK_STORE_AUTO_MIGRATE", "false")
            .output()
            .unwrap()
    };
    assert!(run(&["migrate", "--create"]).status.success());
    assert!(run(&["migrate"]).status.success());
    assert!(run(&["keys", "list"]).status.success());
}

/// Away from the settings of the control planes the default names a file that is not there.
#[test]
fn command_when_settings_are_wrong_creates_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("edgelink.db");
    for command in [
        &["flush", "--restored"][..],
        &["migrate"],
        &["keys", "list"],
        &["sweep"],
    ] {
        let output = output(folder.path(), command);
        let parts = [
            "store.url",
            "there is no SQLite file",
            database.to_str().unwrap(),
        ];
        assert_fails(&output, 1, &parts);
    }
    let doctor = output(folder.path(), &["doctor"]);
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("there is no SQLite file"), "{text}");
    assert!(!database.exists());
}

#[test]
fn command_when_run_names_its_database_and_migrates_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("edgelink.db"), "").unwrap();
    let flush = output(folder.path(), &["flush"]);
    assert_fails(&flush, 1, &["store.url", "edgelink migrate"]);
    let migrate = output(folder.path(), &["migrate"]);
    let said = String::from_utf8_lossy(&migrate.stderr).into_owned();
    assert!(said.contains("the database is SQLite file /"), "{said}");
    assert!(stdout(folder.path(), &["flush"]).contains("noted"));
    let mut secret = edgelink(folder.path(), &["keys", "list"]);
    secret.env(
        "EDGELINK_STORE_URL",
        "mysql://u:hidden@127.0.0.1:1,two:2/links",
    );
    let said = secret.output().unwrap();
    let parts = ["MySQL database links at 127.0.0.1:1, two:2"];
    assert_fails(&said, 1, &parts);
    assert!(!String::from_utf8_lossy(&said.stderr).contains("hidden"));
}

#[tokio::test]
async fn flush_when_noted_is_published_by_running_or_next_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path());
    let text = stdout(folder.path(), &["flush"]);
    assert!(text.contains("published: generation"), "{text}");
    assert!(
        text.contains("0 workers of 0 edges") && !text.contains("numbers"),
        "{text}"
    );

    assert_eq!(server.end("-TERM").0, Some(0));
    let text = stdout(folder.path(), &["flush", "--restored", "--wait", "1"]);
    assert!(
        text.contains("no control plane publishes now") && text.contains("numbers"),
        "{text}"
    );
    let absent = edgelink(folder.path(), &["flush", "--wait", "600"])
        .env("EDGELINK_PUBLISHER_LEASE_MS", "500")
        .output();
    let text = String::from_utf8(absent.unwrap().stdout).unwrap();
    assert!(text.contains("no control plane publishes now"), "{text}");

    // One that starts in the meantime publishes it.
    let waiting = edgelink(folder.path(), &["flush", "--wait", "120"])
        .env("EDGELINK_PUBLISHER_LEASE_MS", "60000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let server = Process::start(folder.path());
    let text = String::from_utf8(waiting.wait_with_output().unwrap().stdout).unwrap();
    assert!(text.contains("published: generation"), "{text}");
    assert_eq!(server.end("-TERM").0, Some(0));

    // One that holds the lease and publishes nothing.
    let ahead = clock_millis() + 50_000;
    let hold = format!("UPDATE publisher SET owner = 'stopped', lease_until = {ahead}");
    let database = format!("sqlite://{}", folder.path().join("edgelink.db").display());
    let mut connection = SqliteConnection::connect(&database).await.unwrap();
    connection.execute(AssertSqlSafe(hold)).await.unwrap();
    let late = output(folder.path(), &["flush", "--wait", "1"]);
    assert_fails(&late, 1, &["not published within 1 s"]);
    let noted = stdout(folder.path(), &["flush", "--wait", "0"]);
    assert!(
        noted.contains("noted") && !noted.contains("published"),
        "{noted}"
    );
    let since = [
        "flush",
        "--restored",
        "--links-since",
        "700000",
        "--wait",
        "0",
    ];
    let noted = stdout(folder.path(), &since);
    let skipped = "numbers skipped: 700000 at each of 1000 issuers";
    assert!(noted.contains(skipped), "{noted}");
    let alone = output(folder.path(), &["flush", "--links-since", "5"]);
    assert_fails(&alone, 2, &["--restored"]);
    let too_long = output(folder.path(), &["flush", "--wait", "601"]);
    assert_fails(&too_long, 2, &["--wait", "601"]);
}

#[tokio::test]
async fn command_when_database_is_busy_waits() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Process::start(folder.path()).end("-TERM").0, Some(0));
    let database = format!("sqlite://{}", folder.path().join("edgelink.db").display());
    let mut connection = SqliteConnection::connect(&database).await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();

    let mut command = edgelink(folder.path(), &["flush", "--wait", "0"])
        .env("EDGELINK_STORE_TIMEOUT_MS", "50")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(command.stderr.as_mut().unwrap());
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("the database is"), "{line}");
    // Longer than a call of the control plane may take.
    tokio::time::sleep(Duration::from_millis(500)).await;
    connection.execute("COMMIT").await.unwrap();
    let output = command.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("noted: all caches drop"), "{output:?}");
}

#[tokio::test]
async fn log_when_at_trace_level_shows_no_statement_or_target() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::with(folder.path(), &[("EDGELINK_LOG_FILTER", "trace")]);
    assert_eq!(server.create(&read_key(folder.path()), "x").await, 201);
    let (_, log) = server.end("-TERM");
    assert!(log.contains("edgelink_control_plane"), "{log}");
    let line = log.lines().find(|line| {
        line.contains("sqlx::query")
            || line.contains("INSERT INTO")
            || line.contains("token=secret")
    });
    assert_eq!(line, None);
}

#[tokio::test]
async fn log_when_database_fails_for_many_requests_has_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path());
    let key = read_key(folder.path());
    for n in 0..20 {
        assert_eq!(server.create(&key, &format!("x{n}")).await, 201);
    }
    let database = format!("sqlite://{}", folder.path().join("edgelink.db").display());
    let mut connection = SqliteConnection::connect(&database).await.unwrap();
    connection.execute("DROP TABLE links").await.unwrap();
    for n in 0..20 {
        let visitor = client().get(format!("{}/x{n}", server.url));
        assert_eq!(send(visitor).await.status, 503);
        let manager = client().get(format!("{}/api/v1/links/x{n}", server.url));
        assert_eq!(send(manager.bearer_auth(&key)).await.status, 500);
    }
    let (_, log) = server.end("-TERM");
    for message in ["looking up a link failed", "the database failed"] {
        let lines = log.lines().filter(|line| line.contains(message)).count();
        // The machine may be slow, but not so slow that each falls into an interval of its own.
        assert!((1..=5).contains(&lines), "{message}: {lines}\n{log}");
    }
}
