//! Every statement of the store, on a database with many links: how many rows it reads must not depend on what the optimizer makes of its
//! statistics. The statements are those that this suite itself sends, run by a process of its own on a server that logs them; each is
//! then explained and run with one domain and with a thousand, before and after `ANALYZE TABLE`.
//!
//! `EDGELINK_TEST_PLANS_LINKS` is how many links there are (`make plans`: a million).

use crate::store::fixture::{migrated, patient};
use edgelink_tests::servers::MariaDb;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row, raw_sql};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

/// The most rows that a statement may read: a page of 5,000, each with a row of another table, and some more.
const MAX_READ: u64 = 12_000;

/// Statements that read more, by a part of their kind, which ends with a semicolon, and the reason for which they may.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("DELETE FROM link_tags;", OF_MIGRATION),
    ("DELETE FROM link_words;", OF_MIGRATION),
    ("JSON_TABLE(", OF_MIGRATION),
    (
        "FROM click_events FORCE INDEX (click_events_of_tenant) WHERE tenant_id = ? AND at >= ? AND at < ? AND is_bot = ?",
        "clicks of bots alone, of which this database has none: it ends where a page is full, or with its time",
    ),
];

/// A migration prepares it from a text.
const OF_MIGRATION: &str = "runs once";

fn links() -> u64 {
    let links = std::env::var("EDGELINK_TEST_PLANS_LINKS").ok();
    let links = links.map(|links| links.parse().expect("a number of links"));
    links.unwrap_or(1_000_000)
}

/// A server that logs what it is asked, and makes no statistics by itself.
struct Server {
    /// `None` where the environment names another one.
    _own: Option<MariaDb>,
    /// Without a database.
    url: String,
    connection: MySqlConnection,
}

impl Server {
    async fn start() -> Self {
        let (own, url) = match std::env::var("EDGELINK_TEST_MYSQL_URL") {
            Ok(url) => (None, url.trim_end_matches('/').to_owned()),
            Err(_) => {
                let server = MariaDb::start_with(&[
                    "--innodb-buffer-pool-size=512M",
                    "--innodb-flush-log-at-trx-commit=0",
                ]);
                let url = server.url("").trim_end_matches('/').to_owned();
                (Some(server), url)
            }
        };
        let connection = MySqlConnection::connect(&format!("{url}/mysql")).await;
        let mut server = Self {
            _own: own,
            url,
            connection: connection.expect("a connection"),
        };
        server
            .run("SET GLOBAL innodb_stats_auto_recalc = 0, GLOBAL log_output = 'TABLE'")
            .await;
        server
    }

    async fn run(&mut self, statements: &str) {
        let run = raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut self.connection);
        run.await
            .unwrap_or_else(|error| panic!("{error}: {statements}"));
    }

    /// What the suite sends over connections of the store, an example of each kind of statement.
    async fn statements(&mut self) -> BTreeMap<String, String> {
        self.run("TRUNCATE mysql.general_log; SET GLOBAL general_log = 1")
            .await;
        let suite = Command::new(std::env::current_exe().expect("this program"))
            .args(["server::", "--skip", "statements::", "--test-threads", "3"])
            .env("EDGELINK_TEST_MYSQL_URL", &self.url)
            .output()
            .expect("the suite");
        self.run("SET GLOBAL general_log = 0").await;
        // Some of its tests are about time, which a server that logs everything takes; what counts here is what they have sent.
        let printed = String::from_utf8_lossy(&suite.stdout);
        assert!(printed.contains("test result"), "{printed}");
        // Only the store sets this mode.
        let logged: Vec<(Vec<u8>,)> = sqlx::query_as(
            "SELECT CAST(argument AS BINARY) FROM mysql.general_log WHERE command_type IN ('Execute', 'Query') \
             AND thread_id IN (SELECT thread_id FROM mysql.general_log WHERE argument LIKE 'SET SESSION sql_mode = ''STRICT_ALL%')",
        )
        .fetch_all(&mut self.connection)
        .await
        .expect("the log");
        let migrations = migrations();
        let mut statements = BTreeMap::new();
        for (text,) in logged {
            let text = String::from_utf8_lossy(&text);
            for statement in split(&text) {
                let kind = kind_of(statement);
                let is_of_migrations = migrations.contains(&kind);
                if reads_rows(&kind) && !is_of_migrations {
                    statements.entry(kind).or_insert(statement.to_owned());
                }
            }
        }
        statements
    }

    /// Makes a database with so many domains, and fills it.
    async fn fill(&mut self, domains: u64) {
        let name = format!("plans_{}_{domains}", std::process::id());
        self.run(&format!("CREATE DATABASE {name}; USE {name}"))
            .await;
        migrated(&patient(&format!("{}/{name}", self.url))).await;
        let version: String = sqlx::query_scalar("SELECT CONVERT(VERSION() USING utf8mb4)")
            .fetch_one(&mut self.connection)
            .await
            .expect("a version");
        let links = links();
        let numbers = if version.contains("MariaDB") {
            format!("INSERT INTO numbers SELECT seq FROM seq_1_to_{links}")
        } else {
            format!(
                "SET SESSION cte_max_recursion_depth = {links}; INSERT INTO numbers \
                 WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {links}) SELECT seq FROM n"
            )
        };
        self.run("CREATE TABLE numbers (seq BIGINT UNSIGNED PRIMARY KEY)")
            .await;
        self.run(&numbers).await;
        // As the sessions of the store are, but for time.
        let optimizer = if version.contains("MariaDB") {
            "join_cache_level = 0, SESSION optimizer_switch = 'exists_to_in=off,materialization=off'"
        } else {
            "optimizer_switch = 'batched_key_access=off,block_nested_loop=off,materialization=off'"
        };
        self.run(&format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION unique_checks = 0, SESSION {optimizer}, \
             SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY'"
        ))
        .await;
        for fill in FILL.split(';') {
            self.run(&fill.replace("{domains}", &domains.to_string()))
                .await;
        }
    }

    /// What is wrong with the plan of a statement, or with how many rows it reads.
    async fn examine(&mut self, statement: &str) -> Option<String> {
        let explain = AssertSqlSafe(format!("EXPLAIN {statement}"));
        let plan = raw_sql(explain).fetch_all(&mut self.connection).await;
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return Some(format!("cannot be explained: {error}")),
        };
        let plan: Vec<String> = plan.iter().map(describe).collect();
        if plan.iter().any(|line| line.contains("join buffer")) {
            return Some(format!("joins by a buffer: {plan:#?}"));
        }
        self.run("FLUSH STATUS; START TRANSACTION").await;
        // An error, as that of a key that is there, reads rows as well.
        let run = raw_sql(AssertSqlSafe(statement.to_owned()));
        let _answer = run.fetch_all(&mut self.connection).await;
        let read: Vec<(String, String)> =
            sqlx::query_as("SHOW SESSION STATUS LIKE 'Handler_read%'")
                .fetch_all(&mut self.connection)
                .await
                .expect("figures");
        self.run("ROLLBACK").await;
        let read: u64 = read
            .iter()
            .filter_map(|(_, count)| count.parse::<u64>().ok())
            .sum();
        (read > MAX_READ).then(|| format!("reads {read} rows: {plan:#?}"))
    }
}

