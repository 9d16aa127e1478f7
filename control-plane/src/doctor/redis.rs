//! Redis: availability, writability, retention of the feed, and ownership.

use super::database::{check_clock, major_and_minor};
use super::report::{Report, Verdict};
use edgelink_model::clock;
use edgelink_redis::{Redis, RedisError, ServerInfo};
use edgelink_settings::config::Config;
use std::sync::Arc;
use std::time::Duration;

/// Time limit of a connection.
const CONNECTION_LIMIT: Duration = Duration::from_secs(3);

/// Oldest supported version: it introduced streams.
const OLDEST: (u32, u32) = (5, 0);

/// Examines Redis, and returns its connections if it is configured and answers. `installation` is the name of the database, if known.
pub(super) async fn examine(
    config: &Config,
    installation: Option<&str>,
    report: &mut Report,
) -> Option<Arc<Redis>> {
    const NAME: &str = "redis.answers";
    const ADVICE: &str = "See that it runs, and that redis.url has its address and password. Until then every lookup asks the database.";
    let redis = match Redis::start(&config.redis, &config.feed) {
        Ok(redis) => redis?,
        Err(error) => {
            report.error(NAME, error, "Correct redis.url.");
            return None;
        }
    };
    if !redis.await_connection(CONNECTION_LIMIT).await {
        report.error(
            NAME,
            format!("no connection within {CONNECTION_LIMIT:?}"),
            ADVICE,
        );
        redis.shutdown().await;
        return None;
    }
    match read(&redis, installation, report).await {
        Ok(()) => Some(redis),
        Err(error) => {
            report.error(NAME, error, ADVICE);
            redis.shutdown().await;
            None
        }
    }
}

async fn read(
    redis: &Redis,
    installation: Option<&str>,
    report: &mut Report,
) -> Result<(), RedisError> {
    let servers = redis.servers().await?;
    let masters = if redis.is_clustered() {
        format!("a cluster of {} masters", servers.len())
    } else {
        "one server".to_owned()
    };
    report.ok("redis.answers", masters);
    for server in &servers {
        check_server(server, report);
    }
    for time in redis.clocks().await? {
        let ahead = time
            .cast_signed()
            .wrapping_sub(clock::unix_micros().cast_signed());
        check_clock("redis.clock", ahead / 1000, report);
    }
    let stored = redis.stored_state().await?;
    match (installation, stored) {
        (Some(ours), Some(stored)) if stored.installation != ours => report.error(
            "redis.installation",
            "another database publishes to this Redis",
            "Give each installation a Redis, or a redis.url, of its own. If the other one is gone for good: DEL {feed}:state",
        ),
        (Some(_), Some(_)) => report.ok("redis.installation", "this database publishes to it"),
        (None, Some(_)) => report.ok("redis.installation", "a database publishes to it"),
        (_, None) => report.warn("redis.installation", "nothing was published to it yet", "Start a control plane with this redis.url."),
    }
    Ok(())
}

fn check_server(server: &ServerInfo, report: &mut Report) {
    let field = |name| server.field(name).unwrap_or("unknown");
    let version = field("redis_version");
    let is_new = major_and_minor(version).is_some_and(|version| version >= OLDEST);
    report.judge(
        "redis.version",
        Verdict::error_unless(is_new),
        version,
        "Upgrade to Redis 5.0 or later.",
    );
    let role = field("role");
    let is_master = Verdict::error_unless(role == "master");
    report.judge("redis.role", is_master, role, "Point redis.url at the master, at Sentinel (redis-sentinel://) or at the cluster: a replica takes no writes.");
    check_memory(server, report);
    let is_refusing =
        field("rdb_last_bgsave_status") == "err" || field("aof_last_write_status") == "err";
    if is_refusing {
        report.error("redis.persistence", "the last write to its disk failed, so that it may refuse writes", "See its log and disk. edgelink needs nothing of Redis on disk: CONFIG SET save \"\" and appendonly no.");
    }
    if field("loading") == "1" {
        report.warn(
            "redis.persistence",
            "it is loading its data",
            "Wait: it answers nothing until it has.",
        );
    }
    if server.field("cluster_enabled") == Some("1") && server.field("connected_slaves") == Some("0")
    {
        report.warn(
            "redis.replicas",
            "a master of the cluster has no replica",
            "Add one: without it the loss of that master stops the whole cluster.",
        );
    }
}

fn check_memory(server: &ServerInfo, report: &mut Report) {
    let field = |name| server.field(name).unwrap_or("unknown");
    let number = |name| field(name).parse::<u64>().unwrap_or(0);
    let (most, used, policy) = (
        number("maxmemory"),
        number("used_memory"),
        field("maxmemory_policy"),
    );
    let found =
        format!("maxmemory = {most}, of which {used} are used, maxmemory-policy = {policy}");
    const NAME: &str = "redis.memory";
    if policy.starts_with("allkeys") {
        report.error(NAME, found, "Set maxmemory-policy volatile-lru: with allkeys-* the feed itself is evicted, and all caches ask again.");
    } else if most == 0 {
        report.warn(NAME, found, "Set maxmemory, and maxmemory-policy volatile-lru: links that are cached may fill the machine otherwise.");
    } else if policy == "noeviction" {
        report.warn(NAME, found, "Set maxmemory-policy volatile-lru: a full Redis refuses writes otherwise, and every change waits.");
    } else {
        report.ok(NAME, found);
    }
}
