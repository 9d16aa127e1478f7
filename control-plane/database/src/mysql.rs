//! MySQL 8.0 and later, and MariaDB 10.6 and later.

use super::calls::{Connections, Database, Place, Pools};
use super::error::{Fault, Remedy, StoreError};
use super::lending::MAX_IDLE;
use super::nodes::{Known, NodeTimes, Nodes, is_galera};
use super::session::{IDLE_TIMEOUT, MAX_LIFETIME, MySqlConnections, Pool};
use edgelink_settings::config::StoreConfig;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolConnectionMetadata;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, raw_sql};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CONTEXT: &str = "connecting to the MySQL database";

/// The most bytes of one INSERT, where the server's `max_allowed_packet` allows them.
const MAX_BYTES: usize = 4 << 20;

/// Number of prepared statements cached by a connection: each kind of list in each of its lengths, and some more. For the
/// cost of an evicted statement see [`super::sql`].
const STATEMENTS_KEPT: usize = 256;

/// Multiple of `store.timeout_ms` after which the server aborts a SELECT; this process gives up after one.
const ABANDONED: u32 = 2;

/// Least limit on MariaDB, which has one for all statements: a commit of many rows may take long.
const LONGEST: Duration = Duration::from_secs(60);

/// Makes every statement and transaction on a Galera node wait until the node has applied all earlier commits of any node.
/// Otherwise a process that has read a token on one node would mistake a lagging node for a database
/// that went back, and a change just acknowledged would be missing in records sent to edges.
const SEE_ALL: &str = "SET SESSION wsrep_sync_wait = 7";

/// Connects to the server, or to one of several.
pub(super) async fn connect(config: &StoreConfig) -> Result<Database, StoreError> {
    let nodes = nodes(config)?;
    nodes.start().await.map_err(|why| StoreError {
        context: CONTEXT,
        transient: true,
        source: why.into(),
    })?;
    let server = Arc::new(ServerSettings::default());
    let max_bytes = Arc::clone(&server.max_bytes);
    let shared = pool_options(config, config.max_connections, &nodes, &server);
    let shared = shared.connect_with(nodes.used().clone());
    let shared = shared.await.map_err(refused)?;
    let control = pool_options(config, config.control_connections, &nodes, &server);
    let control = control.connect_lazy_with(nodes.used().clone());
    let pools: Arc<[MySqlPool]> = Arc::new([shared.clone(), control.clone()]);
    let pools = |pool| {
        let pool = Pool::MySql(MySqlConnections {
            pool,
            returned: Arc::default(),
            pools: Arc::clone(&pools),
            nodes: Arc::clone(&nodes),
            lock_wait: Duration::from_secs(lock_wait(config.timeout_ms)),
        });
        Pools {
            readers: pool.clone(),
            writers: pool,
        }
    };
    let connections = Connections {
        shared: pools(shared),
        control: pools(control),
        bulkheads: Connections::bulkheads(config, config.max_connections),
    };
    let place = Place::Servers(nodes);
    Ok(Database::new(connections, config, max_bytes, place))
}

fn pool_options(
    config: &StoreConfig,
    connections: u32,
    nodes: &Arc<Nodes>,
    server: &Arc<ServerSettings>,
) -> MySqlPoolOptions {
    let (nodes, server) = (Arc::clone(nodes), Arc::clone(server));
    let lock_wait = lock_wait(config.timeout_ms);
    let longest = config.timeout_ms * ABANDONED;
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(config.timeout_ms)
        .max_lifetime(MAX_LIFETIME)
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(move |connection, idle| {
            let is_current = nodes.is_current(idle.age);
            Box::pin(async move { Ok(is_current && check(connection, idle).await?) })
        })
        .after_connect(move |connection, _| {
            let server = Arc::clone(&server);
            Box::pin(async move { prepare(connection, &server, lock_wait, longest).await })
        })
}

