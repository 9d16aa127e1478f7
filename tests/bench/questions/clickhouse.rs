//! Clicks in ClickHouse, made by it of numbers: its views add them up as they do with any other.

use super::{DAYS, LARGE_TAGS, PATIENCE, SPREAD, TAGS};
use crate::rows::database::ISSUER;
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::{ClickHouseKind, ClickHouseServer};
use edgelink_tests::stack::until;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// The columns of `clicks`.
const COLUMNS: &str = "tenant_id, link_id, at, number, clicks, bots, domain_id, key, tags, status, rule, country, city, user_agent, \
     device, browser, os, is_bot, referrer, language, utm_source, utm_medium, utm_campaign, utm_term, utm_content, visitor, is_visitor";

/// The numbers of attributes, and what says their values in `clicks`.
const VALUES: [(u8, &str); 16] = [
    (0, "country"),
    (1, "city"),
    (2, "device"),
    (3, "browser"),
    (4, "os"),
    (5, "referrer"),
    (6, "language"),
    (7, "utm_source"),
    (8, "utm_medium"),
    (9, "utm_campaign"),
    (10, "utm_term"),
    (11, "utm_content"),
    (12, "if(rule = 0, '', toString(rule))"),
    (13, "toString(status)"),
    (15, "arrayJoin(tags)"),
    (16, "substring(key, 1, position(key, '/') - 1)"),
];

/// The tables whose rows are sought link by link.
const OF_LINKS: [&str; 5] = [
    "link_hours",
    "link_days",
    "link_value_days",
    "link_months",
    "link_value_months",
];

pub(super) struct Server {
    server: ClickHouseServer,
    kind: ClickHouseKind,
}

impl Server {
    pub(super) fn start(kind: ClickHouseKind) -> Self {
        Self {
            server: ClickHouseServer::start(kind),
            kind,
        }
    }