/// A row of a plan.
fn describe(row: &MySqlRow) -> String {
    let of = |column| {
        let text = row.try_get::<Option<String>, _>(column);
        text.ok().flatten().unwrap_or_default()
    };
    let [table, kind, key, extra] = ["table", "type", "key", "Extra"].map(of);
    format!("{table} {kind} {key} {extra}")
}

/// Whether a statement reads rows that are there.
fn reads_rows(kind: &str) -> bool {
    let reads = ["SELECT", "(SELECT", "UPDATE", "DELETE", "WITH"]
        .iter()
        .any(|word| kind.starts_with(word))
        || (kind.starts_with("INSERT") && kind.contains(" SELECT "));
    let is_of_server = [
        "information_schema",
        "_sqlx_migrations",
        "migration_lease",
        "@@",
        "mysql.",
    ]
    .iter()
    .any(|of| kind.contains(of));
    reads && !is_of_server
}

/// The statements of a text, which end with a semicolon that is in no string.
fn split(text: &str) -> Vec<&str> {
    let mut is_string = false;
    let parts = text.split(|c| {
        is_string ^= c == '\'';
        c == ';' && !is_string
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.collect()
}

/// A statement without its values, and with lists of one.
fn kind_of(statement: &str) -> String {
    let mut kind = String::new();
    let mut rest = statement.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' => {
                while let Some(c) = rest.next() {
                    match c {
                        '\\' => drop(rest.next()),
                        '\'' if rest.peek() == Some(&'\'') => drop(rest.next()),
                        '\'' => break,
                        _ => {}
                    }
                }
                kind.push('?');
            }
            '0'..='9' if !kind.ends_with(|c: char| c.is_alphanumeric() || c == '_') => {
                while rest.next_if(|c| c.is_ascii_alphanumeric()).is_some() {}
                kind.push('?');
            }
            c if c.is_whitespace() => {
                if !kind.ends_with(' ') {
                    kind.push(' ');
                }
            }
            c => kind.push(c),
        }
    }
    for introducer in ["_binary?", "_utf8mb4?", "_utf8mb4 ?", "X?", "x?"] {
        kind = kind.replace(introducer, "?");
    }
    while kind.contains("?, ?") || kind.contains("?,?") {
        kind = kind.replace("?, ?", "?").replace("?,?", "?");
    }
    while kind.contains("(?), (?)") {
        kind = kind.replace("(?), (?)", "(?)");
    }
    kind
}

/// The statements of all migrations, which run once.
fn migrations() -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../control-plane/store/migrations/mysql"
    );
    let mut kinds = String::new();
    for file in std::fs::read_dir(folder).expect("the migrations") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a migration");
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let text: Vec<&str> = lines.collect();
        for statement in split(&text.join("\n")) {
            // Writing to a String does not fail.
            let _ = writeln!(kinds, "{}", kind_of(statement));
        }
    }
    kinds
}

