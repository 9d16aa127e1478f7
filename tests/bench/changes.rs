//! Latency of redirects while links change.

use crate::edges::Tiers;
use crate::links::write_paths;
use crate::load::{Latencies, keep_rate};
use crate::options::Options;
use crate::process::{others, pin};
use crate::report::{Limit, Section, Table};
use crate::rounds::median;
use crate::targets::{NATIVE_LRU, NATIVE_OF_4, NGINX_LRU, create_many};
use edgelink_tests::stack::{ControlPlane, Envoy, Filter};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::interval;

const LINKS: usize = 1_000;
/// Requests a second.
const RATE: f64 = 5_000.0;
/// Changes a second, and how many come at once.
const CHANGES: usize = 1_000;
const AT_ONCE: usize = 100;
/// Most milliseconds that changes may add to p99.9.
const GOAL: f64 = 2.0;

/// An edge that is measured.
struct Measured {
    name: &'static str,
    edge: Envoy,
    quiet: Vec<Latencies>,
    changing: Vec<Latencies>,
    /// Changes that it has applied, a second.
    applied: Vec<f64>,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let (rounds, seconds) = options.size.pick((7, 10), (1, 3));
    let mut control_plane = ControlPlane::start().await;
    pin(&[control_plane.process().id()], &others());
    let folder = TempDir::new().expect("a temporary folder");
    let codes = create_many(&control_plane, LINKS).await;
    let paths = write_paths(folder.path(), "links", codes);
    let mut all = Vec::new();
    for (name, filter, workers) in [
        (NATIVE_LRU, Filter::Native, 1),
        (NATIVE_OF_4, Filter::Native, 4),
        (NGINX_LRU, Filter::Nginx, 1),
        ("edgelink, LRU hit", Filter::Wasm, 1),
    ] {
        if options.wants(name) {
            let tiers = Tiers {
                filter,
                workers,
                ..Tiers::USUAL
            };
            let mut edge = tiers.start(control_plane.address()).await;
            pin(&edge.process().family(), "0");
            all.push(Measured::new(name, edge));
        }
    }
    let mut next = 0;
    for _ in 0..rounds {
        for measured in &mut all {
            measured
                .round(&control_plane, (&paths, seconds), &mut next)
                .await;
        }
    }
    let mut section = Section::new("Redirects while links change");
    section.text(&format!(
        "{rounds} rounds in turns of {seconds} s each: {RATE} requests a second for {LINKS} links at random (oha), from when each request was due, \
         first without changes, then with {CHANGES} new aliases a second, {AT_ONCE} at once, which each worker applies. The control plane shares the \
         processor of the load. Milliseconds, medians of rounds."
    ));
    let mut table = Table::new([
        "target",
        "changes a second",
        "p50",
        "p99",
        "p99.9",
        "p50 with changes",
        "p99 with changes",
        "p99.9 with changes",
    ]);
    for measured in &all {
        let figures = [&measured.quiet, &measured.changing].map(|all| {
            let of =
                |each: fn(&Latencies) -> f64| median(&all.iter().map(each).collect::<Vec<_>>());
            [of(|it| it.p50), of(|it| it.p99), of(|it| it.p999)]
        });
        let cells = figures.iter().flatten();
        let cells = cells.map(|millis| format!("{millis:.3}"));
        let first = [
            measured.name.to_owned(),
            format!("{:.0}", median(&measured.applied)),
        ];
        table.row(first.into_iter().chain(cells));
        let [quiet, changing] = figures;
        let what = format!("{}: p99.9 beyond that without changes, ms:", measured.name);
        section.goal(changing[2] - quiet[2], Limit::AtMost(GOAL), &what);
    }
    section.text(&table);
    section
}

impl Measured {
    fn new(name: &'static str, edge: Envoy) -> Self {
        Self {
            name,
            edge,
            quiet: Vec::new(),
            changing: Vec::new(),
            applied: Vec::new(),
        }
    }

    async fn round(
        &mut self,
        control_plane: &ControlPlane,
        (paths, seconds): (&Path, u64),
        next: &mut usize,
    ) {
        let (address, count) = (self.edge.edge(), RATE as u64 * seconds);
        let load = || {
            let paths = paths.to_owned();
            spawn_blocking(move || keep_rate(address, &paths, 302, RATE, count))
        };
        self.quiet.push(load().await.expect("a load"));
        let (applied, start) = (self.applied().await, Instant::now());
        let mut loaded = load();
        let mut ticks = interval(Duration::from_secs(1) * AT_ONCE as u32 / CHANGES as u32);
        let latencies = loop {
            tokio::select! {
                loaded = &mut loaded => break loaded.expect("a load"),
                _ = ticks.tick() => change(control_plane, next).await,
            }
        };
        let (took, later) = (start.elapsed().as_secs_f64(), self.applied().await);
        self.applied.push((later - applied) as f64 / took);
        self.changing.push(latencies);
        eprintln!("{:<20} {:?} {latencies:?}", self.name, self.quiet.last());
    }

    async fn applied(&self) -> u64 {
        self.edge.figures().await.get("edgelink.feed.put")
    }
}

/// Creates aliases, which each edge is informed of.
async fn change(control_plane: &ControlPlane, next: &mut usize) {
    let link = |number: usize| json!({ "longUrl": "https://example.com/changed", "customSlug": format!("new-{number}") });
    let links: Vec<Value> = (*next..*next + AT_ONCE).map(link).collect();
    *next += AT_ONCE;
    let made = control_plane
        .api("POST", "/links/bulk", &json!(links))
        .await;
    assert_eq!(made.status, 200, "{made:?}");
}
