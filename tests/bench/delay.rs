//! Delay between a redirect and its click in the live stream, and in the answers of the API.

use crate::options::Options;
use crate::report::{Limit, Section, Table};
use crate::rounds::percentile;
use edgelink_tests::scenario::{CITY_HEADER, COUNTRY_HEADER, DOMAIN, Request};
use edgelink_tests::servers::{ClickHouseServer, MariaDb, RedisServer};
use edgelink_tests::stack::{Connection, ControlPlane, Envoy, EnvoyOptions, RedisOptions};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The goals, in milliseconds.
const STREAMED: f64 = 1_500.0;
const COUNTED: f64 = 5_000.0;

/// Not a divisor of the edges' reporting period, so that clicks fall on all phases of it.
const PACE: Duration = Duration::from_millis(173);

/// An engine of analytics, with the servers kept while it is measured.
struct Field {
    envoy: Envoy,
    /// The first counts redirects, and the second is queried.
    planes: [ControlPlane; 2],
    _clickhouse: Option<ClickHouseServer>,
    _database: MariaDb,
    _redis: RedisServer,
}

/// Milliseconds since the redirect, for each click.
struct Delays {
    streamed: Vec<f64>,
    counted: Vec<f64>,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let clicks = options.size.pick(200, 20);
    let mut section = Section::new("From a redirect to its click");
    section.text(&format!(
        "{clicks} clicks, one each {} ms, each on a link of its own, by an Envoy with two workers that reports to one of two \
         control planes on MariaDB and Redis, with all attributes. The other control plane streams them by server-sent \
         events, and is asked for each link's number of clicks each 20 ms. Milliseconds since the redirect was answered.",
        PACE.as_millis()
    ));
    let mut table = Table::new([
        "engine",
        "stream p50",
        "p99",
        "last",
        "API p50",
        "p99",
        "last",
    ]);
    let mut last = Vec::new();
    for (name, has_clickhouse) in [("MariaDB", false), ("ClickHouse (chdb)", true)] {
        let delays = Field::start(has_clickhouse).await.measure(clicks).await;
        let figures = [delays.streamed, delays.counted]
            .map(|mut all| [50, 99, 100].map(|share| percentile(&mut all, share)));
        let cells = figures.as_flattened().iter();
        let cells = cells.map(|millis| format!("{millis:.0}"));
        table.row([name.to_owned()].into_iter().chain(cells));
        last.push((name, figures.map(|[.., last]| last)));
    }
    section.text(&table);
    for (name, [streamed, counted]) in last {
        let goal = |place| format!("{name}: last in the {place}, ms,");
        section.goal(streamed, Limit::AtMost(STREAMED), &goal("stream"));
        section.goal(counted, Limit::AtMost(COUNTED), &goal("API"));
    }
    section
}

impl Field {
    async fn start(has_clickhouse: bool) -> Self {
        let (database, redis) = (MariaDb::start(), RedisServer::start().await);
        let clickhouse = has_clickhouse.then(ClickHouseServer::start);
        let (store_url, redis_url) = (database.database(), redis.url());
        let analytics_url = clickhouse.as_ref().map(ClickHouseServer::url);
        let mut variables = vec![
            ("EDGELINK_STORE_URL", store_url.as_str()),
            ("EDGELINK_REDIS_URL", &redis_url),
        ];
        if let Some(url) = &analytics_url {
            variables.push(("EDGELINK_ANALYTICS_ENGINE", "clickhouse"));
            variables.push(("EDGELINK_ANALYTICS_CLICKHOUSE_URL", url));
        }
        let first = ControlPlane::with_variables(&variables).await;
        let planes = [first.replica().await, first];
        let options = EnvoyOptions {
            domains: vec![DOMAIN.to_owned()],
            workers: 2,
            redis: Some(RedisOptions::direct(redis.port())),
            clicks: "true",
            click_attributes: "country,city,userAgent,referrer,language,utm,rule,visitor",
            geo_headers: [COUNTRY_HEADER, CITY_HEADER],
            ..EnvoyOptions::default()
        };
        Self {
            envoy: Envoy::start(&options, &[planes[0].address()]).await,
            planes,
            _clickhouse: clickhouse,
            _database: database,
            _redis: redis,
        }
    }

    async fn measure(&self, clicks: usize) -> Delays {
        for place in 0..clicks {
            self.planes[0].link(&slug(place)).create().await;
        }
        // The start-up triggered by the first request is not measured.
        self.envoy.follow("/first-request").await;
        let streamed = tokio::spawn(listen(self.planes[1].listen("").await, clicks));
        let (mut redirected, mut ticks) = (Vec::new(), interval(PACE));
        let mut counted = JoinSet::new();
        for place in 0..clicks {
            ticks.tick().await;
            let answer = self.envoy.follow(&format!("/{}", slug(place))).await;
            assert_eq!(answer.status, 302);
            redirected.push(Instant::now());
            let connection = self.planes[1].connect().await;
            counted.spawn(await_count(
                connection,
                place,
                self.planes[1].admin_key().to_owned(),
            ));
        }
        let since = |(place, at): (usize, Instant)| (at - redirected[place]).as_secs_f64() * 1e3;
        let streamed = timeout(LIMIT, streamed)
            .await
            .expect("all clicks in the stream");
        let delays = |arrivals: Vec<(usize, Instant)>| arrivals.into_iter().map(since).collect();
        Delays {
            streamed: delays(streamed.expect("a stream")),
            counted: delays(counted.join_all().await),
        }
    }
}

/// Reads the stream until each click has arrived.
async fn listen(mut stream: reqwest::Response, clicks: usize) -> Vec<(usize, Instant)> {
    let (mut arrivals, mut read) = (Vec::new(), Vec::new());
    while arrivals.len() < clicks {
        let chunk = stream.chunk().await.expect("a stream");
        read.extend(chunk.expect("more of the stream"));
        let at = Instant::now();
        while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = read.drain(..=end).collect();
            arrivals.extend(place_of(&line).map(|place| (place, at)));
        }
    }
    arrivals
}

/// Position of a click's link, from the data line of an event.
fn place_of(line: &[u8]) -> Option<usize> {
    let click: Value = serde_json::from_slice(line.strip_prefix(b"data: ")?).ok()?;
    click["shortCode"]
        .as_str()?
        .strip_prefix("delay-")?
        .parse()
        .ok()
}

/// Polls until the click is counted.
async fn await_count(mut connection: Connection, place: usize, key: String) -> (usize, Instant) {
    let path = format!("/api/v1/analytics?groupBy=count&shortCode={}", slug(place));
    let request = Request::get(&path).header("x-api-key", key.as_bytes());
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        let answer = connection
            .exchange(&request, b"")
            .await
            .expect("an answer of the API");
        // Too many concurrent requests are refused, and sent again.
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        if answer["totals"]["clicks"] == 1 {
            return (place, Instant::now());
        }
        sleep(PAUSE).await;
    }
    panic!(
        "the click of {} is not counted after {LIMIT:?}",
        slug(place)
    );
}

fn slug(place: usize) -> String {
    format!("delay-{place}")
}
