//! The cost of a redirect inside the VM, by tier: wasmtime's fuel, about one unit per instruction. It is equal in every
//! run, so that a test can check it: `tests/bench/fuel.toml` has the agreed figures.

use crate::abi::host::{Cluster, Fleet, HeaderMap, Metering, Module, Response, Usage, Worker};
use crate::scenario::{DOMAIN, Reply, feed_batch, link, path_of, snapshot, with_rules};
use crate::stack::{filter_module, root};
use edgelink_wire::clicks::{VisitorKey, VisitorKeys};
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::{FeedBatch, LinkAnswer, LinkRecord, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Growth of a figure, in per cent, above which a new one must be agreed upon.
pub const TOLERANCE: u64 = 5;

/// Tolerance if the filter was built by another compiler than the figures are for: its code differs, and only large
/// increases are due to our changes.
pub const OTHER_COMPILER_TOLERANCE: u64 = 30;

/// Requests of each kind; the figure is the median.
const REQUESTS: u64 = 15;

const BOUND: u64 = 1_000_000;
const GENERATION: u64 = 1_767_225_600_000_000;
const TARGET: &str = "https://example.com/some/where?a=b";

const RULES: &str = r#"[
    {"longUrl":"https://a.example/","conditions":[{"type":"device","matchValue":"ios"}]},
    {"longUrl":"https://b.example/","conditions":[{"type":"device","matchValue":"android"}]},
    {"longUrl":"https://c.example/","conditions":[{"type":"language","matchValue":"de"}]}]"#;
const AGENT: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
                     Safari/537.36";
const LANGUAGES: &str = "en-GB,en;q=0.9,fr;q=0.5";

/// The cost of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Fuel.
    pub fuel: u64,
    /// Calls from the module to the host.
    pub hostcalls: u64,
}

/// The agreed figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuelFigures {
    /// Version of rustc that built the filter.
    pub rustc: String,
    /// By tier.
    #[serde(flatten)]
    pub tiers: BTreeMap<String, Cost>,
}

/// Measures the current figures, by tier.
///
/// # Panics
/// Panics if the filter does not answer from the expected tier.
#[must_use]
pub fn measure() -> FuelFigures {
    let costs = [
        ("lru", lru(&json!({"clicks": {}}))),
        (
            "lru-described",
            lru(&json!({"clicks": {}, "describe": ["outcome", "tier", "key"]})),
        ),
        ("lru-browser", lru_browser(&json!([]), &json!({}))),
        ("lru-limited", lru_browser(&json!([]), &limit())),
        (
            "lru-all-attributes",
            lru_browser(&all_attributes(), &json!({})),
        ),
        ("lru-as-shipped", lru_browser(&all_attributes(), &limit())),
        ("lru-three-rules", lru_three_rules()),
        ("shared-data", shared_data()),
        ("admission", admission()),
        ("redis", redis()),
    ];
    FuelFigures {
        rustc: compiler(&std::fs::read(filter_module()).expect("the filter")),
        tiers: costs.map(|(tier, cost)| (tier.to_owned(), cost)).into(),
    }
}

