//! Skewed traffic: shares of it answered by each tier.

use crate::edges::Tiers;
use crate::fill::FilledRedis;
use crate::links::Targets;
use crate::load::{Pick, simulate, visit};
use crate::options::{Options, Size};
use crate::process::pin;
use crate::report::{Limit, Section, Table};
use edgelink_simulation::{SimulateSpec, zipf_weight};
use edgelink_tests::stack::{Envoy, Filter, Stats};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Share of an ideal cache's hits to aim for.
const GOAL: f64 = 0.96;

/// The measured requests differ from the warm-up: they must not replay it.
const WARM_UP: Pick = Pick::Zipf { seed: 1 };
const MEASURED: Pick = Pick::Zipf { seed: 2 };

const TIERS: [&str; 4] = ["lru", "shared-data", "redis", "control-plane"];

/// Sizes of the measurement.
#[derive(Clone, Copy)]
struct ZipfPlan {
    links: usize,
    lru_bytes: u32,
    slots: u32,
    warm_up: u64,
    requests: u64,
}

impl ZipfPlan {
    fn of(size: Size) -> Self {
        let small = |full: u64| size.pick(full, full / 20);
        Self {
            links: small(1_000_000) as usize,
            lru_bytes: small(64 << 20) as u32,
            slots: small(65_536) as u32,
            warm_up: small(4_000_000),
            requests: small(1_000_000),
        }
    }
}

/// Through real Envoy, and for comparison through the logic alone.
pub(crate) async fn run(options: &Options) -> Section {
    let plan = ZipfPlan::of(options.size);
    let filled = FilledRedis::start(plan.links).await;
    let wasm = Tiers {
        lru_bytes: plan.lru_bytes,
        slots: plan.slots,
        ..filled.tiers()
    };
    let native = Tiers {
        filter: Filter::Native,
        workers: 4,
        ..wasm
    };
    let mut section = Section::new("Skewed traffic");
    section.text(&explain(plan));
    for (name, tiers) in [("Wasm, one worker", wasm), ("native, four workers", native)] {
        let hits = measure(tiers, filled.control_plane(), &filled.paths, plan).await;
        section.text(&hits.table(name));
        judge(&mut section, name, &hits, plan, &filled.targets);
    }
    section.parts_of(simulated(options));
    section
}

async fn measure(tiers: Tiers, control_plane: SocketAddr, paths: &Path, plan: ZipfPlan) -> Hits {
    let mut envoy = tiers.start(control_plane).await;
    pin(&[envoy.process().id()], "0");
    visit(envoy.edge(), paths, WARM_UP, plan.warm_up);
    let before = stats(&envoy).await;
    visit(envoy.edge(), paths, MEASURED, plan.requests);
    let after = stats(&envoy).await;
    Hits::of(&before, &after)
}

/// Through the filter's logic alone, with equal results in every run.
pub(crate) fn simulated(options: &Options) -> Section {
    let plan = ZipfPlan::of(options.size);
    let report = simulate(&SimulateSpec {
        links: plan.links,
        targets: Targets::path(),
        warm_up: plan.warm_up as usize,
        requests: plan.requests as usize,
        lru_bytes: plan.lru_bytes as usize,
        slots: plan.slots,
    });
    let mut section = Section::new("Skewed traffic through the filter's logic alone");
    let mut table = Table::new([
        "tier, without Envoy, the same in every run",
        "share of answers",
    ]);
    table.row(["lru".into(), format!("{:.4}", report.lru)]);
    table.row(["shared data".into(), format!("{:.4}", report.shared_data)]);
    table.row([
        format!("ideal, the {} links asked for most", report.entries),
        format!("{:.4}", report.ideal),
    ]);
    section.text(&table);
    let local = report.lru + report.shared_data;
    let what = "logic alone: share answered by the caches, of the ideal";
    section.goal(local / report.ideal, Limit::AtLeast(GOAL), what);
    section
}

/// The filter's stats, once its worker has reported them with a tick.
pub(crate) async fn stats(envoy: &Envoy) -> Stats {
    tokio::time::sleep(Duration::from_secs(1)).await;
    envoy.figures().await
}

struct Hits {
    shares: Vec<(&'static str, f64)>,
    entries: u64,
    bytes: u64,
}

impl Hits {
    fn of(before: &Stats, after: &Stats) -> Self {
        let all = "edgelink.requests.";
        let total = (after.sum_of(all) - before.sum_of(all)) as f64;
        let share = |tier: &'static str| {
            let own = after.answered_from(tier) - before.answered_from(tier);
            (tier, own as f64 / total)
        };
        Self {
            shares: TIERS.map(share).to_vec(),
            entries: after.get("edgelink.lru_entries"),
            bytes: after.get("edgelink.lru_bytes"),
        }
    }

    fn table(&self, name: &str) -> Table {
        let tier = format!("tier, in Envoy: {name}");
        let mut table = Table::new([&*tier, "share of answers"]);
        for (tier, share) in &self.shares {
            table.row([(*tier).to_owned(), format!("{share:.4}")]);
        }
        table
    }

    fn without_redis(&self) -> f64 {
        self.shares.iter().take(2).map(|(_, share)| share).sum()
    }
}

fn explain(plan: ZipfPlan) -> String {
    format!(
        "Zipf's law with exponent 1 over {} links with real targets, all of them in Redis; a cache of {} bytes, of the worker with Wasm and of the \
         process with the native module, {} slots of shared data; {} requests counted after {}.",
        plan.links, plan.lru_bytes, plan.slots, plan.requests, plan.warm_up
    )
}

fn judge(section: &mut Section, name: &str, hits: &Hits, plan: ZipfPlan, targets: &Targets) {
    let local = hits.without_redis();
    let same = zipf_weight(hits.entries as usize, plan.links);
    let mut bytes = 0;
    let fits = (0..plan.links).take_while(|place| {
        bytes += targets.size(*place);
        bytes <= plan.lru_bytes as usize
    });
    let count = fits.count();
    let free = zipf_weight(count, plan.links);
    section.text(&format!(
        "Answered without Redis: {local:.4}. The cache holds {} links in {} bytes by its own account. A cache of as \
         many links that always held those asked for most would answer {same:.4} ({:.4} of that is reached); one that held \
         nothing but keys and targets, {count} of them, without any table or expiry, {free:.4} ({:.4} of that).",
        hits.entries, hits.bytes, local / same, local / free
    ));
    let bound = u64::from(plan.lru_bytes);
    let text = format!("{name}: the cache has {} of {bound} bytes", hits.bytes);
    section.claim((hits.bytes <= bound).into(), text);
    let what =
        format!("{name}: share answered without Redis, of the ideal at the same bytes a link");
    section.goal(local / same, Limit::AtLeast(GOAL), &what);
}