    /// The settings of a control plane that keeps its clicks there.
    pub(super) fn settings(&self) -> [(&'static str, String); 5] {
        [
            ("EDGELINK_ANALYTICS_ENGINE", "clickhouse".to_owned()),
            ("EDGELINK_ANALYTICS_CLICKHOUSE_URL", self.server.url()),
            (
                "EDGELINK_ANALYTICS_CLICKHOUSE_TIMEOUT_MS",
                PATIENCE.as_millis().to_string(),
            ),
            // All single clicks stay, and hours, of which days are added up.
            ("EDGELINK_ANALYTICS_RAW_DAYS", (DAYS + 10).to_string()),
            ("EDGELINK_ANALYTICS_HOURS_DAYS", (DAYS + 10).to_string()),
        ]
    }

    pub(super) fn version(&self) -> String {
        self.server.ask("SELECT version()").trim().to_owned()
    }

    /// Makes clicks, a day at a time; how many seconds that takes.
    pub(super) fn fill(&self, clicks: u64, links: u64, domain_id: u32) -> f64 {
        let start = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a clock after 1970").as_secs();
        let first = (now / DAY + 1 - DAYS) * DAY;
        let count = clicks / DAYS;
        for day in 0..DAYS {
            let from = first + day * DAY;
            let length = DAY.min(now - from);
            let select = select(from, length, count, links, domain_id);
            let insert = format!(
                "INSERT INTO edgelink.clicks ({COLUMNS}) {select} FROM (SELECT number + {} AS n FROM numbers({count}))",
                day * count
            );
            let _ = self.server.ask(&insert);
            if self.kind == ClickHouseKind::Chdb {
                // Control planes add values up themselves for servers of today.
                let _ = self.server.ask(&values(from / DAY));
            }
        }
        let hour = now / 3600 * 3600;
        let _ = self.server.ask(&format!(
            "INSERT INTO edgelink.orphans (tenant_id, at, number, clicks, domain_id, key, kind) \
             SELECT 1, toDateTime({hour} - number), number, 1, {domain_id}, concat('{DOMAIN}/absent-', toString(number % 3000)), 2 \
             FROM numbers(10000)"
        ));
        start.elapsed().as_secs_f64()
    }

    /// Waits until a control plane has added up all days that are over; how many seconds that takes.
    pub(super) async fn await_days(&self) -> f64 {
        const LIMIT: Duration = Duration::from_secs(3_600);
        let start = Instant::now();
        let is_over = format!("days over {} are added up", DAYS - 2);
        until(&is_over, LIMIT, async || {
            let built = self.server.ask("SELECT count() FROM edgelink.built_days");
            let built: u64 = built.trim().parse().expect("a number");
            // The last one may not be settled yet.
            (built >= DAYS - 2).then_some(())
        })
        .await;
        start.elapsed().as_secs_f64()
    }

    /// Has a server of today merge at once what it merges by itself after some hours, and waits until it has; how many seconds that takes.
    pub(super) async fn settle(&self) -> f64 {
        const LIMIT: Duration = Duration::from_secs(3_600);
        let start = Instant::now();
        if self.kind == ClickHouseKind::Chdb {
            for table in OF_LINKS {
                let at_once = "min_age_to_force_merge_seconds = 1";
                let _ = self.server.ask(&format!(
                    "ALTER TABLE edgelink.{table} MODIFY SETTING {at_once}"
                ));
            }
            let names = OF_LINKS.map(|table| format!("'{table}'")).join(", ");
            let left = format!(
                "SELECT count() FROM (SELECT table, partition, count() AS parts FROM system.parts WHERE active \
                 AND database = 'edgelink' AND table IN ({names}) GROUP BY table, partition HAVING parts > 1)"
            );
            until("each partition is one part", LIMIT, async || {
                (self.server.ask(&left).trim() == "0").then_some(())
            })
            .await;
        }
        start.elapsed().as_secs_f64()
    }

    /// What the tables take.
    pub(super) fn bytes(&self) -> String {
        let tables = self.server.ask(
            "SELECT concat(table, ' ', toString(sum(rows)), ' rows ', toString(intDiv(sum(bytes_on_disk), 1048576)), ' MiB') \
             FROM system.parts WHERE active AND database = 'edgelink' GROUP BY table ORDER BY table",
        );
        tables.trim().replace('\n', ", ")
    }
}

/// Adds up which values the clicks of a day have.
fn values(day: u64) -> String {
    let select = |(by, value): (u8, &str)| {
        format!(
            "SELECT tenant_id, toUInt8({by}) AS attribute, domain_id, toString({value}) AS value, toStartOfHour(at) AS hour, \
             sum(clicks), sum(bots) FROM edgelink.clicks WHERE toDate(at) = toDate({day}) AND value != '' \
             GROUP BY tenant_id, domain_id, value, hour",
        )
    };
    let selects: Vec<String> = VALUES.into_iter().map(select).collect();
    format!(
        "INSERT INTO edgelink.value_hours (tenant_id, attribute, domain_id, value, hour, clicks, bots) {}",
        selects.join(" UNION ALL ")
    )
}

/// The columns of the click `n`, one of `count` from `from` on.
fn select(from: u64, length: u64, count: u64, links: u64, domain_id: u32) -> String {
    let random = |salt: u64, below: u64| format!("intHash64(n * 32 + {salt}) % {below}");
    // By Zipf's law: the logarithm is uniform.
    let rank = |salt: u64, below: u64| {
        let random = random(salt, 1_000_003);
        format!("least({below} - 1, toUInt64(exp(({random}) / 1000003 * log({below} + 1))) - 1)")
    };
    let text = |salt: u64, share: u64, below: u64, prefix: &str| {
        let (random, rank) = (random(salt, 100), rank(salt + 1, below));
        format!("if({random} < {share}, concat('{prefix}', toString({rank})), '')")
    };
    let place = format!("({} * {SPREAD} % {links} + 1)", rank(0, links));
    let id = format!("({place} * 1000 + {ISSUER})");
    let digits = (0..7_u32).rev().map(|digit| {
        let divisor = 62_u64.pow(digit);
        format!(
            "substring('0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', intDiv({id}, {divisor}) % 62 + 1, 1)"
        )
    });
    let digits: Vec<String> = digits.collect();
    let key = format!("concat('{DOMAIN}/', {})", digits.join(", "));
    let own = format!("concat('t', toString({place} % {TAGS}))");
    let tags = format!(
        "if({place} % 10 = 0, [concat('large', toString(intDiv({place}, 10) % {LARGE_TAGS})), {own}], [{own}])"
    );
    let agent = rank(2, 600);
    let is_bot = format!("toUInt8({agent} % 12 = 5)");
    let list = |texts: &str| {
        let length = texts.split(',').count();
        format!("arrayElement([{texts}], {agent} % {length} + 1)")
    };
    let columns = [
        "1".to_owned(),
        id,
        format!("toDateTime({from} + intDiv((n % {count}) * {length}, {count}))"),
        "n + 1".to_owned(),
        "1".to_owned(),
        is_bot.clone(),
        domain_id.to_string(),
        key,
        tags,
        "302".to_owned(),
        format!("if({} = 0, 1, 0)", random(3, 10)),
        text(4, 98, 120, "C"),
        text(6, 90, 3_000, "City of "),
        format!("concat('Mozilla/5.0 (made up) ', toString({agent}))"),
        list("'mobile', 'desktop', 'tablet', 'other'"),
        list("'Chrome Mobile', 'Safari', 'Chrome', 'Firefox', 'Edge', 'Samsung Internet', 'Opera'"),
        list("'Android', 'iOS', 'Windows', 'Mac OS X', 'Linux'"),
        is_bot.clone(),
        text(8, 60, 800, "www.site"),
        text(10, 97, 40, "l"),
        text(12, 40, 30, "source-"),
        text(14, 40, 10, "medium-"),
        text(16, 35, 300, "campaign-"),
        text(18, 10, 500, "term "),
        text(20, 10, 200, "content-"),
        format!("1 + {from} * 4294967296 + {}", random(22, 1_000_000)),
        format!("1 - {is_bot}"),
    ];
    format!("SELECT {}", columns.join(", "))
}
