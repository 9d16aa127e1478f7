//! Reports of workers between the replicas, through Redis.
//!
//! A replica that ends hands its workers over, so that changes do not wait for it; they poll another one.
//!
//! Each replica reports once a second, and while a change is on its way whenever something has changed. With the same command it is
//! listed as alive, and receives the list: a replica that has not reported for [`REPLICA_LEASE`] counts as gone.
//!
//! Layout of version 1, numbers as unsigned LEB128: version (1 byte), name of the replica (16 bytes), flags (1 byte: bit 0 if it has
//! applied a position, bit 1 if a worker polls there that cannot acknowledge, bit 2 if the replica ends), generation, that position (milliseconds, sequence), the number of workers, and for each its
//! id (16 bytes) and position. Reports of other versions are ignored, so that such a replica counts as one that has applied nothing.

use crate::Feed;
use crate::pollers::{LEASE, ReplicaName, WorkerReport};
use edgelink_redis::{Redis, RedisError};
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{FeedPosition, varint};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const VERSION: u8 = 1;
const HAS_POSITION: u8 = 1;
const HAS_UNNAMED: u8 = 2;
const LEAVES: u8 = 4;

/// Interval between two reports while nothing changes.
const PERIOD: Duration = Duration::from_secs(1);

/// Shortest interval between two reports.
const GATHER: Duration = Duration::from_millis(1);

/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time after its last report at which a replica counts as gone: workers that poll it have read nothing for [`LEASE`] by then, because
/// a replica that cannot report cannot read the feed either.
const REPLICA_LEASE: Duration = LEASE.saturating_add(PERIOD);

/// Time limit of the last report.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// Shares what this replica knows of workers.
pub struct Sharing {
    redis: Arc<Redis>,
    feed: Arc<Feed>,
    name: ReplicaName,
    is_failing: bool,
}

impl Sharing {
    /// From now on changes wait for other replicas as well.
    #[must_use]
    pub fn new(redis: Arc<Redis>, feed: Arc<Feed>) -> Self {
        feed.pollers.expect_replicas();
        Self {
            redis,
            feed,
            name: rand::random(),
            is_failing: false,
        }
    }

    /// Reports, and receives reports, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let receiving = receive(self.redis.clone(), self.feed.clone(), self.name);
        tokio::select! {
            () = stop.cancelled() => {}
            () = receiving => {}
            () = self.send() => {}
        }
        let report = encode(&self.name, &self.feed.pollers.last_report());
        let leave = self.redis.leave(&self.name, report);
        if !matches!(timeout(LEAVE_LIMIT, leave).await, Ok(Ok(()))) {
            tracing::warn!(
                "handing workers over to other replicas failed; changes there wait until their leases end"
            );
        }
    }

    async fn send(&mut self) {
        let feed = self.feed.clone();
        loop {
            let (report, place) = feed.pollers.report();
            let bytes = encode(&self.name, &report);
            let listed = self.redis.share(&self.name, REPLICA_LEASE, bytes).await;
            self.log_result(&listed);
            match listed {
                Ok(mut names) => {
                    names.retain(|name| *name != self.name);
                    feed.pollers.on_list(&names, place);
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
            sleep(GATHER).await;
            feed.pollers.await_reportable(PERIOD).await;
        }
    }

    fn log_result(&mut self, result: &Result<Vec<ReplicaName>, RedisError>) {
        match result {
            Ok(_) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("what workers have applied is shared with other replicas again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "sharing with other replicas what workers have applied failed: retrying; changes are answered after feed.alias_wait_ms");
                }
            }
        }
    }
}

async fn receive(redis: Arc<Redis>, feed: Arc<Feed>, own: ReplicaName) {
    let mut reports = redis.shared();
    loop {
        // A report that was missed is followed by another one.
        if let Ok(bytes) = reports.next().await
            && let Some((name, report)) = decode(&bytes)
            && name != own
        {
            feed.pollers.on_report(name, &report);
        }
    }
}

fn encode(name: &ReplicaName, report: &WorkerReport) -> Vec<u8> {
    let mut flags = 0;
    if report.through.is_some() {
        flags |= HAS_POSITION;
    }
    if report.has_unnamed {
        flags |= HAS_UNNAMED;
    }
    if report.leaves {
        flags |= LEAVES;
    }
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(name);
    bytes.push(flags);
    varint::write(report.generation, &mut bytes);
    write_position(report.through.unwrap_or_default(), &mut bytes);
    varint::write(report.acknowledged.len() as u64, &mut bytes);
    for (worker, position) in &report.acknowledged {
        bytes.extend_from_slice(worker);
        write_position(*position, &mut bytes);
    }
    bytes
}

/// Reads a report; `None` if it is of another version, or cut off.
fn decode(mut bytes: &[u8]) -> Option<(ReplicaName, WorkerReport)> {
    let input = &mut bytes;
    let ([VERSION], rest) = input.split_first_chunk()? else {
        return None;
    };
    *input = rest;
    let name = read_name(input)?;
    let ([flags], rest) = input.split_first_chunk()?;
    *input = rest;
    let generation = varint::read(input).ok()?;
    let through = read_position(input)?;
    let count = varint::read(input).ok()?;
    let mut acknowledged = Vec::new();
    for _ in 0..count {
        let worker: WorkerId = read_name(input)?;
        acknowledged.push((worker, read_position(input)?));
    }
    let report = WorkerReport {
        generation,
        through: (flags & HAS_POSITION != 0).then_some(through),
        has_unnamed: flags & HAS_UNNAMED != 0,
        leaves: flags & LEAVES != 0,
        acknowledged,
    };
    Some((name, report))
}

fn read_name(input: &mut &[u8]) -> Option<[u8; 16]> {
    let (name, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*name)
}

fn write_position(position: FeedPosition, bytes: &mut Vec<u8>) {
    varint::write(position.millis, bytes);
    varint::write(position.sequence, bytes);
}

fn read_position(input: &mut &[u8]) -> Option<FeedPosition> {
    let millis = varint::read(input).ok()?;
    let sequence = varint::read(input).ok()?;
    Some(FeedPosition::new(millis, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> WorkerReport {
        WorkerReport {
            generation: 7,
            through: Some(FeedPosition::new(1_000, 1)),
            has_unnamed: true,
            leaves: true,
            acknowledged: vec![
                ([1; 16], FeedPosition::new(1_000, 1)),
                ([2; 16], FeedPosition::new(u64::MAX, 0)),
            ],
        }
    }

    #[test]
    fn report_when_encoded_is_read_as_it_was() {
        for report in [report(), WorkerReport::default()] {
            let bytes = encode(&[9; 16], &report);
            assert_eq!(decode(&bytes), Some(([9; 16], report)));
        }
    }

    #[test]
    fn report_when_cut_off_or_of_another_version_is_ignored() {
        let mut bytes = encode(&[9; 16], &report());
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        bytes[0] = 2;
        assert_eq!(decode(&bytes), None);
    }
}
