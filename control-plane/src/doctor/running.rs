//! The running system: publisher, outbox, feed, numbers, edges, clicks.

use super::report::{Report, Verdict};
use edgelink_clicks::analytics::ClickHouse;
use edgelink_model::clock;
use edgelink_redis::Redis;
use edgelink_settings::config::{Config, EngineKind, NumberSourceKind};
use edgelink_store::{FeedKind, ISSUERS, NotedScan, ScanProgress, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time that a change may wait to be published.
const OUTBOX_WARNING_MILLIS: u64 = 5_000;
const OUTBOX_ERROR_MILLIS: u64 = 60_000;

/// Time that a click report may wait to be written.
const CLICKS_WARNING_MILLIS: u64 = 60_000;
const CLICKS_ERROR_MILLIS: u64 = 600_000;

/// Share of used numbers from which a longer code length should be planned.
const NUMBERS_WARNING: f64 = 0.9;

/// Time for which a worker, which reports every 10 s, may be silent or lag behind the feed.
const EDGE_SILENCE: Duration = Duration::from_mins(1);
const EDGE_LAG_MILLIS: u64 = 5_000;

/// Most edges that are examined.
const MAX_EDGES: u32 = 1_000;

/// A control plane records the progress of its key scan each second; one that is silent for longer has ended.
const SCAN_SILENCE_MILLIS: u64 = 10_000;

/// Interval between looks at values that have to change.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn examine(
    config: &Config,
    store: &Arc<Store>,
    redis: Option<&Redis>,
    report: &mut Report,
) -> Result<(), StoreError> {
    check_publisher(config, store, redis, report).await?;
    check_outbox(store, report).await?;
    check_known_keys(store, report).await?;
    check_numbers(config, store, report).await?;
    check_edges(store, report).await?;
    check_clicks(config, store, report).await?;
    if config.analytics.engine == EngineKind::ClickHouse {
        check_clickhouse(config, store, report).await;
    }
    Ok(())
}

async fn check_publisher(
    config: &Config,
    store: &Store,
    redis: Option<&Redis>,
    report: &mut Report,
) -> Result<(), StoreError> {
    const NAME: &str = "feed.publisher";
    let state = store.publisher().await?;
    let ours = match config.redis.url {
        Some(_) => FeedKind::Redis.as_str(),
        None => FeedKind::Local.as_str(),
    };
    if state.has_expired() {
        let advice = "Start one ('edgelink serve'); if some run, see their logs for what keeps them from it.";
        report.error(NAME, "no control plane publishes", advice);
        return Ok(());
    }
    if state.kind != ours {
        let found = format!(
            "the publisher's feed is of the kind '{}', and ours of '{ours}'",
            state.kind
        );
        let advice = "Give all control planes of the database the same redis.url.";
        report.error(NAME, found, advice);
        return Ok(());
    }
    report.ok(
        NAME,
        format!(
            "a process has the lease, in generation {}",
            state.generation
        ),
    );
    let limit = config.publisher.lease_ms + config.publisher.heartbeat_ms * 2;
    let is_moving = await_movement(store, redis, limit).await?;
    report.judge(
        "feed.position",
        Verdict::error_unless(is_moving),
        if is_moving {
            "moving".to_owned()
        } else {
            format!("stood still for {limit:?}")
        },
        "See the log of the control plane that publishes: it hangs, or cannot write to Redis.",
    );
    Ok(())
}

