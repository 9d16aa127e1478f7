//! Memory of a cached link, and the bound of the cache.

use crate::edges::Tiers;
use crate::fill::FilledRedis;
use crate::load::{Pick, visit};
use crate::options::Options;
use crate::process::{pin, resident};
use crate::report::{Limit, Section, Table};
use crate::zipf::stats;
use edgelink_tests::stack::Filter;
use std::net::SocketAddr;
use std::path::Path;

/// Highest number of bytes beside key and target to aim for.
const GOAL: f64 = 96.0;

/// Memory that a worker may use beside its cache: buffers, and data waiting to be sent or freed but not yet reused.
const ROOM: u64 = 16 << 20;

/// Highest memory of a process of four workers with the native module, relative to one worker with Wasm.
const GOAL_OF_FOUR: f64 = 1.5;

/// Growth of an Envoy by links.
struct Grown {
    entries: u64,
    bytes: u64,
    resident: u64,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let links: usize = options.size.pick(1_000_000, 50_000);
    let bound: u32 = options.size.pick(64 << 20, 4 << 20);
    let filled = FilledRedis::start(links).await;
    let (targets, paths) = (&filled.targets, &filled.paths);
    let servers = filled.control_plane();
    let with = |lru_bytes| Tiers {
        lru_bytes,
        // Memory of shared data is not the worker's.
        slots: 0,
        ..filled.tiers()
    };
    let four = Tiers {
        filter: Filter::Native,
        workers: 4,
        ..with(1 << 30)
    };
    let nginx = Tiers {
        filter: Filter::Nginx,
        ..with(1 << 30)
    };
    let all = grow(servers, with(1 << 30), paths, links).await;
    let some = grow(servers, with(bound), paths, links).await;
    let native = grow(servers, four, paths, links).await;
    let nginx = grow(servers, nginx, paths, links).await;

    let mut section = Section::new("Memory");
    section.text(&format!(
        "{links} different links with real targets, each asked for once. Growth: of the proxy's memory in RAM, all \
         in all, from before the first to after the last; beside: what that is a link, less its key and target. The native module has \
         one cache for all workers, Wasm and nginx one for each."
    ));
    let useful: usize = (0..links).map(|place| targets.size(place)).sum();
    let useful = useful as f64 / links as f64;
    let mut table = Table::new([
        "filter",
        "lru.maxBytes",
        "links held",
        "bytes by its account",
        "growth, bytes",
        "a link",
        "beside",
    ]);
    for (filter, max, grown) in [
        ("Wasm, one worker", 1 << 30, &all),
        ("Wasm, one worker", bound, &some),
        ("native, four workers", 1 << 30, &native),
        ("nginx, one worker", 1 << 30, &nginx),
    ] {
        table.row([
            filter.to_owned(),
            max.to_string(),
            grown.entries.to_string(),
            grown.bytes.to_string(),
            grown.resident.to_string(),
            format!("{:.1}", grown.a_link()),
            format!("{:.1}", grown.a_link() - useful),
        ]);
    }
    section.text(&table);
    let what = "bytes beside key and target a cached link";
    section.goal(all.a_link() - useful, Limit::AtMost(GOAL), what);
    for grown in [&all, &native, &nginx] {
        let text = format!("{} of {links} links are held", grown.entries);
        section.claim((grown.entries >= links as u64).into(), text);
    }
    let ratio = native.resident as f64 / all.resident as f64;
    let what = "memory of four workers with the native module, of one with Wasm";
    section.goal(ratio, Limit::AtMost(GOAL_OF_FOUR), what);
    let limit = u64::from(bound) + ROOM;
    let text = format!(
        "{} bytes more for {links} links, at most {bound} and {ROOM}",
        some.resident
    );
    section.claim((some.resident <= limit).into(), text);
    section
}

impl Grown {
    fn a_link(&self) -> f64 {
        self.resident as f64 / self.entries as f64
    }
}

async fn grow(control_plane: SocketAddr, tiers: Tiers, paths: &Path, links: usize) -> Grown {
    let mut envoy = tiers.start(control_plane).await;
    let processes = envoy.process().family();
    pin(&processes, "0");
    // Opens connections and their buffers before the measurement begins.
    visit(envoy.edge(), paths, Pick::Cycle, 100);
    let before = resident(&processes);
    visit(envoy.edge(), paths, Pick::Cycle, links as u64);
    let stats = stats(&envoy).await;
    Grown {
        entries: stats.get("edgelink.lru_entries"),
        bytes: stats.get("edgelink.lru_bytes"),
        resident: resident(&processes).saturating_sub(before),
    }
}
