//! `edgelink doctor` on real servers: nothing to say where all is well, and each thing that is wrong by its name.

use edgelink_tests::nemesis::clock::{self, MovableClock};
use edgelink_tests::servers::{MariaDb, RedisServer};
use edgelink_tests::stack::{ControlPlane, Production, ProductionOptions, free_port, until};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// The doctor with the configuration of a control plane.
fn doctor(control_plane: &ControlPlane) -> Command {
    control_plane.command(&["doctor", "--json"])
}

/// What the doctor has said.
struct Examination {
    code: Option<i32>,
    checks: HashMap<String, Value>,
}

impl Examination {
    async fn of(command: Command) -> Self {
        let mut command = command;
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.expect("a thread").expect("an output");
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let checks = report["checks"].as_array().expect("checks").iter();
        // The worst of those with one name: of each master, for example.
        let mut worst = HashMap::<String, Value>::new();
        let rank = |check: &Value| {
            ["ok", "warning", "error"]
                .iter()
                .position(|word| check["verdict"] == *word)
        };
        for check in checks {
            let name = check["name"].as_str().expect("a name").to_owned();
            if worst
                .get(&name)
                .is_none_or(|other| rank(other) < rank(check))
            {
                worst.insert(name, check.clone());
            }
        }
        Self {
            code: output.status.code(),
            checks: worst,
        }
    }

    async fn by(control_plane: &ControlPlane) -> Self {
        Self::of(doctor(control_plane)).await
    }

    /// The checks that are not well, without what the environment of the test is told of.
    fn unwell(&self) -> Vec<&Value> {
        let checks = self.checks.values();
        checks
            .filter(|check| check["verdict"] != "ok" && check["name"] != "configuration.variables")
            .collect()
    }

    /// Whether a check has this verdict and these words, and advice if it is not well.
    fn says(&self, (name, verdict, found): (&str, &str, &str)) -> bool {
        let Some(check) = self.checks.get(name) else {
            return false;
        };
        let has_words = |text: &str| text.contains(found);
        check["verdict"] == verdict && check["found"].as_str().is_some_and(has_words)
    }

    /// Examines until a check says this: what runs may be busy with something else at first.
    async fn until(command: impl Fn() -> Command, said: (&str, &str, &str)) -> Self {
        let end = Instant::now() + LIMIT;
        loop {
            let examination = Self::of(command()).await;
            if examination.says(said) {
                examination.assert(said);
                return examination;
            }
            let late = Instant::now() >= end;
            assert!(!late, "not {said:?}: {:?}", examination.checks);
        }
    }

    /// That a check says this, has advice if it is not well, and that the command ends accordingly.
    #[track_caller]
    fn assert(&self, said: (&str, &str, &str)) {
        assert!(self.says(said), "not {said:?}: {:?}", self.checks);
        let (name, verdict, _) = said;
        let check = &self.checks[name];
        assert_eq!(check["advice"].is_string(), verdict != "ok", "{check}");
        let least = match verdict {
            "error" => 2,
            "warning" => 1,
            _ => 0,
        };
        assert!(self.code >= Some(least), "{:?} with {check}", self.code);
    }
}

