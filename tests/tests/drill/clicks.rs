//! Clicks are in every breakdown once, whatever dies meanwhile; and what is lost is counted.

mod known;

use crate::production::{create, edges};
use crate::visitors::{Pace, Visitors};
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::{ClickHouseServer, RedisServer};
use edgelink_tests::stack::{Production, ProductionOptions, Signal, until};
use known::{BY_BOTS, Breakdown, Described, KNOWN, PEOPLE};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const LINKS: u64 = 500;
const LIMIT: Duration = Duration::from_secs(180);
/// How long a process does not answer that is stopped: longer than the lease by which a control plane writes clicks.
const STOPPED: Duration = Duration::from_secs(15);
const PACE: Pace = Pace {
    connections: 32,
    rate: Some(5000),
};

/// `make click-accounting`: a million clicks (`EDGELINK_TEST_DRILL_CLICKS`).
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make click-accounting"]
async fn clicks() {
    let mut parts = Parts::start(None, None, LINKS).await;
    let accounts = parts.count(LINKS).await;
    assert_eq!(accounts["dropped"], 0, "{accounts}");
    assert_eq!(accounts["undescribed"], 0, "{accounts}");
}

/// Counts clicks in ClickHouse, which is killed and stopped too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make click-accounting"]
async fn clicks_in_clickhouse() {
    let clickhouse = ClickHouseServer::start();
    let mut parts = Parts::start(Some(clickhouse), None, LINKS).await;
    let accounts = parts.count(LINKS).await;
    assert_eq!(accounts["dropped"], 0, "{accounts}");
    assert_eq!(accounts["undescribed"], 0, "{accounts}");
}

/// Control planes are away for longer than reports have room, of so many links that neither have their counts.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make click-accounting"]
async fn losses() {
    const MANY: u64 = 40_000;
    const AWAY: Duration = Duration::from_secs(150);
    let clicks = r#", "clicks": { "maxBytes": 262144, "maxEventBytes": 131072, "maxUnsentBytes": 1048576, "attributes": ["country", "city", "userAgent", "referrer",
        "language", "utm", "visitor"] }${SECTIONS}"#;
    let plugin = include_str!("../../../envoy/plugin.json").replace("${SECTIONS}", clicks);
    let mut parts = Parts::start(None, Some(plugin), MANY).await;
    let visitors = parts.visit(MANY);
    visitors.await_sent(2 * MANY).await;
    for control_plane in &mut parts.production.control_planes {
        control_plane.process().kill();
    }
    sleep(AWAY).await;
    for control_plane in &mut parts.production.control_planes {
        control_plane.restart().await;
    }
    let accounts = parts.judge(visitors, MANY).await;
    assert_ne!(accounts["dropped"], 0, "{accounts}");
    assert_ne!(accounts["undescribed"], 0, "{accounts}");
}

/// All that runs.
struct Parts {
    production: Production,
    redis: RedisServer,
    clickhouse: Option<ClickHouseServer>,
}

impl Parts {
    async fn start(
        clickhouse: Option<ClickHouseServer>,
        plugin: Option<String>,
        links: u64,
    ) -> Self {
        let redis = RedisServer::start().await;
        let mut options = ProductionOptions::direct(&redis);
        if let Some(server) = &clickhouse {
            options.variables = vec![
                ("EDGELINK_ANALYTICS_ENGINE", "clickhouse".to_owned()),
                ("EDGELINK_ANALYTICS_CLICKHOUSE_URL", server.url()),
            ];
        }
        match plugin {
            Some(_) => options.plugin = plugin,
            None => {
                options.click_attributes = "country,city,userAgent,referrer,language,utm,visitor";
            }
        }
        let production = Production::start(&options).await;
        let links = usize::try_from(links).expect("a number");
        create(&production.control_planes[0], "click", links).await;
        Self {
            production,
            redis,
            clickhouse,
        }
    }

    fn visit(&self, links: u64) -> Visitors {
        Visitors::start(
            &edges(&self.production),
            PACE,
            &Arc::new(Described { links }),
        )
    }

    /// Breaks everything in turn while visitors come.
    async fn count(&mut self, links: u64) -> Value {
        let clicks = std::env::var("EDGELINK_TEST_DRILL_CLICKS").ok();
        let clicks = clicks.map_or(1_000_000, |text| text.parse().expect("a number of clicks"));
        let visitors = self.visit(links);
        self.break_everything(&visitors, clicks).await;
        self.judge(visitors, links).await
    }