/// A quarter of the links is deleted, one of eight has tags and a title; each has what a link may have in other tables.
const FILL: &str = "\
    INSERT INTO domains (id, name) SELECT seq, IF(seq = 1, 'a.example', CONCAT('d', seq, '.example')) FROM numbers WHERE seq <= {domains}; \
    INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, title, tags, created_at, updated_at, \
    deleted_at, valid_until, owner_id, external_id, content_hash, rev) SELECT seq, 1 + seq % {domains}, CONCAT('c', seq), \
    CONCAT('https://h', seq, '.example/'), seq % 1000, 302, 0, 1, IF(seq % 8, NULL, CONCAT('w', seq)), \
    IF(seq % 8, '[]', CONCAT('[\"t', seq % 100, '\",\"u\"]')), seq, seq, IF(seq % 4, NULL, seq), IF(seq % 5, NULL, 4000000000000), \
    seq % 7, CONCAT('e', seq), seq, 1 FROM numbers; \
    INSERT INTO link_tags (tenant_id, tag, created_at, link_id) SELECT 1, 'u', seq, seq FROM numbers WHERE seq % 8 = 0; \
    INSERT INTO link_tags (tenant_id, tag, created_at, link_id) SELECT 1, CONCAT('t', seq % 100), seq, seq FROM numbers WHERE seq % 8 = 0; \
    INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, CONCAT('w', seq), seq FROM numbers WHERE seq % 8 = 0; \
    INSERT INTO link_totals (link_id, clicks, bots) SELECT seq, seq, 0 FROM numbers; \
    INSERT INTO visits (link_id, used) SELECT seq, 1 FROM numbers WHERE seq % 3 = 0; \
    INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until) SELECT seq, LPAD(seq, 16, '0'), 1, 1, 0, 4000000000000 \
    FROM numbers WHERE seq % 3 = 0; \
    INSERT INTO click_hours (kind, hour, scope_id, clicks, bots, head, doc) \
    SELECT 1, UNIX_TIMESTAMP() DIV 3600 - seq % 50, seq DIV 50, 5, 0, X'0201050000', X'00' FROM numbers; \
    INSERT INTO click_days (kind, scope_id, day, clicks, bots, head, doc) \
    SELECT 1, seq DIV 50, UNIX_TIMESTAMP() DIV 86400 - 1 - seq % 50, 5, 0, X'0201050000', X'00' FROM numbers; \
    INSERT INTO click_events (number, clicks, at, tenant_id, domain_id, link_id, is_bot, described) \
    SELECT seq, 1, UNIX_TIMESTAMP() - 20000 + seq % 20000, 1, 1 + seq % {domains}, seq, 0, X'00' FROM numbers; \
    INSERT INTO click_ids (id, link_id, tenant_id, domain_id, at) SELECT LPAD(seq, 16, '0'), seq, 1, 1 + seq % {domains}, UNIX_TIMESTAMP() \
    FROM numbers; \
    INSERT INTO audit (at, tenant_id, actor, action, subject, detail) \
    SELECT seq, 1, 'one', 'link.create', CONCAT('link:a.example/c', seq), '{}' FROM numbers; \
    INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at) \
    SELECT LPAD(seq, 32, '0'), 0, LPAD(seq, 32, '0'), seq, CONCAT('a.example/c', seq), 1, UNIX_TIMESTAMP() * 1000 FROM numbers";

const TABLES: &str = "links, domains, link_tags, link_words, link_totals, visits, visit_leases, click_hours, click_days, click_events, \
    click_ids, audit, receipts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs the suite once more: make plans"]
async fn statement_when_statistics_are_wrong_reads_one_page_at_most() {
    let mut server = Server::start().await;
    let statements = server.statements().await;
    println!("{} kinds of statements", statements.len());
    assert!(statements.len() > 200, "{}", statements.len());
    assert!(
        statements
            .keys()
            .any(|kind| kind.contains("FROM links FORCE INDEX (PRIMARY)"))
    );
    let mut wrong = Vec::new();
    for domains in [1, 1000] {
        server.fill(domains).await;
        for is_analyzed in [false, true] {
            if is_analyzed {
                server.run(&format!("ANALYZE TABLE {TABLES}")).await;
            }
            for (kind, statement) in &statements {
                let kind = format!("{kind};");
                let is_exception = EXCEPTIONS.iter().any(|(part, _)| kind.contains(part));
                let found = if is_exception {
                    None
                } else {
                    server.examine(statement).await
                };
                wrong.extend(found.map(|found| {
                    format!("{domains} domains, analyzed {is_analyzed}: {statement}\n    {found}")
                }));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn statements_when_only_values_differ_are_of_one_kind() {
    let kind = kind_of(
        "SELECT a FROM t1 WHERE id IN (1, 2, 3)  AND name = 'it''s; x' AND b = X'00ff' LIMIT 5",
    );
    let other =
        kind_of("SELECT a FROM t1 WHERE id IN (7) AND name = _binary'' AND b = X'' LIMIT 50");
    assert_eq!(kind, other);
    assert!(kind.starts_with("SELECT a FROM t1"), "{kind}");
    assert_eq!(split("A ';' B; C;"), ["A ';' B", "C"]);
}
