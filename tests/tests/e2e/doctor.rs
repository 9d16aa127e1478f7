//! `edgelink doctor` on real servers: nothing to say where all is well, and each thing that is wrong by its name.

use edgelink_tests::nemesis::clock::{self, MovableClock};
use edgelink_tests::servers::{MariaDb, RedisServer};
use edgelink_tests::stack::{ControlPlane, Production, ProductionOptions, free_port, until};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

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
        Self::of(control_plane.command(&["doctor", "--json"])).await
    }

    /// The checks that are not well, without what the environment of the test is told of.
    fn unwell(&self) -> Vec<&Value> {
        let checks = self.checks.values();
        checks
            .filter(|check| check["verdict"] != "ok" && check["name"] != "configuration.variables")
            .collect()
    }

    #[track_caller]
    fn assert(&self, name: &str, verdict: &str, found: &str) {
        let check = &self.checks.get(name);
        let check = check.unwrap_or_else(|| panic!("no {name}: {:?}", self.checks));
        assert_eq!(check["verdict"], verdict, "{check}");
        assert!(
            check["found"]
                .as_str()
                .is_some_and(|text| text.contains(found)),
            "{check}"
        );
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
async fn each_thing_that_is_wrong_is_told_of_by_its_name() {
    let redis = RedisServer::start().await;
    let mut production = well(&redis).await;
    assert_database(&production).await;
    assert_servers(&production).await;
    assert_redis(&redis, &production.control_planes[1]).await;
    assert_surroundings(&production.control_planes[0]).await;
    assert_running(&redis, &mut production).await;
}

/// Runs SQL, examines, and runs SQL that takes it back.
async fn assert_sql(production: &Production, sql: &str, back: &str, check: (&str, &str, &str)) {
    production.database.execute(sql);
    let examination = Examination::by(&production.control_planes[0]).await;
    let (name, verdict, found) = check;
    examination.assert(name, verdict, found);
    production.database.execute(back);
}

/// Of several servers each is told of, and that two of them are no cluster.
async fn assert_servers(production: &Production) {
    let mut other = MariaDb::start();
    other.execute("CREATE DATABASE test_0");
    let hosts = [production.database.port(), other.port()].map(|port| format!("127.0.0.1:{port}"));
    let url = format!("mysql://root@{}/test_0", hosts.join(","));
    let examination = async || {
        let mut command = production.control_planes[0].command(&["doctor", "--json"]);
        command.env("EDGELINK_STORE_URL", &url);
        Examination::of(command).await
    };
    let apart = examination().await;
    apart.assert("database.servers", "error", &hosts.join(", "));
    apart.assert("database.answers", "error", "read_only");
    other.execute("SET GLOBAL read_only = 1");
    let replica = examination().await;
    replica.assert("database.server", "ok", "takes");
    assert_eq!(replica.checks.get("database.servers"), None);
    other.kill();
    let gone = examination().await;
    gone.assert(
        "database.server",
        "warning",
        &format!("{} does not answer", hosts[1]),
    );
    gone.assert("database.answers", "ok", "test_0");
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
            &format!("INSERT INTO test_0._sqlx_migrations {later}, TRUE, '', 0)"),
            forget,
            ("database.schema", "warning", "[9999]"),
        ),
        (
            &format!("INSERT INTO test_0._sqlx_migrations {later}, FALSE, '', 0)"),
            forget,
            ("database.schema", "error", "[9999]"),
        ),
    ] {
        assert_sql(production, sql, back, check).await;
    }
    let url = production.database.database();
    let mut command = production.control_planes[0].command(&["doctor", "--json"]);
    command.env("EDGELINK_STORE_URL", url);
    let examination = Examination::of(command).await;
    examination.assert("database.schema", "error", "_sqlx_migrations");
    assert_eq!(examination.code, Some(2));
}

