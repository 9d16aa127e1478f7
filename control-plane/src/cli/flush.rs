//! `edgelink flush`: has all caches drop everything and ask again.

use super::{CliError, plural};
use clap::{Args, value_parser};
use edgelink_settings::config::Config;
use edgelink_store::{
    FlushReason, ISSUERS, NUMBERS_SKIPPED, PublisherState, Skipped, Store, StoreError,
};
use edgelink_wire::FeedPosition;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between reads of the publisher's row.
const PAUSE: Duration = Duration::from_millis(100);

/// Workers that reported within this time are listed; it is three of their reporting intervals.
const LATELY: Duration = Duration::from_secs(30);

/// Most edges that are counted.
const MAX_EDGES: u32 = 10_000;

#[derive(Debug, Args)]
pub(super) struct FlushArguments {
    /// The database was restored from a backup: in addition, numbers of links, and ids of tenants, users, domains and webhooks, are
    /// skipped that the lost database may have issued.
    #[arg(long)]
    restored: bool,
    /// How many links were created since that backup at most, and numbers drawn for them and not used, 1 to 1000000000: so many
    /// numbers are skipped at each issuer. Without it
    /// a million, or half of those that may be issued at the moment if that is less. With more than those, links can be created a minute
    /// after the start of a control plane.
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000_000), value_name = "N", requires = "restored")]
    links_since: Option<u64>,
    /// How many seconds to wait until a control plane has published the flush, 0 to 600; with 0 it is noted alone. Where there
    /// is no publisher for twice the time of its lease, the wait ends then.
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u64).range(0..=600), value_name = "SECONDS")]
    wait: u64,
}

/// Outcome of a flush that is recorded in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlushOutcome {
    /// The flush is in the feed, in this generation.
    Published(u64),
    /// There has been no publisher for some time.
    NoPublisher,
    /// The publisher has not published it in time.
    Late,
}

impl FlushArguments {
    pub(super) async fn run(self, config: &Config) -> Result<(), CliError> {
        let store = super::open(&config.store).await?;
        let reason = if self.restored {
            FlushReason::Restored {
                links_since: self.links_since,
            }
        } else {
            FlushReason::Caches
        };
        let (flushed, skipped) = store.flush(reason).await?;
        println!("noted: all caches drop what is older than {}", at(&flushed));
        if let Some(skipped) = skipped {
            print_skipped(skipped, self.links_since);
        }
        if self.wait == 0 {
            return Ok(());
        }
        let wait = Duration::from_secs(self.wait);
        let lease = config.publisher.lease_ms;
        match await_publisher(&store, &flushed, wait, lease * 2).await? {
            FlushOutcome::Published(generation) => {
                println!(
                    "published: generation {generation} of the feed begins, and records of Redis from before are not read"
                );
                print_edges(&store).await
            }
            FlushOutcome::NoPublisher => {
                println!("no control plane publishes now: the first one that starts publishes it");
                Ok(())
            }
            FlushOutcome::Late => Err(CliError::NotFlushed(wait)),
        }
    }
}

fn print_skipped(skipped: Skipped, links_since: Option<u64>) {
    let Skipped {
        least,
        greatest,
        ids,
    } = skipped;
    let count = if least == greatest {
        least.to_string()
    } else {
        format!("{least} to {greatest}")
    };
    println!("numbers skipped: {count} at each of {ISSUERS} issuers");
    println!("ids skipped: {ids} each of tenants, users, domains and webhooks");
    if links_since.is_none() && least < NUMBERS_SKIPPED {
        println!(
            "if more than {least} links were created since the backup, run it again with --links-since N before links are created"
        );
    }
}

/// Waits for a generation after that of the flush in which something is published, at most for `wait`, and not longer than
/// `absence` without a publisher: one that starts, or whose lease lapsed while its database was slow, takes it soon.
async fn await_publisher(
    store: &Store,
    flushed: &PublisherState,
    wait: Duration,
    absence: Duration,
) -> Result<FlushOutcome, StoreError> {
    let start = Instant::now();
    let mut held_at = start;
    loop {
        let state = store.publisher().await?;
        if state.generation > flushed.generation && state.position > FeedPosition::START {
            return Ok(FlushOutcome::Published(state.generation));
        }
        if !state.has_expired() {
            held_at = Instant::now();
        }
        if held_at.elapsed() >= absence {
            return Ok(FlushOutcome::NoPublisher);
        }
        if start.elapsed() >= wait {
            return Ok(if state.has_expired() {
                FlushOutcome::NoPublisher
            } else {
                FlushOutcome::Late
            });
        }
        sleep(PAUSE).await;
    }
}

async fn print_edges(store: &Store) -> Result<(), CliError> {
    let edges = store.edge_health(LATELY, MAX_EDGES).await?;
    let heard: Vec<u64> = edges
        .iter()
        .map(|edge| edge.workers)
        .filter(|workers| *workers > 0)
        .collect();
    println!(
        "{} of {} reported in the last {} s: they drop everything with the next answer of the feed, the others when they read it again",
        plural(heard.iter().sum(), "worker"),
        plural(heard.len() as u64, "edge"),
        LATELY.as_secs()
    );
    Ok(())
}

fn at(flushed: &PublisherState) -> String {
    edgelink_model::timestamp::from_millis(flushed.now / 1000)
}