/// The state of each database server, by name.
pub(super) async fn servers(config: &StoreConfig) -> Result<Vec<(String, Known)>, StoreError> {
    let nodes = nodes(config)?;
    Ok(nodes.standings().await)
}

fn nodes(config: &StoreConfig) -> Result<Arc<Nodes>, StoreError> {
    let times = NodeTimes {
        timeout: config.timeout_ms,
        period: config.servers_check_ms,
    };
    Nodes::new(config.url.expose(), times, options).map_err(refused)
}

fn options(url: MySqlConnectOptions) -> MySqlConnectOptions {
    url.statement_cache_capacity(STATEMENTS_KEPT)
        .timezone(Some("+00:00".to_owned()))
        // The whole mode is set in `prepare`.
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        // Statements contain the targets of customers, megabytes of them in a batch.
        .disable_statement_logging()
}

/// The settings reported by the server, which may be another one after a failover.
#[derive(Debug)]
struct ServerSettings {
    max_bytes: Arc<AtomicUsize>,
    warned: AtomicBool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            max_bytes: Arc::new(AtomicUsize::new(MAX_BYTES)),
            warned: AtomicBool::new(false),
        }
    }
}

/// Sets the session variables that statements rely on, whatever the server's defaults are.
async fn prepare(
    connection: &mut MySqlConnection,
    server: &ServerSettings,
    lock_wait: u64,
    longest: Duration,
) -> Result<(), sqlx::Error> {
    let settings = format!(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY', \
         SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {lock_wait}, \
         SESSION foreign_key_checks = 1, SESSION unique_checks = 1"
    );
    raw_sql(AssertSqlSafe(settings))
        .execute(&mut *connection)
        .await?;
    raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .execute(&mut *connection)
        .await?;
    type Settings = (u64, i64, i64, i64, String, String);
    let (packet, flush, log, sync, version, switches): Settings = sqlx::query_as(
        "SELECT CAST(@@max_allowed_packet AS UNSIGNED), CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), \
         CAST(@@log_bin AS SIGNED), CAST(@@sync_binlog AS SIGNED), CONVERT(VERSION() USING utf8mb4), \
         CONVERT(@@optimizer_switch USING utf8mb4)",
    )
    .fetch_one(&mut *connection)
    .await?;
    let limit = if version.contains("MariaDB") {
        format!(
            "max_statement_time = {}, SESSION join_cache_level = 0",
            longest.max(LONGEST).as_secs()
        )
    } else {
        format!("max_execution_time = {}", longest.as_millis())
    };
    let switches = switched_off(&switches);
    let set = format!("SET SESSION {limit}, SESSION optimizer_switch = '{switches}'");
    raw_sql(AssertSqlSafe(set))
        .execute(&mut *connection)
        .await?;
    if is_galera(connection).await? {
        raw_sql(SEE_ALL).execute(connection).await?;
    }
    // Half of it, because the row sizes are estimates.
    let packet = usize::try_from(packet / 2).unwrap_or(MAX_BYTES);
    server
        .max_bytes
        .store(packet.min(MAX_BYTES), Ordering::Relaxed);
    let found = not_durable(flush, (log != 0).then_some(sync));
    warn_unless_durable(found, &server.warned);
    Ok(())
}

/// Optimizations chosen by statistics that harm all statements here. A join buffer (in MariaDB by the variable `join_cache_level`)
/// destroys the order of an index: all rows would be read and sorted before the first one of a page is returned. A
/// materialized subquery reads all rows of its table, although each row of a page needs few.
const SWITCHED_OFF: [&str; 6] = [
    "batched_key_access",
    "block_nested_loop",
    "hash_join",
    "exists_to_in",
    "materialization",
    "subquery_to_derived",
];

/// The value of `optimizer_switch` that switches them off. A switch unknown to the server would be an error.
fn switched_off(switches: &str) -> String {
    let has = |name: &&&str| {
        let mut switches = switches.split(',');
        switches.any(|switch| switch.split('=').next() == Some(**name))
    };
    let off = SWITCHED_OFF.iter().filter(has);
    let off: Vec<String> = off.map(|name| format!("{name}=off")).collect();
    off.join(",")
}

