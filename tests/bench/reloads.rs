//! Requests that leave nginx after a reload and after a start, with a zone that has room for all links and with the smallest one.

use crate::edges::{Tiers, first_requests};
use crate::fill::FilledRedis;
use crate::load::{Pick, visit};
use crate::options::Options;
use crate::process::pin;
use crate::report::{Section, Table};
use crate::zipf::stats;
use edgelink_tests::stack::{Envoy, Filter, until};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// What happens before the requests are counted.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Reload,
    Start,
}

impl Before {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "all links known",
            Self::Reload => "after a reload",
            Self::Start => "after a start",
        }
    }
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let links: usize = options.size.pick(1_000_000, 50_000);
    let requests: u64 = options.size.pick(1_000_000, 50_000);
    let filled = FilledRedis::start(links).await;
    let paths = &filled.paths;
    let mut section = Section::new("Reloads of nginx");
    section.text(&format!(
        "{links} links with real targets, all of them in Redis and each asked for once, in one worker of nginx with a cache that holds \
         them. Then the first {requests} requests by Zipf's law, as fast as they are answered, by the tier that answers."
    ));
    let mut table = Table::new([
        "zone",
        "when",
        "seconds",
        "of its cache",
        "of the zone",
        "leave the process",
    ]);
    for (zone, slots) in [("for all links", 1 << 20), ("the smallest", 0)] {
        let tiers = Tiers {
            filter: Filter::Nginx,
            lru_bytes: 1 << 30,
            slots,
            ..filled.tiers()
        };
        let mut nginx = tiers.start(filled.control_plane()).await;
        pin(&nginx.process().family(), "0");
        visit(nginx.edge(), paths, Pick::Cycle, links as u64);
        // Those that the start has not asked for.
        let mut codes = first_requests().skip(1_000);
        for before in [Before::Nothing, Before::Reload, Before::Start] {
            before.happen(&mut nginx).await;
            until("Redis is asked", LIMIT, async || {
                let code = codes.next().expect("a code");
                let answer = nginx.follow(&format!("/{code}")).await;
                (answer.status == 302).then_some(())
            })
            .await;
            let counted = count(&nginx, paths, requests).await;
            let cells = [zone, before.name()].map(str::to_owned);
            table.row(cells.into_iter().chain(counted));
        }
    }
    section.text(&table);
    section
}

impl Before {
    async fn happen(self, nginx: &mut Envoy) {
        match self {
            Self::Nothing => {}
            Self::Reload => {
                nginx.reload_to_new_workers().await;
            }
            Self::Start => {
                nginx.process().kill();
                nginx.restart().await;
            }
        }
        pin(&nginx.process().family(), "0");
    }
}

/// The seconds that so many requests take, and how many of them each tier answers.
async fn count(nginx: &Envoy, paths: &Path, requests: u64) -> [String; 4] {
    let before = stats(nginx).await;
    let start = Instant::now();
    visit(nginx.edge(), paths, Pick::Zipf { seed: 3 }, requests);
    let seconds = start.elapsed().as_secs_f64();
    let after = stats(nginx).await;
    let of = |tier| after.answered_from(tier) - before.answered_from(tier);
    let left = of("redis") + of("control-plane");
    [
        format!("{seconds:.1}"),
        of("lru").to_string(),
        of("shared-data").to_string(),
        left.to_string(),
    ]
}