async fn assert_redis(redis: &RedisServer, control_plane: &ControlPlane) {
    let ask = |command: &[&str]| {
        let answer = redis.ask(command);
        assert!(!answer.contains("ERR"), "{command:?}: {answer}");
    };
    for (name, value, verdict) in [
        ("maxmemory-policy", "allkeys-lru", "error"),
        ("maxmemory-policy", "noeviction", "warning"),
        ("maxmemory", "0", "warning"),
    ] {
        ask(&["CONFIG", "SET", name, value]);
        let examination = Examination::by(control_plane).await;
        examination.assert("redis.memory", verdict, &format!("{name} = {value}"));
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
    Examination::by(control_plane)
        .await
        .assert("redis.persistence", "error", "failed");
    let port = free_port().to_string();
    ask(&["REPLICAOF", "127.0.0.1", &port]);
    Examination::by(control_plane)
        .await
        .assert("redis.role", "error", "slave");
    ask(&["REPLICAOF", "NO", "ONE"]);
    ask(&["HSET", "{feed}:state", "installation", "another"]);
    let examination = Examination::by(control_plane).await;
    examination.assert("redis.installation", "error", "another database");
    ask(&["DEL", "{feed}:state"]);
    until("this database publishes again", LIMIT, async || {
        let examination = Examination::by(control_plane).await;
        (examination.checks["redis.installation"]["verdict"] == "ok").then_some(())
    })
    .await;
}

/// What is wrong with the process itself, its machine, or its way.
async fn assert_surroundings(control_plane: &ControlPlane) {
    let with = async |name: &str, value: &str| {
        let mut command = control_plane.command(&["doctor", "--json"]);
        command.env(name, value);
        Examination::of(command).await
    };
    let closed = free_port();
    let examination = with(
        "EDGELINK_STORE_URL",
        &format!("mysql://root@127.0.0.1:{closed}/x"),
    )
    .await;
    examination.assert("database.answers", "error", "");
    examination.assert("redis.installation", "ok", "");
    let examination = with("EDGELINK_STORE_URL", "sqlite:///nowhere/at/all.db").await;
    examination.assert("database.answers", "error", "/nowhere/at/all.db");
    let examination = with("EDGELINK_REDIS_URL", &format!("redis://127.0.0.1:{closed}")).await;
    examination.assert("redis.answers", "error", "no connection");
    let examination = with("EDGELINK_SERVER_LISTEN", "nowhere").await;
    examination.assert("configuration", "error", "server.listen");
    assert_eq!(examination.code, Some(2));
    let examination = with("EDGELINK_NO_SUCH_SETTING", "1").await;
    examination.assert(
        "configuration.variables",
        "warning",
        "EDGELINK_NO_SUCH_SETTING",
    );
    let examination = with("EDGELINK_AUTH_EDGE_TOKENS", "").await;
    examination.assert("configuration.edge_tokens", "warning", "none");
    assert_token_file(control_plane).await;
    let mut alone = control_plane.command(&["doctor", "--json"]);
    alone.env_remove("EDGELINK_REDIS_URL");
    let examination = Examination::of(alone).await;
    examination.assert("configuration.redis", "warning", "no redis.url");
    examination.assert("feed.publisher", "error", "'redis'");
    assert_clickhouse(control_plane, closed).await;
    assert_clock(control_plane).await;
}

/// Tokens that come from a file alone are tokens.
async fn assert_token_file(control_plane: &ControlPlane) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{}", "t".repeat(32)).expect("a token");
    let mut command = control_plane.command(&["doctor", "--json"]);
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
    let mut clickhouse = control_plane.command(&["doctor", "--json"]);
    clickhouse
        .env("EDGELINK_ANALYTICS_ENGINE", "clickhouse")
        .env(
            "EDGELINK_ANALYTICS_CLICKHOUSE_URL",
            format!("http://127.0.0.1:{closed}"),
        );
    Examination::of(clickhouse)
        .await
        .assert("clickhouse.answers", "error", "");
}

async fn assert_clock(control_plane: &ControlPlane) {
    let folder = TempDir::new().expect("a temporary folder");
    clock::compile(folder.path());
    for (seconds, verdict, found) in [(-10, "warning", "ahead of"), (60, "error", "behind")] {
        let movable = MovableClock::of(folder.path(), "doctor");
        movable.move_by(seconds * 1_000_000);
        let mut command = control_plane.command(&["doctor", "--json"]);
        movable.apply(&mut command);
        let examination = Examination::of(command).await;
        examination.assert("database.clock", verdict, found);
        examination.assert("redis.clock", verdict, found);
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
    let examination = Examination::by(&production.control_planes[0]).await;
    examination.assert("feed.publisher", "error", "no control plane");
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
    let link = json!({ "longUrl": "https://example.com/" });
    control_plane.create(&link).await;
    let examination = until("a change waits for too long", LIMIT, async || {
        let examination = Examination::by(control_plane).await;
        let is_late = examination.checks["feed.outbox"]["verdict"] == "warning";
        is_late.then_some(examination)
    })
    .await;
    examination.assert("feed.outbox", "warning", "1 rows wait");
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
            "INSERT INTO test_0.click_queue (received_at, bytes, body) VALUES (UNIX_TIMESTAMP() * 1000 - 61000, 1, '')",
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
async fn a_binary_log_and_pages_that_lose_what_was_acknowledged_are_told_of() {
    let database = MariaDb::start_with(&["--log-bin", "--innodb-doublewrite=0"]);
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    let examination = Examination::by(&control_plane).await;
    examination.assert("database.binary_log", "warning", "sync_binlog = 0");
    examination.assert("database.doublewrite", "warning", "OFF");
    database.execute("SET GLOBAL binlog_format = 'STATEMENT'");
    let examination = Examination::by(&control_plane).await;
    examination.assert("database.binary_log", "error", "STATEMENT");
    database.execute("SET GLOBAL binlog_format = 'ROW'; SET GLOBAL sync_binlog = 1");
    Examination::by(&control_plane)
        .await
        .assert("database.binary_log", "ok", "sync_binlog = 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_control_plane_with_sqlite_is_well_but_for_edges_that_it_does_not_have() {
    let control_plane = ControlPlane::start().await;
    let examination = Examination::by(&control_plane).await;
    examination.assert("database.version", "ok", "SQLite");
    examination.assert("database.schema", "ok", "at this version");
    examination.assert("feed.position", "ok", "moving");
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
