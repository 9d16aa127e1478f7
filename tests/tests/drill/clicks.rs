//! Clicks are in every breakdown once, whatever dies meanwhile.

use crate::production::{alias, create, edges, target};
use crate::visitors::{Journey, Pace, Visitors};
use edgelink_tests::scenario::{Answer, CITY_HEADER, COUNTRY_HEADER, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, Signal, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LINKS: u64 = 500;
const LIMIT: Duration = Duration::from_secs(180);
/// How long a process does not answer that is stopped.
const STOPPED: Duration = Duration::from_secs(5);
const PACE: Pace = Pace {
    connections: 32,
    rate: Some(5000),
};

/// An attribute of the visits: its `groupBy`, and the values, which come in turns.
struct Known {
    group: &'static str,
    values: &'static [&'static str],
}

const COUNTRIES: Known = Known {
    group: "countries",
    values: &["DE", "FR", "JP", "US", "BR", "IN", "ZA"],
};

const CITIES: Known = Known {
    group: "cities",
    values: &["Berlin", "Paris", "Osaka"],
};

const REFERRERS: Known = Known {
    group: "referrers",
    values: &[
        "a.example",
        "b.example",
        "c.example",
        "d.example",
        "e.example",
    ],
};

const LANGUAGES: Known = Known {
    group: "languages",
    values: &["de", "fr"],
};

const SOURCES: Known = Known {
    group: "utm_sources",
    values: &[
        "mail", "ad", "print", "social", "partner", "tv", "radio", "web", "app", "fair", "shop",
    ],
};

const BROWSERS: Known = Known {
    group: "browsers",
    values: &["Firefox", "Chrome Mobile", "Mobile Safari", "Googlebot"],
};

/// The user agents of these browsers, in that order.
const USER_AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];

/// Visits of all links in turns, with attributes in turns.
struct Described;

fn in_turn<T: Copy>(values: &[T], n: u64) -> T {
    values[usize::try_from(n % values.len() as u64).expect("a number")]
}

impl Journey for Described {
    fn path(&self, n: u64) -> String {
        let source = in_turn(SOURCES.values, n);
        format!("/{}?utm_source={source}", code(n % LINKS))
    }

    fn request(&self, n: u64) -> Request {
        let referrer = format!("https://{}/page", in_turn(REFERRERS.values, n));
        let language = format!("{},en;q=0.5", in_turn(LANGUAGES.values, n));
        Request::get(&self.path(n))
            .header(COUNTRY_HEADER, in_turn(COUNTRIES.values, n).as_bytes())
            .header(CITY_HEADER, in_turn(CITIES.values, n).as_bytes())
            .header("referer", referrer.as_bytes())
            .header("accept-language", language.as_bytes())
            .header("user-agent", in_turn(&USER_AGENTS, n).as_bytes())
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        let (code, query) = path[1..].split_once('?').expect("a query");
        answer.location() == Some(format!("{}?{query}", target(code)).as_str())
    }
}

fn code(n: u64) -> String {
    alias("click", usize::try_from(n).expect("a number"))
}

/// `make click-accounting`: a million clicks (`EDGELINK_TEST_DRILL_CLICKS`).
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make click-accounting"]
async fn clicks() {
    let clicks = std::env::var("EDGELINK_TEST_DRILL_CLICKS").ok();
    let clicks = clicks.map_or(1_000_000, |text| text.parse().expect("a number of clicks"));
    let mut redis = RedisServer::start().await;
    let options = ProductionOptions {
        click_attributes: "country,city,userAgent,referrer,language,utm,visitor",
        ..ProductionOptions::direct(&redis)
    };
    let mut production = Production::start(&options).await;
    let links = usize::try_from(LINKS).expect("a number");
    create(&production.control_planes[0], "click", links).await;
    let visitors = Visitors::start(&edges(&production), PACE, &Arc::new(Described));
    break_everything(&mut production, &mut redis, &visitors, clicks).await;
    let mut seen = visitors.finish().await;
    let accounts = settle(&production, seen.right).await;
    println!("\nRedis, the database and both control planes killed and stopped in turn");
    seen.print("redirects");
    println!("accounts: {accounts}");
    assert_eq!(seen.wrong + seen.unanswered, 0);
    assert_eq!(accounts["sent"], seen.right, "a redirect is a click");
    let dropped = accounts["dropped"].as_u64().expect("a number");
    assert_eq!(accounts["counted"], seen.right - dropped);
    compare(&production, seen.right, &accounts).await;
}