    /// Compares what is counted with what visitors did, and gives the accounts.
    async fn judge(&self, visitors: Visitors, links: u64) -> Value {
        let mut seen = visitors.finish().await;
        let accounts = settle(&self.production, seen.right).await;
        seen.print("redirects");
        println!("accounts: {accounts}");
        assert_eq!(seen.wrong + seen.unanswered, 0);
        assert_eq!(accounts["sent"], seen.right, "a redirect is a click");
        assert_accounted(&self.production, &accounts).await;
        compare(&self.production, seen.right, links, &accounts).await;
        accounts
    }

    /// Kills, and later stops, one part after another, evenly over that many visits.
    async fn break_everything(&mut self, visitors: &Visitors, visits: u64) {
        let at = |step: u64| visitors.await_sent(visits * step / 14);
        at(1).await;
        for number in 0..2 {
            self.production.control_planes[number].process().kill();
            at(2 + number as u64).await;
            self.production.control_planes[number].restart().await;
        }
        self.redis.kill();
        at(4).await;
        self.redis.restart().await;
        self.production.database.kill();
        at(5).await;
        self.production.database.restart();
        if let Some(clickhouse) = &mut self.clickhouse {
            clickhouse.kill();
            at(6).await;
            clickhouse.restart();
        }
        at(7).await;
        for number in 0..2 {
            let process = self.production.control_planes[number].process();
            process.signal(Signal::STOP);
            sleep(STOPPED).await;
            process.signal(Signal::CONT);
            at(8 + number as u64).await;
        }
        self.redis.stop();
        sleep(STOPPED).await;
        self.redis.cont();
        at(10).await;
        self.production.database.stop();
        sleep(STOPPED).await;
        self.production.database.cont();
        at(11).await;
        if let Some(clickhouse) = &mut self.clickhouse {
            clickhouse.stop();
            sleep(STOPPED).await;
            clickhouse.cont();
        }
        at(12).await;
        for control_plane in &mut self.production.control_planes {
            control_plane.process().kill();
        }
        at(13).await;
        for control_plane in &mut self.production.control_planes {
            control_plane.restart().await;
        }
        at(14).await;
    }
}

/// The accounts, once every click is accounted for and in analytics.
async fn settle(production: &Production, clicks: u64) -> Value {
    until("every click is accounted for", LIMIT, async || {
        let accounts = ask(production, "/clicks/accounting").await;
        let number = |name: &str| accounts[name].as_u64().unwrap_or_default();
        let is_settled = number("sent") >= clicks
            && number("sent") == number("counted") + number("dropped")
            && count(production).await == number("counted");
        is_settled.then_some(accounts)
    })
    .await
}