/// Production with an Envoy that has reported how it is doing.
async fn well(redis: &RedisServer) -> Production {
    for (name, value) in [("maxmemory", "100mb"), ("maxmemory-policy", "volatile-lru")] {
        assert_eq!(redis.ask(&["CONFIG", "SET", name, value]).trim(), "OK");
    }
    let options = ProductionOptions {
        envoys: 1,
        ..ProductionOptions::direct(redis)
    };
    let production = Production::start(&options).await;
    until("all is well", LIMIT, async || {
        let examination = Examination::by(&production.control_planes[0]).await;
        examination.unwell().is_empty().then_some(())
    })
    .await;
    production
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_when_anything_is_wrong_names_it() {
    let redis = RedisServer::start().await;
    let mut production = well(&redis).await;
    assert_database(&production).await;
    assert_servers(&production).await;
    assert_redis(&redis, &production.control_planes[1]).await;
    assert_surroundings(&production.control_planes[0]).await;
    assert_running(&redis, &mut production).await;
}

/// Runs SQL and examines until a check says this, and then runs SQL that takes it back. It runs again each time: what runs may
/// have written in between.
async fn assert_sql(production: &Production, sql: &str, back: &str, said: (&str, &str, &str)) {
    let command = || {
        production.database.execute(sql);
        doctor(&production.control_planes[0])
    };
    Examination::until(command, said).await;
    production.database.execute(back);
}

/// Of several servers each is told of, and that two of them are no cluster.
async fn assert_servers(production: &Production) {
    let mut other = MariaDb::start();
    other.execute("CREATE DATABASE test_0");
    let hosts = [production.database.port(), other.port()].map(|port| format!("127.0.0.1:{port}"));
    let url = format!("mysql://root@{}/test_0", hosts.join(","));
    let command = || {
        let mut command = doctor(&production.control_planes[0]);
        command.env("EDGELINK_STORE_URL", &url);
        command
    };
    let apart = ("database.servers", "error", &*hosts.join(", "));
    let apart = Examination::until(command, apart).await;
    apart.assert(("database.answers", "error", "read_only"));
    other.execute("SET GLOBAL read_only = 1");
    let replica = Examination::until(command, ("database.server", "ok", "takes")).await;
    assert_eq!(replica.checks.get("database.servers"), None);
    other.kill();
    let gone = format!("{} does not answer", hosts[1]);
    let gone = Examination::until(command, ("database.server", "warning", &gone)).await;
    gone.assert(("database.answers", "ok", "test_0"));
}

async fn assert_database(production: &Production) {
    let later = "(version, description, installed_on, success, checksum, execution_time) VALUES (9999, 'later', NOW()";
    let forget = "DELETE FROM test_0._sqlx_migrations WHERE version = 9999";
    for (sql, back, check) in [
        (
            "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            ("database.durability", "error", "= 2"),
        ),
        (
            "SET GLOBAL max_connections = 32",
            "SET GLOBAL max_connections = 151",
            ("database.connections", "warning", "max_connections = 32"),
        ),
        (
            "SET GLOBAL max_allowed_packet = 1048576",
            "SET GLOBAL max_allowed_packet = 16777216",
            ("database.packet", "warning", "1048576"),
        ),
        (
            "SET GLOBAL read_only = 1",
            "SET GLOBAL read_only = 0",
            ("database.read_only", "error", "ON"),
        ),
        (
            &format!("REPLACE INTO test_0._sqlx_migrations {later}, TRUE, '', 0)"),
            forget,
            ("database.schema", "warning", "[9999]"),
        ),
        (
            &format!("REPLACE INTO test_0._sqlx_migrations {later}, FALSE, '', 0)"),
            forget,
            ("database.schema", "error", "[9999]"),
        ),
    ] {
        assert_sql(production, sql, back, check).await;
    }
    let url = production.database.database();
    let command = || {
        let mut command = doctor(&production.control_planes[0]);
        command.env("EDGELINK_STORE_URL", &url);
        command
    };
    let no_schema = ("database.schema", "error", "_sqlx_migrations");
    let examination = Examination::until(command, no_schema).await;
    assert_eq!(examination.code, Some(2));
}

async fn assert_redis(redis: &RedisServer, control_plane: &ControlPlane) {
    let ask = |command: &[&str]| {
        let answer = redis.ask(command);
        assert!(!answer.contains("ERR"), "{command:?}: {answer}");
    };
    let until_said = async |name: &str, verdict: &str, found: &str| {
        Examination::until(|| doctor(control_plane), (name, verdict, found)).await;
    };
    for (name, value, verdict) in [
        ("maxmemory-policy", "allkeys-lru", "error"),
        ("maxmemory-policy", "noeviction", "warning"),
        ("maxmemory", "0", "warning"),
    ] {
        ask(&["CONFIG", "SET", name, value]);
        let found = format!("{name} = {value}");
        until_said("redis.memory", verdict, &found).await;
    }
    // No file can be put where there is a folder.
    let answer = redis.ask(&["CONFIG", "GET", "dir"]);
    let folder = Path::new(answer.lines().last().expect("its folder")).join("dump.rdb");
    std::fs::create_dir(&folder).expect("a folder");
    ask(&["BGSAVE"]);
    until("the disk of Redis has failed", LIMIT, async || {
        let info = redis.ask(&["INFO", "persistence"]);
        info.contains("rdb_last_bgsave_status:err").then_some(())
    })
    .await;
    until_said("redis.persistence", "error", "failed").await;
    let port = free_port().to_string();
    ask(&["REPLICAOF", "127.0.0.1", &port]);
    until_said("redis.role", "error", "slave").await;
    ask(&["REPLICAOF", "NO", "ONE"]);
    ask(&["HSET", "{feed}:state", "installation", "another"]);
    until_said("redis.installation", "error", "another database").await;
    ask(&["DEL", "{feed}:state"]);
    until_said("redis.installation", "ok", "").await;
}

/// What is wrong with the process itself, its machine, or its way.
async fn assert_surroundings(control_plane: &ControlPlane) {
    let until_said = async |(name, value): (&str, &str), said| {
        let command = || {
            let mut command = doctor(control_plane);
            command.env(name, value);
            command
        };
        Examination::until(command, said).await
    };
    let closed = free_port();
    let database = format!("mysql://root@127.0.0.1:{closed}/x");
    let database = ("EDGELINK_STORE_URL", &*database);
    let examination = until_said(database, ("database.answers", "error", "")).await;
    examination.assert(("redis.installation", "ok", ""));
    let file = ("EDGELINK_STORE_URL", "sqlite:///nowhere/at/all.db");
    until_said(file, ("database.answers", "error", "/nowhere/at/all.db")).await;
    let redis = format!("redis://127.0.0.1:{closed}");
    let redis = ("EDGELINK_REDIS_URL", &*redis);
    until_said(redis, ("redis.answers", "error", "no connection")).await;
    let wrong = ("EDGELINK_SERVER_LISTEN", "nowhere");
    let examination = until_said(wrong, ("configuration", "error", "server.listen")).await;
    assert_eq!(examination.code, Some(2));
    let unknown = "EDGELINK_NO_SUCH_SETTING";
    until_said(
        (unknown, "1"),
        ("configuration.variables", "warning", unknown),
    )
    .await;
    let no_tokens = ("EDGELINK_AUTH_EDGE_TOKENS", "");
    until_said(no_tokens, ("configuration.edge_tokens", "warning", "none")).await;
    assert_token_file(control_plane).await;
    let alone = || {
        let mut command = doctor(control_plane);
        command.env_remove("EDGELINK_REDIS_URL");
        command
    };
    let examination = Examination::until(alone, ("feed.publisher", "error", "'redis'")).await;
    examination.assert(("configuration.redis", "warning", "no redis.url"));
    assert_clickhouse(control_plane, closed).await;
    assert_clock(control_plane).await;
}

/// Tokens that come from a file alone are tokens.
async fn assert_token_file(control_plane: &ControlPlane) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{}", "t".repeat(32)).expect("a token");
    let mut command = doctor(control_plane);
    command
        .env("EDGELINK_AUTH_EDGE_TOKENS", "")
        .env("EDGELINK_AUTH_EDGE_TOKEN_FILE", file.path());
    let examination = Examination::of(command).await;
    assert!(
        !examination.checks.contains_key("configuration.edge_tokens"),
        "{:?}",
        examination.checks
    );
}