/// Version in a module's `producers` section, as in "rustc", "1.95.0 (59807616e 2026-04-14)"; empty if there is none.
fn compiler(module: &[u8]) -> String {
    let name = b"\x05rustc";
    let at = module.windows(name.len()).position(|bytes| bytes == name);
    let value = at.and_then(|at| module.get(at + name.len()..));
    let text = value.and_then(|value| {
        let (length, text) = value.split_first()?;
        text.get(..usize::from(*length))
    });
    let text = String::from_utf8_lossy(text.unwrap_or_default());
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Reads the agreed figures.
///
/// # Panics
/// Panics if `tests/bench/fuel.toml` cannot be read.
#[must_use]
pub fn agreed() -> FuelFigures {
    let path = root().join("tests/bench/fuel.toml");
    let text = std::fs::read_to_string(path).expect("the figures");
    toml::from_str(&text).expect("figures")
}

/// A hit in the worker's cache, with everything configured as in production (feed, admission, click counting), and
/// `more`.
fn lru(more: &Value) -> Cost {
    let mut fleet = with_feed_and(more);
    let worker = fleet.worker(0);
    for number in 0..REQUESTS {
        teach(worker, &path_of(number));
    }
    median((0..REQUESTS).map(|number| visit(worker, &path_of(number), 302)))
}

/// A hit in the worker's cache by a browser's request, with those attributes of clicks, and `more`. Each visitor differs from the
/// one before.
fn lru_browser(attributes: &Value, more: &Value) -> Cost {
    let geo = json!({"countryHeader": "x-country", "cityHeader": "x-city"});
    let clicks = json!({"attributes": attributes});
    let mut sections = json!({"clicks": clicks, "geo": geo});
    if let (Value::Object(all), Value::Object(more)) = (&mut sections, more) {
        all.extend(more.clone());
    }
    let mut fleet = with_feed_and(&sections);
    let worker = fleet.worker(0);
    let report = worker.callouts();
    let report = report
        .iter()
        .find(|callout| callout.path().starts_with("/edge/v1/clicks"));
    if let Some(report) = report {
        let key = VisitorKey {
            from: 0,
            until: u64::MAX,
            secret: Box::new([7; 16].into()),
        };
        let body = VisitorKeys::new(vec![key]).to_bytes().to_vec();
        worker.answer(report, Response::ok(VisitorKeys::MEDIA_TYPE, body));
    }
    for number in 0..REQUESTS {
        teach(worker, &path_of(number));
    }
    // Texts shared by many visitors have already occurred.
    let visits = (0..2 * REQUESTS).map(|number| browse(worker, number));
    let visits: Vec<_> = visits.collect();
    median(visits.into_iter().skip(REQUESTS as usize))
}

/// The limit of `envoy/run.sh`.
fn limit() -> Value {
    json!({"limit": {"perSecond": 500, "burst": 2_000}})
}

/// All attributes of clicks.
fn all_attributes() -> Value {
    json!([
        "country",
        "city",
        "userAgent",
        "referrer",
        "language",
        "utm",
        "rule",
        "visitor"
    ])
}

/// Sends a request with typical browser headers.
fn browse(worker: &mut Worker, number: u64) -> Usage {
    const HEADERS: [(&str, &str); 10] = [
        ("sec-ch-ua", r#""Chromium";v="142", "Not_A Brand";v="99""#),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Windows\""),
        ("upgrade-insecure-requests", "1"),
        (
            "accept",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
        ),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", LANGUAGES),
        ("x-request-id", "4f5b2b1e-6c1c-4d2f-9d1b-0a5f6c7d8e9f"),
    ];
    let before = worker.usage();
    let request = worker.request("GET", path_of(number % REQUESTS));
    let request = HEADERS.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    let kind = number % 3;
    let stream = request
        .header("user-agent", format!("{AGENT} Edg/{kind}"))
        .header("referer", format!("https://site{kind}.example/page"))
        .header("x-country", ["DE", "FR", "ES"][kind as usize])
        .header("x-city", ["Bonn", "Lyon", "Bilbao"][kind as usize])
        .header("x-forwarded-for", format!("192.0.2.{number}"))
        .send();
    assert_eq!(worker.outcome(stream).local_response().status(), 302);
    worker.usage().since(&before)
}

/// A hit in the worker's cache for a link with three rules, none of which matches: each looks at a header.
fn lru_three_rules() -> Cost {
    let mut fleet = with_feed();
    let worker = fleet.worker(0);
    let record = with_rules(TARGET, RULES);
    for number in 0..REQUESTS {
        teach_record(worker, &path_of(number), &record);
    }
    median((0..REQUESTS).map(|number| {
        let before = worker.usage();
        let request = worker.request("GET", path_of(number));
        let request = request
            .header("user-agent", AGENT)
            .header("accept-language", LANGUAGES);
        let stream = request.send();
        assert_eq!(worker.outcome(stream).local_response().status(), 302);
        worker.usage().since(&before)
    }))
}

/// A link fetched by another worker; it is inserted into the worker's cache.
fn shared_data() -> Cost {
    let mut fleet = start(&json!({"clicks": {}}), 2);
    for number in 0..REQUESTS {
        teach(fleet.worker(0), &path_of(number));
    }
    let costs = (0..REQUESTS).map(|number| visit(fleet.worker(1), &path_of(number), 302));
    median(costs)
}

/// A code that was never issued.
fn admission() -> Cost {
    let mut fleet = with_feed();
    let worker = fleet.worker(0);
    let numbers = BOUND..BOUND + REQUESTS;
    median(numbers.map(|number| visit(worker, &path_of(number), 404)))
}

/// A lookup in Redis and its answer, inserted into both caches: in shared data it replaces another link, as is usual once
/// there are more links than slots.
fn redis() -> Cost {
    let slots = json!({"slots": 1});
    let redis = json!({"mode": "direct"});
    let sections = json!({"clicks": {}, "redis": redis, "sharedData": slots, "poll": {}});
    let mut fleet = start(&sections, 1);
    fleet.worker(0).get("/");
    connect(&mut fleet);
    let worker = fleet.worker(0);
    median((0..REQUESTS).map(|number| {
        let before = worker.usage();
        let stream = worker.request("GET", path_of(number)).send();
        let lookup = worker.grpc_streams().remove(0);
        worker.grpc_message(&lookup, record_in_redis());
        assert_eq!(worker.outcome(stream).local_response().status(), 302);
        worker.usage().since(&before)
    }))
}

fn start(sections: &Value, workers: usize) -> Fleet {
    let mut configuration = json!({
        "domains": [DOMAIN],
        "controlPlane": {"cluster": "control_plane", "token": "secret"},
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut configuration, sections) {
        all.extend(more.clone());
    }
    Fleet::of(&Module::filter(Metering::Fuel))
        .configuration(configuration.to_string())
        .cluster("control_plane", Cluster::Healthy)
        .cluster("resp_bridge", Cluster::Healthy)
        .workers(workers)
        .start()
        .unwrap_or_else(|error| panic!("{error}: {:#?}", error.log))
}

/// A fleet whose worker has a snapshot and a live feed.
fn with_feed() -> Fleet {
    with_feed_and(&json!({"clicks": {}}))
}

fn with_feed_and(more: &Value) -> Fleet {
    let mut sections = json!({"snapshot": {}, "poll": {}, "admission": {}});
    if let (Value::Object(all), Value::Object(more)) = (&mut sections, more) {
        all.extend(more.clone());
    }
    let mut fleet = start(&sections, 1);
    fleet.worker(0).get("/");
    fleet.pass(Duration::from_secs(1));
    let worker = fleet.worker(0);
    let asked = worker.callout_to("/edge/v1/snapshot");
    worker.answer(
        &asked,
        Response::ok(Snapshot::MEDIA_TYPE, snapshot(GENERATION, BOUND)),
    );
    let poll = worker.callout_to("/edge/v1/feed");
    worker.answer(&poll, Response::ok(FeedBatch::MEDIA_TYPE, batch(6)));
    fleet.pass(Duration::from_secs(1));
    fleet
}

/// Response to a poll, with a beat.
fn batch(next: u64) -> Vec<u8> {
    let beat = Beat {
        bound: BOUND,
        generation: GENERATION,
        number: next,
        at: 0,
        age_millis: 0,
    };
    feed_batch(GENERATION, next, FeedMessage::Beat(beat))
}

/// Makes the worker fetch a link from the control plane.
fn teach(worker: &mut Worker, path: &str) {
    teach_record(worker, path, &link(TARGET));
}

fn teach_record(worker: &mut Worker, path: &str, record: &LinkRecord<String>) {
    let stream = worker.request("GET", path).send();
    let asked = worker.callout_to(&format!("/edge/v1/links/{DOMAIN}{path}"));
    let key = format!("{DOMAIN}{path}");
    let reply = Reply::Link(record.clone());
    let (_, _, body) = reply.http(&key).expect("an HTTP answer");
    worker.answer(&asked, Response::ok(LinkAnswer::MEDIA_TYPE, body));
    assert_eq!(worker.outcome(stream).local_response().status(), 302);
}

fn visit(worker: &mut Worker, path: &str, status: u32) -> Usage {
    let before = worker.usage();
    let response = worker.get(path).local_response();
    assert_eq!(u32::from(response.status()), status, "{path}");
    worker.usage().since(&before)
}

/// Accepts the connection to Redis and each of its initial commands, and has the feed and Redis report that both are up
/// to date.
fn connect(fleet: &mut Fleet) {
    fleet.pass(Duration::from_millis(200));
    let worker = fleet.worker(0);
    for next in [6, 7] {
        let poll = worker.callout_to("/edge/v1/feed");
        worker.answer(&poll, Response::ok(FeedBatch::MEDIA_TYPE, batch(next)));
    }
    let lookup = worker.grpc_streams().remove(0);
    worker.grpc_initial_metadata(&lookup, &HeaderMap::default());
    let commands = lookup.sent.concat();
    for _ in commands.split(|byte| *byte == b'*').skip(1) {
        worker.grpc_message(&lookup, "+OK\r\n");
    }
    let number = GENERATION.to_string();
    let length = number.len();
    worker.grpc_message(
        &lookup,
        format!("*2\r\n${length}\r\n{number}\r\n$1\r\n7\r\n"),
    );
}

/// Reply to `HMGET` for a link.
fn record_in_redis() -> String {
    let length = TARGET.len();
    format!(
        "*8\r\n${length}\r\n{TARGET}\r\n$3\r\n302\r\n$6\r\nactive\r\n$-1\r\n$-1\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n"
    )
}

fn median(costs: impl Iterator<Item = Usage>) -> Cost {
    let mut costs: Vec<Cost> = costs
        .map(|usage| Cost {
            fuel: usage.fuel,
            hostcalls: usage.hostcall_total(),
        })
        .collect();
    costs.sort_by_key(|cost| cost.fuel);
    costs[costs.len() / 2]
}