async fn ask(production: &Production, path: &str) -> Value {
    let answer = production.control_planes[0]
        .api("GET", path, &json!(null))
        .await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

async fn count(production: &Production) -> u64 {
    let answer = ask(production, "/analytics?groupBy=count&interval=24h").await;
    answer["totals"]["clicks"].as_u64().expect("a number")
}

/// The accounts of edges, workers, hours and days add up to those of all, and so do those before and after the last hour begins.
async fn assert_accounted(production: &Production, accounts: &Value) {
    let names = ["sent", "counted", "dropped", "undescribed"];
    let number = |part: &Value, name: &str| part[name].as_u64().expect("a number");
    for group in ["edge", "worker", "hour", "day"] {
        let answer = ask(production, &format!("/clicks/accounting?groupBy={group}")).await;
        let parts = answer["data"].as_array().expect("data");
        for name in names {
            let sum: u64 = parts.iter().map(|part| number(part, name)).sum();
            assert_eq!(sum, number(accounts, name), "{name} by {group}");
            assert_eq!(number(&answer, name), sum, "{name} by {group}");
        }
    }
    let hours = ask(production, "/clicks/accounting?groupBy=hour").await;
    let hours = hours["data"].as_array().expect("data");
    let last = hours.last().and_then(|hour| hour["start"].as_str());
    let last = last.expect("an hour");
    let before = ask(production, &format!("/clicks/accounting?to={last}")).await;
    let after = ask(production, &format!("/clicks/accounting?from={last}")).await;
    for name in names {
        let sum = number(&before, name) + number(&after, name);
        assert_eq!(
            sum,
            number(accounts, name),
            "{name} before and after {last}"
        );
    }
}

/// Each breakdown, beside what visitors did and what the accounts say is lost.
async fn compare(production: &Production, visits: u64, links: u64, accounts: &Value) {
    let number = |name: &str| accounts[name].as_u64().expect("a number");
    let losses = Losses {
        counted: number("counted"),
        dropped: number("dropped"),
        undescribed: number("undescribed"),
    };
    for known in &KNOWN {
        let found = breakdown(production, known.group, "value").await;
        println!("{}: {found:?}", known.group);
        losses.explain(known.group, &known.of(visits), &found, losses.undescribed);
    }
    let by_link = known::by_link(links, visits);
    if links <= 1_000 {
        let found = breakdown(production, "links", "shortCode").await;
        losses.explain("links", &by_link, &found, 0);
    }
    let found = breakdown(production, "domains", "value").await;
    assert_eq!(
        found,
        [(DOMAIN.to_owned(), losses.counted)].into(),
        "domains"
    );
    let bots = breakdown(production, BY_BOTS.group, "value").await;
    println!("bots: {bots:?}");
    assert_eq!(bots.values().sum::<u64>(), losses.counted, "bots");
    let wanted = BY_BOTS.of(visits);
    let lost = wanted["bot"]
        .checked_sub(bots["bot"])
        .expect("no bot that did not come");
    assert!(lost <= losses.dropped + losses.undescribed, "bots");
    series(production, losses.counted).await;
    if losses.undescribed == 0 {
        visitors(production).await;
    }
    for place in 0..20 {
        single(
            production,
            &known::code(place * links / 20),
            &by_link,
            &losses,
        )
        .await;
    }
}

/// What the accounts say.
struct Losses {
    counted: u64,
    dropped: u64,
    undescribed: u64,
}

impl Losses {
    /// Each click is there once, and what is missing is what is lost; `undescribed` of the clicks lack a value.
    fn explain(&self, group: &str, wanted: &Breakdown, found: &Breakdown, undescribed: u64) {
        assert_eq!(found.values().sum::<u64>(), self.counted, "{group}");
        let mut missing = 0;
        for (value, found) in found.iter().filter(|(value, _)| !value.is_empty()) {
            let wanted = wanted.get(value).copied().unwrap_or_default();
            assert!(
                *found <= wanted,
                "{group}: {value} {found} times of {wanted}"
            );
        }
        for (value, wanted) in wanted.iter().filter(|(value, _)| !value.is_empty()) {
            missing += wanted - found.get(value).copied().unwrap_or_default();
        }
        assert!(
            missing <= self.dropped + undescribed,
            "{group}: {missing} are missing"
        );
        if !wanted.contains_key("") {
            assert_eq!(missing, self.dropped + undescribed, "{group}");
            assert_eq!(
                found.get("").copied().unwrap_or_default(),
                undescribed,
                "{group}"
            );
        }
    }
}

/// The hours of a day have all clicks, and so have bots and people together.
async fn series(production: &Production, counted: u64) {
    let answer = ask(production, "/analytics?groupBy=timeseries&interval=24h").await;
    let hours = answer["data"].as_array().expect("data").iter();
    let all: u64 = hours
        .map(|hour| hour["clicks"].as_u64().expect("a number"))
        .sum();
    assert_eq!(all, counted, "timeseries");
    let mut apart = 0;
    for bots in ["excluded", "only"] {
        let path = format!("/analytics?groupBy=count&interval=24h&bots={bots}");
        let answer = ask(production, &path).await;
        apart += answer["totals"]["clicks"].as_u64().expect("a number");
    }
    assert_eq!(apart, counted, "with bots and without");
}

/// A visitor has another token the day after.
async fn visitors(production: &Production) {
    let answer = ask(production, "/analytics?groupBy=count&interval=24h").await;
    let visitors = answer["totals"]["visitors"].as_u64().expect("a number");
    println!("visitors: {visitors}");
    assert!(
        [PEOPLE, 2 * PEOPLE].contains(&visitors),
        "{visitors} visitors"
    );
}

/// The clicks of a link one by one, which are as many as those that are counted.
async fn single(production: &Production, code: &str, wanted: &Breakdown, losses: &Losses) {
    let (mut found, mut cursor) = (0, String::new());
    loop {
        let page = ask(
            production,
            &format!("/links/{code}/clicks?limit=100{cursor}"),
        )
        .await;
        found += page["clicks"].as_array().expect("clicks").len() as u64;
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let missing = wanted[code].checked_sub(found).expect("no click twice");
    assert!(missing <= losses.dropped, "{code}: {missing} are missing");
    let path = format!("/analytics?interval=24h&shortCode={code}");
    let answer = ask(production, &path).await;
    assert_eq!(answer["totals"]["clicks"], found, "{code}: {answer}");
}

async fn breakdown(production: &Production, group: &str, field: &str) -> Breakdown {
    let path = format!("/analytics?groupBy={group}&interval=24h&limit=1000");
    let answer = ask(production, &path).await;
    let rows = answer["data"].as_array().expect("data").iter();
    rows.map(|row| {
        let value = row[field].as_str().unwrap_or_default().to_owned();
        (value, row["clicks"].as_u64().expect("a number"))
    })
    .collect()
}
