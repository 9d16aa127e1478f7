//! Skewed traffic through the filter's logic, without servers: with equal hits in every run. The effect of an eviction
//! policy shows here in seconds.
//!
//! Records are looked up at the control plane, which stands for everything behind the caches. Slots of the cache are
//! larger on a 64-bit machine than inside Envoy, so that slightly fewer links fit.

mod zipf;

pub use zipf::{Zipf, random, zipf_weight};

use edgelink_filter_core::control_plane::Callout;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::edge::{Action, Edge, Step};
use edgelink_filter_core::host::{
    CasMismatch, Clients, ConnectionToken, Log, Lookups, SharedData, SharedValue,
};
use edgelink_filter_core::metrics::{Metric, Metrics};
use edgelink_filter_core::request::{Head, HeaderMap};
use edgelink_filter_core::settings::{Described, RedisSettings, Settings};
use edgelink_filter_core::time::{Moment, WallClock};
use edgelink_wire::{CodeLength, CodeSpace, LinkAnswer, LinkRecord, Record, clicks::WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

const DOMAIN: &str = "go.example";
const START: u64 = 1_000_000_000_000;
const WORKER: WorkerId = [7; 16];

/// Parameters of the simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimulateSpec {
    /// Links; traffic follows Zipf's law.
    pub links: usize,
    /// A file of targets, one per line, assigned to links in turn.
    pub targets: PathBuf,
    /// Requests before anything is counted.
    pub warm_up: usize,
    /// Requests that are counted.
    pub requests: usize,
    /// `lru.maxBytes`.
    pub lru_bytes: usize,
    /// `sharedData.slots`.
    pub slots: u32,
}

/// Results of the simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimulateReport {
    /// Share of requests answered by the worker's cache.
    pub lru: f64,
    /// Share answered by shared data.
    pub shared_data: f64,
    /// Number of links in the worker's cache, and their size in bytes by its own account.
    pub entries: i64,
    /// See `entries`.
    pub bytes: i64,
    /// Share answered by an ideal cache of as many links, which always holds the most requested ones.
    pub ideal: f64,
}

/// Runs the simulation.
///
/// # Errors
/// Fails if the file cannot be read, or the configuration is rejected.
pub fn simulate(spec: &SimulateSpec) -> Result<SimulateReport, Box<dyn Error>> {
    let text = std::fs::read_to_string(&spec.targets)?;
    let configuration = serde_json::json!({
        "domains": [DOMAIN],
        "controlPlane": {"cluster": "control_plane", "token": "secret"},
        "lru": {"maxBytes": spec.lru_bytes},
        "sharedData": {"slots": spec.slots},
        "freshSeconds": 3600,
        "tierHeader": true,
    });
    let settings = Settings::parse(configuration.to_string().as_bytes())?;
    let mut world = World {
        edge: Edge::new(Arc::new(settings), WORKER, 7, WallClock::default()),
        host: Host::default(),
        codes: CodeSpace::new(CodeLength::DEFAULT, None),
        targets: text.lines().filter(|url| is_target(url)).collect(),
        token: 0,
    };
    let mut traffic = Zipf::new(spec.links, 1);
    for place in traffic.by_ref().take(spec.warm_up) {
        world.visit(place)?;
    }
    world.host.hits.clear();
    for place in traffic.take(spec.requests) {
        world.visit(place)?;
    }
    Ok(world.report(spec))
}

struct World<'a> {
    edge: Edge,
    host: Host,
    codes: CodeSpace,
    targets: Vec<&'a str>,
    token: u32,
}

