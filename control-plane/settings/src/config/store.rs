//! Settings of the database, Redis, lookups, clicks and purging.

use super::links::LinksConfig;
use super::value::{FileText, Secret};
use edgelink_wire::clicks::attributes::Attribute;
use edgelink_wire::settings::Problems;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// The database.
    pub struct StoreConfig {
        /// `sqlite:///absolute/path.db`, `sqlite://relative/path.db` (made when it is missing), or
        /// `mysql://user:password@host:port/database` (MySQL 8.0 or MariaDB 10.6, or later), which several control planes need.
        /// Several servers have commas in between, as in `mysql://user:password@one:3306,two:3306,three:3306/database`: one
        /// that takes writes is used (see Galera below).
        /// Where others share the network, add `?ssl-mode=VERIFY_IDENTITY`, and `&ssl-ca=/path/ca.pem` where needed: without
        /// it TLS is used if the server offers it, and no certificate is checked.
        pub url: Secret = Secret::new("sqlite://edgelink.db");
        /// Whether `serve` brings the schema up to date first; with false, run `edgelink migrate`.
        pub auto_migrate: bool = true;
        /// Open connections, which requests and the work for no request share. SQLite uses one for writing and the rest for reading.
        pub max_connections: u32 = 16, 1..=1_000;
        /// Open connections beside these, which the publisher, leases, bounds and draws of numbers have for themselves.
        pub control_connections: u32 = 3, 1..=100;
        /// Of `max_connections`, so many are for each class of calls alone: lookups, reads, changes, creations, accounts (keys and
        /// sessions of requests), visits, clicks, and work for no request; an eighth of `max_connections` at most. A class takes three
        /// quarters of the rest at most.
        pub reserved_connections: u32 = 1, 0..=100;
        /// Calls of a class that wait for a connection; one more is 503 at once. So is one that would wait for longer than its client
        /// does, by the time that calls of the class take: Envoy says how long it waits (`x-envoy-expected-rq-timeout-ms`), others
        /// wait for `timeout_ms`.
        pub max_waiting: usize = 512, 1..=100_000;
        /// Calls that wait until another one of this process is done with the same row (changes of a link, visits of one that has a
        /// limit, changes of a tenant's accounts); one more is 503 at once. They have no connection meanwhile.
        pub max_waiting_for_row: usize = 128, 1..=100_000;
        /// Time for one call, waiting for a connection included; then 503, and it may have taken effect nevertheless. Commands wait
        /// 20 s at least.
        pub timeout_ms: Duration = Duration::from_millis(1_500), 50..=60_000;
        /// How often all servers that `url` names are asked whether they take writes, where it names several. Control planes of a
        /// Galera cluster come back to the first node that way.
        pub servers_check_ms: Duration = Duration::from_mins(1), 100..=3_600_000;
        /// Single links that wait for their commit; one more is 503. Links that wait are committed together.
        pub create_queue: usize = 4_096, 1..=1_000_000;
    }

    /// Redis, which all control planes of a deployment share.
    ///
    /// Beside the commands and scripts on its keys (`link:*`, `lock:*`, `feed`, `{feed}:state`, `{limits}:*`, `edgelink:listeners`, `edgelink:replicas`)
    /// and the channels `edgelink:nudge`, `edgelink:alive:*`, `edgelink:workers` and `edgelink:clicks`, the Redis user needs `INFO`, `MEMORY USAGE` and, in a cluster, `CLUSTER SLOTS`: by them the publisher
    /// notices that Redis is not as it was left. In a cluster keep `cluster-node-timeout` at 5000 or more, so that no replica
    /// that is behind takes over while records of its master still count.
    pub struct RedisConfig {
        /// `redis://user:password@host:port`, `redis-sentinel://host:port?sentinelServiceName=name&node=host:port` or
        /// `redis-cluster://host:port?node=host:port`; `rediss` for TLS. Without it this process is the only control plane, and
        /// links are cached in it alone.
        pub url: Option<Secret> = None, "redis://127.0.0.1:6379";
        /// Certificates of authorities in PEM, one of which has signed the certificate of a Redis with TLS; in place of those that
        /// the system trusts.
        pub ca_file: Option<FileText> = None, "/etc/edgelink/tls/redis-ca.crt";
        /// Time for a command of a lookup; then the database is asked. Keep it well below the time that an edge waits. Commands of
        /// the publisher may take ten times as long.
        pub timeout_ms: Duration = Duration::from_millis(100), 10..=10_000;
    }

    /// Lookups by edges and visitors.
    pub struct ResolveConfig {
        /// Bytes of links kept in this process.
        pub cache_bytes: u64 = 67_108_864, 0..=17_179_869_184;
        /// How long a link is kept there at most; the feed replaces changed links at once.
        pub cache_ms: Duration = Duration::from_secs(1), 1..=60_000;
        /// How long one control plane may look a link up while the others wait. Keep it above `store.timeout_ms`.
        pub lock_ms: Duration = Duration::from_secs(3), 100..=60_000;
        /// How long a control plane waits for another one before it asks the database itself. Keep it below the time that
        /// an edge waits.
        pub lock_wait_ms: Duration = Duration::from_millis(300), 10..=10_000;
        /// Lookups of the database at once, where they have that many connections (`store.reserved_connections`).
        pub max_lookups: usize = 12, 1..=1_000;
    }

    /// Hot links: those that are followed most.
    pub struct ClicksConfig {
        /// Hot links at most; edges hold them from their start on.
        pub hot_count: u32 = 100, 0..=10_000;
        /// The last minutes whose clicks make links hot.
        pub hot_window_minutes: u64 = 5, 1..=1_440;
        /// How often the hot links are determined.
        pub hot_period_ms: Duration = Duration::from_secs(10), 100..=3_600_000;
        /// What is reported of the clicks of this process's own redirects, with their second and status: `country` and `city` (of
        /// `links.country_header` and `links.city_header`), `userAgent`, `referrer` (a host), `language` (the first of
        /// `Accept-Language`), `utm` (the five parameters of the visitor's query), `rule`, `visitor` (a hash of address and user
        /// agent by which a visitor is known within a day). Without any, clicks are only counted, as are those of visitors with
        /// `DNT: 1` or `Sec-GPC: 1`. Edges have a setting of their own.
        pub attributes: Vec<Attribute> = Vec::new();
        /// Whether requests to this process that lead to no link are reported, with the same attributes. Edges have a setting of
        /// their own.
        pub orphans: bool = false;
    }

    /// Purging: the removal of expired links, tombstones, receipts and clicks.
    pub struct PurgeConfig {
        /// How often `serve` purges, one control plane at a time; 0 is never, then run `edgelink sweep`.
        pub interval_seconds: Duration = Duration::from_mins(1), 0..=86_400;
        /// Retention of a link after its `validUntil`. Until then a later `validUntil` brings it back; then it is deleted.
        pub grace_seconds: u64 = 604_800, 0..=315_360_000;
        /// Retention of tombstones. Caches keep a link for 7 days by default: most of them apply the deletion of the very link
        /// while its tombstone is there.
        pub tombstone_days: u64 = 30, 8..=3_650;
        /// Retention of the audit log, and so of the history of links.
        pub audit_days: u64 = 400, 1..=36_500;
        /// Retention of deliveries to webhooks, also of those that still wait.
        pub delivery_days: u64 = 7, 1..=365;
        /// Rows purged by one transaction.
        pub batch: u32 = 500, 1..=10_000;
        /// Expired links counted at most, for `edgelink_purge_due_links`.
        pub count_limit: u32 = 100_000, 1..=10_000_000;
    }
}