/// Waits until the publisher renews its lease and its feed in Redis receives a beat.
async fn await_movement(
    store: &Store,
    redis: Option<&Redis>,
    limit: Duration,
) -> Result<bool, StoreError> {
    let end = Instant::now() + limit;
    let position = async || match redis {
        Some(redis) => redis.newest().await.ok(),
        None => None,
    };
    let before = (store.publisher().await?.token, position().await);
    while Instant::now() < end {
        sleep(PAUSE).await;
        let now = (store.publisher().await?.token, position().await);
        let has_beat = redis.is_none() || (now.1.is_some() && now.1 != before.1);
        if now.0 != before.0 && has_beat {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn check_outbox(store: &Store, report: &mut Report) -> Result<(), StoreError> {
    let size = store.outbox_size().await?;
    report.judge(
        "feed.outbox",
        Verdict::of(size.age_millis, OUTBOX_WARNING_MILLIS, OUTBOX_ERROR_MILLIS),
        format!(
            "{} rows wait, the oldest for {} ms",
            size.rows, size.age_millis
        ),
        "See feed.publisher and redis.*: changes do not reach edges until they are published.",
    );
    Ok(())
}

async fn check_known_keys(store: &Store, report: &mut Report) -> Result<(), StoreError> {
    const NAME: &str = "feed.known_keys";
    let scans = store.noted_scans().await?;
    let is_under_way =
        |scan: &&NotedScan| !scan.progress.is_complete && scan.age_millis < SCAN_SILENCE_MILLIS;
    let under_way = scans.iter().filter(is_under_way).map(|scan| {
        let ScanProgress { keys, share, .. } = scan.progress;
        let percent = share * 100.0;
        let process = &scan.process;
        format!(
            "{process} has read {keys} ({percent:.0} %) {} ms ago",
            scan.age_millis
        )
    });
    let under_way: Vec<String> = under_way.collect();
    if under_way.is_empty() {
        let last = scans.iter().find(|scan| scan.progress.is_complete);
        let found = last.map_or("none was scanned yet".to_owned(), |last| {
            format!("scanned, {} by the last control plane", last.progress.keys)
        });
        report.ok(NAME, found);
    } else {
        report.warn(NAME, format!("all keys are being scanned: {}", under_way.join("; ")), "Wait: until its scan is complete, a control plane asks the database for each link, and gives no snapshots to workers that start. If it comes no further, see its log.");
    }
    Ok(())
}

async fn check_numbers(
    config: &Config,
    store: &Store,
    report: &mut Report,
) -> Result<(), StoreError> {
    if config.numbers.source != NumberSourceKind::Segment {
        return Ok(());
    }
    let (usage, issuers) = (store.issuer_usage().await?, u64::from(ISSUERS));
    let all = config.links.code_space().length().count() / issuers * issuers;
    let share = (usage.drawn as f64 / all as f64).min(1.0);
    let (length, held) = (config.links.code_length, usage.held());
    report.judge(
        "numbers.used",
        Verdict::of(share, NUMBERS_WARNING, 1.0),
        format!("{:.4} % of all numbers of links.code_length = {length} are used", share * 100.0),
        "Plan a deployment with a longer links.code_length: links cannot be created without numbers.",
    );
    report.judge(
        "numbers.issuers",
        Verdict::of(held, issuers * 9 / 10, issuers),
        format!("{held} of {ISSUERS} issuers are leased"),
        "Find what starts control planes again and again: each start leases one for numbers.lease_seconds.",
    );
    Ok(())
}

async fn check_edges(store: &Store, report: &mut Report) -> Result<(), StoreError> {
    let edges = store.edge_health(EDGE_SILENCE, MAX_EDGES).await?;
    if edges.is_empty() {
        report.warn("edges.heard", "no edge has reported within a day", "Well without edges. Otherwise see that they report clicks, their token, and edgelink_* metrics at Envoy.");
        return Ok(());
    }
    let names = |is_meant: &dyn Fn(&edgelink_store::EdgeHealth) -> bool| {
        let meant = edges.iter().filter(|edge| is_meant(edge));
        meant
            .map(|edge| format!("'{}'", edge.edge))
            .collect::<Vec<_>>()
    };
    let silent = names(&|edge| edge.workers == 0);
    let found = format!(
        "{} of {} edges reported within {} s",
        edges.len() - silent.len(),
        edges.len(),
        EDGE_SILENCE.as_secs()
    );
    if silent.is_empty() {
        report.ok("edges.heard", found);
    } else {
        report.warn("edges.heard", format!("{found}; silent: {}", silent.join(", ")), "See whether these run and reach the control planes; those that were removed are forgotten after a day.");
    }
    let late = names(&|edge| {
        edge.workers > 0
            && edge
                .feed_lag_millis
                .is_none_or(|lag| lag >= EDGE_LAG_MILLIS)
    });
    if late.is_empty() {
        report.ok(
            "edges.feed",
            format!("none is more than {} s behind", EDGE_LAG_MILLIS / 1000),
        );
    } else {
        report.warn("edges.feed", format!("behind, or without a feed: {}", late.join(", ")), "See that they poll (feed in their configuration), and reach a control plane whose feed is current (/health/ready).");
    }
    Ok(())
}

async fn check_clicks(
    config: &Config,
    store: &Store,
    report: &mut Report,
) -> Result<(), StoreError> {
    let (bytes, oldest) = (
        store.clicks().queued_bytes().await?,
        store.clicks().oldest_report().await?,
    );
    let age = oldest.map_or(0, |at| clock::unix_millis().saturating_sub(at));
    let most = config.analytics.max_queued_bytes;
    let by_age = Verdict::of(age, CLICKS_WARNING_MILLIS, CLICKS_ERROR_MILLIS);
    report.judge(
        "clicks.queue",
        by_age.max(Verdict::of(bytes, most / 2, most)),
        format!("{bytes} bytes of {most} (analytics.max_queued_bytes) wait, the oldest for {age} ms"),
        "See the log of the control planes for what the writer of clicks complains of, and the engine of analytics. At the bound edges keep their clicks, and drop them at last.",
    );
    Ok(())
}

async fn check_clickhouse(config: &Config, store: &Arc<Store>, report: &mut Report) {
    let engine = ClickHouse::new(&config.analytics, store.clicks().clone());
    match engine.version().await {
        Ok(version) => report.ok("clickhouse.answers", format!("version {version}")),
        Err(error) => report.error("clickhouse.answers", error, "See that it runs, and analytics.clickhouse_url, user and password. Clicks wait in the queue until then."),
    }
}