/// Kills, and later stops, one part after another, evenly over that many visits.
async fn break_everything(
    production: &mut Production,
    redis: &mut RedisServer,
    visitors: &Visitors,
    visits: u64,
) {
    let at = |step: u64| visitors.await_sent(visits * step / 12);
    at(1).await;
    production.control_planes[0].process().kill();
    at(2).await;
    production.control_planes[0].restart().await;
    redis.kill();
    at(3).await;
    redis.restart().await;
    production.control_planes[1].process().kill();
    at(4).await;
    production.control_planes[1].restart().await;
    production.database.kill();
    at(5).await;
    production.database.restart();
    at(6).await;
    for number in 0..production.control_planes.len() {
        production.control_planes[number]
            .process()
            .signal(Signal::STOP);
        tokio::time::sleep(STOPPED).await;
        production.control_planes[number]
            .process()
            .signal(Signal::CONT);
        at(7 + number as u64).await;
    }
    redis.stop();
    tokio::time::sleep(STOPPED).await;
    redis.cont();
    at(9).await;
    production.database.stop();
    tokio::time::sleep(STOPPED).await;
    production.database.cont();
    at(10).await;
    for control_plane in &mut production.control_planes {
        control_plane.process().kill();
    }
    at(11).await;
    for control_plane in &mut production.control_planes {
        control_plane.restart().await;
    }
    at(12).await;
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

/// Each breakdown, beside what visitors did.
async fn compare(production: &Production, visits: u64, accounts: &Value) {
    let counted = accounts["counted"].as_u64().expect("a number");
    let undescribed = production.figure("clicks.undescribed").await;
    for known in [
        &COUNTRIES, &CITIES, &REFERRERS, &LANGUAGES, &SOURCES, &BROWSERS,
    ] {
        let found = breakdown(production, known.group, "value").await;
        assert_eq!(found.values().sum::<u64>(), counted, "{}", known.group);
        println!("{}: {found:?}", known.group);
        if accounts["dropped"] == 0 && undescribed == 0 {
            let wanted = in_turns(known.values.iter().map(|&value| value.to_owned()), visits);
            assert_eq!(found, wanted, "{}", known.group);
        }
    }
    let found = breakdown(production, "links", "shortCode").await;
    assert_eq!(found.values().sum::<u64>(), counted, "links");
    if accounts["dropped"] == 0 {
        assert_eq!(found, in_turns((0..LINKS).map(code), visits), "links");
        println!("each of {LINKS} links has as many clicks as visits");
    }
}

/// How often each value came, if they came in turns.
fn in_turns(values: impl Iterator<Item = String> + Clone, visits: u64) -> BTreeMap<String, u64> {
    let count = values.clone().count() as u64;
    let times = |place: u64| visits / count + u64::from(place < visits % count);
    (0..)
        .zip(values)
        .map(|(place, value)| (value, times(place)))
        .collect()
}

async fn breakdown(production: &Production, group: &str, field: &str) -> BTreeMap<String, u64> {
    let path = format!("/analytics?groupBy={group}&interval=24h&limit=1000");
    let answer = ask(production, &path).await;
    let rows = answer["data"].as_array().expect("data").iter();
    rows.map(|row| {
        let value = row[field].as_str().unwrap_or_default().to_owned();
        (value, row["clicks"].as_u64().expect("a number"))
    })
    .collect()
}