/// Removes the time limit of statements, for migrations.
pub async fn lift_limits(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let version = "SELECT CONVERT(VERSION() USING utf8mb4)";
    let version: String = sqlx::query_scalar(version)
        .fetch_one(&mut *connection)
        .await?;
    let set = if version.contains("MariaDB") {
        "SET SESSION max_statement_time = 0"
    } else {
        "SET SESSION max_execution_time = 0"
    };
    raw_sql(set).execute(connection).await.map(drop)
}

/// The setting that risks losing commits, and its value; `None` if each commit is written to disk. `sync`: the `sync_binlog` of
/// the binary log, if there is one, which decides after a crash which transactions are committed.
fn not_durable(flush: i64, sync: Option<i64>) -> Option<(&'static str, i64)> {
    match (flush, sync) {
        (1, None | Some(1)) => None,
        (1, Some(sync)) => Some(("sync_binlog", sync)),
        (flush, _) => Some(("innodb_flush_log_at_trx_commit", flush)),
    }
}

fn warn_unless_durable(found: Option<(&'static str, i64)>, warned: &AtomicBool) {
    let Some((setting, value)) = found else {
        warned.store(false, Ordering::Relaxed);
        return;
    };
    if !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            setting,
            value,
            "acknowledged links can be lost when the database crashes; the setting should be 1"
        );
    }
}

async fn check(
    connection: &mut MySqlConnection,
    idle: PoolConnectionMetadata,
) -> Result<bool, sqlx::Error> {
    if idle.idle_for > MAX_IDLE {
        connection.ping().await?;
    }
    Ok(true)
}

/// Lock wait timeout of InnoDB, in whole seconds: less than the statement timeout if possible, so that the server
/// answers and the connection stays usable.
fn lock_wait(statement_timeout: Duration) -> u64 {
    let seconds = statement_timeout.as_secs();
    if statement_timeout.subsec_nanos() > 0 {
        seconds.max(1)
    } else {
        seconds.saturating_sub(1).max(1)
    }
}

fn refused(error: sqlx::Error) -> StoreError {
    // An untrusted certificate is permanent.
    let is_tls = match &error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    };
    let fault = Fault::Sql(error);
    let remedy = if is_tls {
        Remedy::GiveUp
    } else {
        fault.remedy()
    };
    fault.into_error(CONTEXT, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizer_switch_when_server_has_it_is_switched_off() {
        for (switches, off) in [
            (
                "index_merge=on,block_nested_loop=on,batched_key_access=off,hash_join=on",
                "batched_key_access=off,block_nested_loop=off,hash_join=off",
            ),
            (
                "index_merge=on,exists_to_in=on,materialization=on",
                "exists_to_in=off,materialization=off",
            ),
            ("hash_join_cardinality=off", ""),
        ] {
            assert_eq!(switched_off(switches), off);
        }
    }

    #[test]
    fn server_when_commits_are_not_synced_is_not_durable() {
        for (flush, sync, setting) in [
            (1, None, None),
            (1, Some(1), None),
            (1, Some(0), Some("sync_binlog")),
            (1, Some(100), Some("sync_binlog")),
            (2, Some(0), Some("innodb_flush_log_at_trx_commit")),
            (0, None, Some("innodb_flush_log_at_trx_commit")),
        ] {
            let found = not_durable(flush, sync).map(|(name, _)| name);
            assert_eq!(found, setting, "{flush} {sync:?}");
        }
    }

    #[test]
    fn lock_wait_when_timeout_is_long_stays_below_it() {
        for (timeout, seconds) in [
            (200, 1),
            (1000, 1),
            (1500, 1),
            (2000, 1),
            (2500, 2),
            (5000, 4),
        ] {
            assert_eq!(lock_wait(Duration::from_millis(timeout)), seconds);
        }
    }
}
