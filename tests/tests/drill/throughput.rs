//! How fast links are created and changed, beside what the database does for a bare client, in one run and with the same durability.

use crate::replica::Replica;
use crate::seconds;
use edgelink_tests::servers::MariaDb;
use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;

const ROUNDS: usize = 3;
const BULK_ITEMS: u64 = 1000;

/// The columns of a link; a bare client writes them one row at a time, each its own transaction.
const INSERT: &str = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, tags, \
    created_at, updated_at, rev) VALUES (?, 1, ?, ?, ?, 302, 0, 1, '[]', 0, 0, 1)";

/// The columns of many links; their values follow.
const INSERT_MANY: &str = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, tags, \
    created_at, updated_at, rev) VALUES ";
const ROWS: u64 = 500;

/// A change of a link; a bare client writes it as a transaction of its own.
const UPDATE: &str = "UPDATE links SET url = ?, url_hash = ?, updated_at = ?, rev = rev + 1 WHERE domain_id = 1 AND code = ?";

/// How many links are changed, in turn.
const CHANGED: u64 = 1000;

/// Makes every request another one.
const POST: &str = r#"
local n = 0
local me = 0
local threads = 0
function setup(thread) thread:set("me", threads); threads = threads + 1 end
function request()
  n = n + 1
  local body = string.format('{"longUrl":"https://example.com/%d/%d"}', me, n)
  return wrk.format("POST", "/api/v1/links", { ["x-api-key"] = KEY, ["content-type"] = "application/json" }, body)
end
"#;

const BULK: &str = r#"
local items = {}
for i = 1, ITEMS do items[i] = string.format('{"longUrl":"https://example.com/bulk/%d"}', i) end
local body = "[" .. table.concat(items, ",") .. "]"
local headers = { ["x-api-key"] = KEY, ["content-type"] = "application/json" }
function request() return wrk.format("POST", "/api/v1/links/bulk", headers, body) end
"#;

/// Changes links in turn, each request of a connection another one.
const PATCH: &str = r#"
local n = 0
function request()
  n = n + 1
  local body = string.format('{"longUrl":"https://example.com/changed/%d"}', n)
  local headers = { ["x-api-key"] = KEY, ["content-type"] = "application/json", ["prefer"] = PREFER }
  return wrk.format("PATCH", string.format("/api/v1/links/changed-%d", n % ITEMS), headers, body)
end
"#;

/// `make throughput`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make throughput"]
async fn throughput() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 10);
    let folder = TempDir::new().expect("a temporary folder");
    let database = MariaDb::start();
    let url = database.database();
    let variables = [("EDGELINK_STORE_URL", url.as_str())];
    let replica = Replica::start("fast", folder.path(), &variables).await;
    let bare = database.database();
    // The same schema, and no other client on it.
    drop(
        Replica::start(
            "schema",
            folder.path(),
            &[("EDGELINK_STORE_URL", bare.as_str())],
        )
        .await,
    );
    let pool = bare_client(&bare).await;

    let post = script(folder.path(), "post.lua", &replica.key(), POST);
    let bulk = script(folder.path(), "bulk.lua", &replica.key(), BULK);
    let patch = script(
        folder.path(),
        "patch.lua",
        &replica.key(),
        &format!("PREFER = \"respond-async\"\n{PATCH}"),
    );
    let patch_seen = script(
        folder.path(),
        "patch-seen.lua",
        &replica.key(),
        &format!("PREFER = nil\n{PATCH}"),
    );
    create_changed(&replica, &pool).await;
    let mut rates: [Vec<f64>; RATES] = Default::default();
    for round in 0..ROUNDS {
        let reference = inserts(&pool, round as u64, time).await;
        let by_32 = load(&replica, &post, 32, time);
        let by_256 = load(&replica, &post, 256, time);
        let bulk = load(&replica, &bulk, 4, time) * BULK_ITEMS as f64;
        let most = inserts_of_many(&pool, round as u64, time).await;
        let updates = updates(&pool, time).await;
        let patches = load(&replica, &patch, 32, time);
        let patches_seen = load(&replica, &patch_seen, 32, time);
        let round_rates = [
            reference,
            by_32,
            by_256,
            bulk,
            most,
            updates,
            patches,
            patches_seen,
        ];
        println!("round {round}: {round_rates:.0?}");
        for (rates, rate) in rates.iter_mut().zip(round_rates) {
            rates.push(rate);
        }
    }
    println!(
        "\nlinks a second, the median of {ROUNDS} rounds of {time:?}, all with innodb_flush_log_at_trx_commit = 1"
    );
    table(rates.map(median));
}

/// Number of rates that are measured in a round.
const RATES: usize = 8;

fn table(rates: [f64; RATES]) {
    let [reference, by_32, by_256, bulk, most, updates, patches, seen] = rates;
    println!("{:<34} {:>9} {:>6} {:>6}", "", "links/s", "ratio", "goal");
    for (name, rate, beside, goal) in [
        ("INSERT, 32 connections", reference, reference, ""),
        ("POST /links, 32 connections", by_32, reference, "0.90"),
        ("POST /links, 256 connections", by_256, reference, "1.00"),
        ("POST /links/bulk, 4 x 1000", bulk, reference, "2.50"),
        ("INSERT of 500 rows, 4 at once", most, reference, ""),
        ("UPDATE, 32 connections", updates, updates, ""),
        ("PATCH, respond-async, 32 conn.", patches, updates, "0.60"),
        ("PATCH, 32 connections", seen, updates, ""),
    ] {
        let ratio = rate / beside;
        println!("{name:<34} {rate:>9.0} {ratio:>6.2} {goal:>6}");
    }
}