async fn assert_clickhouse(control_plane: &ControlPlane, closed: u16) {
    let url = format!("http://127.0.0.1:{closed}");
    let command = || {
        let mut command = doctor(control_plane);
        command
            .env("EDGELINK_ANALYTICS_ENGINE", "clickhouse")
            .env("EDGELINK_ANALYTICS_CLICKHOUSE_URL", &url);
        command
    };
    Examination::until(command, ("clickhouse.answers", "error", "")).await;
}

async fn assert_clock(control_plane: &ControlPlane) {
    let folder = TempDir::new().expect("a temporary folder");
    clock::compile(folder.path());
    for (seconds, verdict, found) in [(-10, "warning", "ahead of"), (60, "error", "behind")] {
        let movable = MovableClock::of(folder.path(), "doctor");
        movable.move_by(seconds * 1_000_000);
        let command = || {
            let mut command = doctor(control_plane);
            movable.apply(&mut command);
            command
        };
        let examination = Examination::until(command, ("database.clock", verdict, found)).await;
        examination.assert(("redis.clock", verdict, found));
    }
}

/// What is wrong with what runs; the deployment is in pieces after it.
async fn assert_running(redis: &RedisServer, production: &mut Production) {
    production.envoys.clear();
    assert_edges(production).await;
    assert_outbox(redis, &production.control_planes[0]).await;
    for control_plane in &mut production.control_planes {
        control_plane.process().terminate().await;
    }
    let stopped = || doctor(&production.control_planes[0]);
    Examination::until(stopped, ("feed.publisher", "error", "no control plane")).await;
    assert_numbers_and_clicks(production).await;
}