impl ClicksConfig {
    /// Checks that the sources of the attributes are configured.
    pub(super) fn check(&self, links: &LinksConfig, problems: &mut Problems) {
        for (attribute, header, name) in [
            (
                Attribute::Country,
                &links.country_header,
                "links.country_header",
            ),
            (Attribute::City, &links.city_header, "links.city_header"),
        ] {
            if header.is_none() && self.attributes.contains(&attribute) {
                let reason = format!("must be without {}, or {name} be given", attribute.word());
                problems.refuse("clicks.attributes", reason);
            }
        }
    }
}

impl StoreConfig {
    /// The defaults, for the database at `url`.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self {
            url: Secret::new(url),
            ..Self::default()
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let url = self.url.expose();
        if !url.starts_with("sqlite:") && !url.starts_with("mysql:") {
            let must = "must start with 'sqlite://' or 'mysql://', for example sqlite:///var/lib/edgelink/edgelink.db";
            problems.refuse("store.url", must);
        }
    }
}

impl RedisConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let Some(url) = self.url.as_ref().map(Secret::expose) else {
            return;
        };
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let kind = scheme
            .strip_prefix("rediss")
            .or_else(|| scheme.strip_prefix("redis"));
        if !matches!(kind, Some("" | "-sentinel" | "-cluster")) {
            let must = "must start with 'redis://', 'redis-sentinel://' or 'redis-cluster://', or the same with 'rediss'";
            problems.refuse("redis.url", must);
        }
        if self.ca_file.is_some() && !scheme.starts_with("rediss") {
            problems.refuse("redis.ca_file", "needs a redis.url with 'rediss'");
        }
    }
}