impl World<'_> {
    fn visit(&mut self, place: usize) -> Result<(), Box<dyn Error>> {
        let code = self.codes.mint(place as u64)?;
        let path = format!("/{code}");
        let head = Head {
            method: b"GET",
            path: path.as_bytes(),
            authority: DOMAIN.as_bytes(),
            ..Head::<HeaderMap<'_>>::default()
        };
        let now = Moment::from_millis(START);
        let callout = match self.edge.on_request(&mut self.host, 1, &head, now) {
            Step::Answer(answer, None) => {
                let mut headers = answer.headers();
                let tier = headers.find(|(name, _)| *name == "x-edgelink-tier");
                let tier = String::from_utf8_lossy(tier.map_or(b"", |(_, tier)| tier));
                *self.host.hits.entry(tier.into_owned()).or_default() += 1;
                return Ok(());
            }
            Step::Wait(Some(callout)) => Callout::Lookup(callout),
            other => return Err(format!("{path}: {other:?}").into()),
        };
        self.answer(&callout, &path, place)
    }

    fn answer(
        &mut self,
        callout: &Callout,
        path: &str,
        place: usize,
    ) -> Result<(), Box<dyn Error>> {
        self.token += 1;
        let now = Moment::from_millis(START);
        self.edge.on_sent(callout, self.token, now);
        let key = format!("{DOMAIN}{path}");
        let record = link(self.targets[place % self.targets.len()]);
        let record = record.to_bytes();
        let answer = LinkAnswer {
            age_millis: 0,
            key: key.as_bytes(),
            record: &record,
        };
        let body = answer.to_bytes();
        let response = Response {
            status: b"200",
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &body,
        };
        let actions = self
            .edge
            .on_callout_end(&mut self.host, self.token, response, now);
        match actions.as_slice() {
            [Action::Resume(resumed)]
                if resumed.waiters.iter().all(|waiter| {
                    let path = path.as_bytes();
                    let head = Head {
                        path,
                        ..Head::<HeaderMap<'_>>::default()
                    };
                    let answer = self.edge.answer(&self.host, *waiter, resumed, &head);
                    answer.is_some_and(|answer| answer.status == 302)
                }) =>
            {
                Ok(())
            }
            other => Err(format!("{path}: {other:?}").into()),
        }
    }

    fn report(mut self, spec: &SimulateSpec) -> SimulateReport {
        self.edge.on_tick(
            &mut self.host,
            Moment::from_millis(START),
            WallClock::default(),
        );
        let share = |tier: &str| {
            let hits = self.host.hits.get(tier).copied().unwrap_or(0);
            hits as f64 / spec.requests as f64
        };
        let level = |name: &str| self.host.levels.get(name).copied().unwrap_or(0);
        let entries = level("edgelink.lru_entries");
        SimulateReport {
            lru: share("lru"),
            shared_data: share("shared-data"),
            entries,
            bytes: level("edgelink.lru_bytes"),
            ideal: zipf_weight(usize::try_from(entries).unwrap_or(0), spec.links),
        }
    }
}

/// An ordinary link.
#[must_use]
pub fn link(url: &str) -> Record<&str> {
    Record::Link(LinkRecord::ordinary(url, 1))
}

/// True if a link may have that target.
#[must_use]
pub fn is_target(url: &str) -> bool {
    let mut encoded = Vec::new();
    link(url).encode(&mut encoded);
    Record::decode(&encoded).is_ok()
}

/// A proxy that implements shared data and metrics only.
#[derive(Default)]
struct Host {
    values: HashMap<String, SharedValue<Vec<u8>>>,
    levels: HashMap<String, i64>,
    hits: HashMap<String, u64>,
}

impl SharedData for Host {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.values.get(key).cloned()
    }

    fn set(&mut self, key: &str, value: &[u8], _: u32) -> Result<(), CasMismatch> {
        let value = SharedValue {
            value: value.to_vec(),
            cas: 1,
        };
        self.values.insert(key.to_owned(), value);
        Ok(())
    }
}

impl Metrics for Host {
    fn add(&mut self, metric: Metric, by: i64) {
        *self.levels.entry(metric.name()).or_default() += by;
    }

    fn record(&mut self, _: Metric, _: u64) {}
}

impl Lookups for Host {
    fn open(&mut self, _: &RedisSettings) -> Option<ConnectionToken> {
        None
    }

    fn send(&mut self, _: ConnectionToken, _: &[u8]) -> bool {
        false
    }

    fn close(&mut self, _: ConnectionToken) {}
}

impl Clients for Host {
    fn client_address(&self) -> Option<std::net::IpAddr> {
        None
    }

    fn cookies(&self) -> Vec<u8> {
        Vec::new()
    }

    fn user_agent(&self) -> Vec<u8> {
        Vec::new()
    }

    fn describe(&self, _: Described, _: &[u8]) {}
}

impl Log for Host {
    fn warn(&mut self, _: &str) {}
}