/// Creates the links that are changed, for both.
async fn create_changed(replica: &Replica, pool: &MySqlPool) {
    let client = reqwest::Client::new();
    let items: Vec<String> = (0..CHANGED)
        .map(|n| format!(r#"{{"longUrl":"https://example.com/{n}","customSlug":"changed-{n}"}}"#))
        .collect();
    let created = client
        .post(format!("{}/api/v1/links/bulk", replica.url()))
        .header("x-api-key", replica.key())
        .header("content-type", "application/json")
        .body(format!("[{}]", items.join(",")))
        .send()
        .await
        .expect("an answer");
    assert!(created.status().is_success(), "{created:?}");
    for n in 0..CHANGED {
        let id = (1 << 61) + n;
        let insert = sqlx::query(INSERT)
            .bind(id)
            .bind(format!("changed-{n}").into_bytes())
            .bind(b"https://example.com/".to_vec())
            .bind(0i64);
        insert.execute(pool).await.expect("a row");
    }
}

/// Changes a second, over 32 connections.
async fn updates(pool: &MySqlPool, time: Duration) -> f64 {
    let start = Instant::now();
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (pool, count) = (pool.clone(), Arc::clone(&count));
        tasks.spawn(async move {
            let mut connection = pool.acquire().await.expect("a connection");
            while start.elapsed() < time {
                let n = count.fetch_add(1, Ordering::Relaxed);
                let changed = sqlx::query(UPDATE)
                    .bind(format!("https://example.com/changed/{n}").into_bytes())
                    .bind(n as i64)
                    .bind(n)
                    .bind(format!("changed-{}", n % CHANGED).into_bytes())
                    .execute(&mut *connection)
                    .await
                    .expect("an update");
                assert_eq!(changed.rows_affected(), 1);
            }
        });
    }
    tasks.join_all().await;
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

async fn bare_client(url: &str) -> MySqlPool {
    let options = MySqlPoolOptions::new().max_connections(32);
    let pool = options.connect(url).await.expect("a connection");
    sqlx::query("INSERT INTO domains (id, name) VALUES (1, 'go.example')")
        .execute(&pool)
        .await
        .expect("a domain");
    pool
}

/// Rows a second, inserted over 32 connections.
async fn inserts(pool: &MySqlPool, round: u64, time: Duration) -> f64 {
    let start = Instant::now();
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (pool, count) = (pool.clone(), Arc::clone(&count));
        tasks.spawn(async move {
            let mut connection = pool.acquire().await.expect("a connection");
            while start.elapsed() < time {
                let n = (round << 40) + count.fetch_add(1, Ordering::Relaxed);
                sqlx::query(INSERT)
                    .bind(n)
                    .bind(format!("{n:07}").into_bytes())
                    .bind(format!("https://example.com/{n}").into_bytes())
                    .bind(n as i64)
                    .execute(&mut *connection)
                    .await
                    .expect("a row");
            }
        });
    }
    tasks.join_all().await;
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// Rows a second by a client that does nothing else, [`ROWS`] in each transaction over 4 connections, and that
/// publishes none of them: what the table itself allows. Codes are in no order, as those of an issuer.
async fn inserts_of_many(pool: &MySqlPool, round: u64, time: Duration) -> f64 {
    let start = Instant::now();
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (pool, count) = (pool.clone(), Arc::clone(&count));
        tasks.spawn(async move {
            let mut connection = pool.acquire().await.expect("a connection");
            while start.elapsed() < time {
                let first = (round << 24) + count.fetch_add(ROWS, Ordering::Relaxed);
                let text = many(first);
                let insert = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection);
                insert.await.expect("rows");
            }
        });
    }
    tasks.join_all().await;
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn many(first: u64) -> String {
    let mut text = INSERT_MANY.to_owned();
    for n in first..first + ROWS {
        // Every number below 2^28 once, in no order.
        let code = n.wrapping_mul(0x9e37_79b1) % (1 << 28);
        let (comma, id) = (if n == first { "" } else { "," }, (1 << 60) + n);
        write!(
            text,
            "{comma}({id},1,'x{code:07x}','https://example.com/{n}',{code},302,0,1,'[]',0,0,1)"
        )
        .expect("a text");
    }
    text
}

fn script(folder: &Path, name: &str, key: &str, text: &str) -> String {
    let path = folder.join(name);
    let mut script = String::new();
    writeln!(script, "KEY = \"{key}\"\nITEMS = {BULK_ITEMS}\n{text}").expect("a text");
    std::fs::write(&path, script).expect("a script");
    path.display().to_string()
}

/// Requests a second; all of them must succeed.
fn load(replica: &Replica, script: &str, connections: u32, time: Duration) -> f64 {
    let output = Command::new("wrk")
        .args(["-t1", "--timeout", "10s", "-s", script])
        .arg(format!("-c{connections}"))
        .arg(format!("-d{}s", time.as_secs()))
        .arg(replica.url())
        .output()
        .expect("wrk");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !text.contains("Non-2xx") && !text.contains("Socket errors"),
        "{text}"
    );
    let line = text.lines().find(|line| line.starts_with("Requests/sec:"));
    let rate = line.and_then(|line| line.split_whitespace().nth(1));
    rate.and_then(|rate| rate.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
