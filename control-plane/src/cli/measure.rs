//! `edgelink measure-issuer`: how fast numbers are taken from the segments of the configured database. For `make
//! throughput`, which needs it in a binary that is built for release.

use crate::config::Config;
use crate::issuer::{IssueError, NumberSource, SegmentIssuer, SegmentOptions};
use crate::server;
use crate::store::{Store, StoreError};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::task::{JoinError, spawn_blocking};

/// How many numbers a pass takes: fewer than are below the first bound of the edges' admission.
const NUMBERS: usize = 600_000;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeasureError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("a thread ended early: {0}")]
    Thread(#[from] JoinError),
}

pub(super) async fn run(config: &Config) -> Result<(), MeasureError> {
    let store = server::open_store(&config.store).await?;
    println!("threads    numbers/s   p50 ns   p99.9 ns   (with two readings of the clock)");
    for threads in [1, 2] {
        let (elapsed, _) = pass(&store, config, threads, take_all).await?;
        let rate = NUMBERS as f64 / elapsed;
        let (_, times) = pass(&store, config, threads, time_each).await?;
        println!(
            "{threads:>7} {rate:>12.0} {:>8} {:>10}",
            quantile(&times, 500),
            quantile(&times, 999)
        );
    }
    Ok(())
}

type Times = Result<Vec<u64>, IssueError>;

/// Takes all numbers on so many threads; the seconds that it took, and what the threads have noted, sorted.
async fn pass(
    store: &Arc<Store>,
    config: &Config,
    threads: usize,
    work: fn(&SegmentIssuer, usize) -> Times,
) -> Result<(f64, Vec<u64>), MeasureError> {
    let issuer = SegmentIssuer::start(store.clone(), options(config));
    issuer.next_number().await?;
    let start = Instant::now();
    let tasks: Vec<_> = (0..threads)
        .map(|_| {
            let issuer = Arc::clone(&issuer);
            spawn_blocking(move || work(&issuer, NUMBERS / threads))
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let elapsed = start.elapsed().as_secs_f64();
    issuer.shutdown().await;
    times.sort_unstable();
    Ok((elapsed, times))
}

/// As an instance that has been busy for a while.
fn options(config: &Config) -> SegmentOptions {
    SegmentOptions {
        length: config.links.code_space().length(),
        least_step: config.issuer.max_step,
        most_step: config.issuer.max_step,
        ..SegmentOptions::default()
    }
}

fn take_all(issuer: &SegmentIssuer, count: usize) -> Times {
    Handle::current().block_on(async {
        for _ in 0..count {
            issuer.next_number().await?;
        }
        Ok(Vec::new())
    })
}

fn time_each(issuer: &SegmentIssuer, count: usize) -> Times {
    Handle::current().block_on(async {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            issuer.next_number().await?;
            times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(times)
    })
}

/// The value that so many thousandths of `sorted` are not above.
fn quantile(sorted: &[u64], thousandths: usize) -> u64 {
    let at = sorted.len() * thousandths / 1000;
    sorted.get(at).copied().unwrap_or_default()
}