async fn assert_edges(production: &Production) {
    for (sql, check) in [
        (
            "UPDATE test_0.edge_health SET feed_lag_ms = 9000",
            ("edges.feed", "warning", "behind"),
        ),
        (
            "UPDATE test_0.edge_health SET reported_at = reported_at - 120000",
            ("edges.heard", "warning", "0 of 1 edges"),
        ),
        (
            "DELETE FROM test_0.edge_health",
            ("edges.heard", "warning", "no edge"),
        ),
    ] {
        assert_sql(production, sql, "DO 1", check).await;
    }
}

/// While Redis takes no writes, a change waits.
async fn assert_outbox(redis: &RedisServer, control_plane: &ControlPlane) {
    let refuse = |replicas: &str| {
        let answer = redis.ask(&["CONFIG", "SET", "min-replicas-to-write", replicas]);
        assert_eq!(answer.trim(), "OK");
    };
    refuse("1");
    control_plane.link("").create().await;
    let waits = ("feed.outbox", "warning", "1 rows wait");
    Examination::until(|| doctor(control_plane), waits).await;
    refuse("0");
}

async fn assert_numbers_and_clicks(production: &Production) {
    for (sql, check) in [
        (
            "UPDATE test_0.issuers SET next = 3300000000",
            ("numbers.used", "warning", "93."),
        ),
        (
            "UPDATE test_0.issuers SET next = 3600000000",
            ("numbers.used", "error", "100."),
        ),
        (
            "UPDATE test_0.issuers SET owner = 'x', lease_until = UNIX_TIMESTAMP() * 1000 + 60000",
            ("numbers.issuers", "error", "1000 of 1000"),
        ),
        (
            "REPLACE INTO test_0.click_queue (id, received_at, bytes, body) VALUES (1, UNIX_TIMESTAMP() * 1000 - 61000, 1, '')",
            ("clicks.queue", "warning", "1 bytes"),
        ),
        (
            "UPDATE test_0.click_queue SET bytes = 1073741824",
            ("clicks.queue", "error", "1073741824 bytes"),
        ),
    ] {
        assert_sql(production, sql, "DO 1", check).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_when_acknowledged_writes_may_be_lost_warns() {
    let database = MariaDb::start_with(&["--log-bin", "--innodb-doublewrite=0"]);
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    let examination = Examination::by(&control_plane).await;
    examination.assert(("database.binary_log", "warning", "sync_binlog = 0"));
    examination.assert(("database.doublewrite", "warning", "OFF"));
    database.execute("SET GLOBAL binlog_format = 'STATEMENT'");
    let examination = Examination::by(&control_plane).await;
    examination.assert(("database.binary_log", "error", "STATEMENT"));
    database.execute("SET GLOBAL binlog_format = 'ROW'; SET GLOBAL sync_binlog = 1");
    Examination::by(&control_plane)
        .await
        .assert(("database.binary_log", "ok", "sync_binlog = 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_when_run_on_sqlite_misses_only_edges() {
    let control_plane = ControlPlane::start().await;
    let examination = Examination::by(&control_plane).await;
    examination.assert(("database.version", "ok", "SQLite"));
    examination.assert(("database.schema", "ok", "at this version"));
    examination.assert(("feed.position", "ok", "moving"));
    let unwell = examination.unwell();
    assert!(
        matches!(unwell[..], [check] if check["name"] == "edges.heard"),
        "{unwell:?}"
    );
    assert_eq!(examination.code, Some(1));
    // For people: what is to be done is below it.
    let output = control_plane.run(&["doctor"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("\nWARNING  edges.heard"), "{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("0 errors and "), "{errors}");
}
