//! Numbers from segments that are drawn from the store: `number = sequence * 1000 + issuer`.
//!
//! An instance leases one of 1,000 issuers and draws segments of sequences from it, so that instances do not contend
//! for a row. A number is issued once because a draw advances the issuer's row in one atomic statement and is never
//! repeated. The lease only avoids contention: an instance that was paused for an hour continues with its segments, and then
//! leases another issuer.
//!
//! One issuer at a time is enough: a draw is one statement for up to 100,000 numbers. Under load the issuer reaches the
//! bound that the edges know (see [`edgelink_feed::publisher`]), after a million links in a new database. The instance then
//! leases the issuer that has drawn least; there are a thousand times as many numbers below the bound.

mod step;

use super::ranges::{BACKOFF, MAX_WAIT, NumberRange, RangeIssuer, RangeSource};
use super::source::{IssueError, NumberSource};
use async_trait::async_trait;
use edgelink_settings::telemetry::prometheus::{
    ISSUER_STEP, ISSUER_USED, ISSUERS_HELD, SEGMENTS_DRAWN,
};
use edgelink_store::{ISSUERS, IssuerUsage, Segment, Store, StoreError};
use edgelink_wire::CodeLength;
use edgelink_wire::backoff::Bounds;
use metrics::{counter, gauge};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use step::AdaptiveStep;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

/// The source's name in the configuration.
const NAME: &str = "segment";

/// Holders that an error names.
const HOLDERS_NAMED: usize = 5;

/// Share of used numbers from which the log warns: a longer code length takes a new deployment.
const WARN_FROM: f64 = 0.9;

/// Starts to issue numbers from segments of an issuer, which is leased on the first request.
///
/// # Panics
/// Outside of a Tokio runtime, where the lease could not be renewed.
#[must_use]
pub fn segment(store: Arc<Store>, options: SegmentOptions) -> Arc<dyn NumberSource> {
    let (max_wait, backoff) = (options.max_wait, options.backoff);
    RangeIssuer::start(NAME, Segments::new(store, options), max_wait, backoff)
}

/// Options for drawing segments and leasing issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// The name of this instance, for operators who look at the leases, at most 128 bytes. Unique: two instances with
    /// one name share an issuer, which is safe but keeps them from giving numbers back. Default host, process and a
    /// random number.
    pub owner: String,
    /// The code length; numbers end with its codes. Default 7.
    pub length: CodeLength,
    /// The number of sequences, if fewer than the code length has; for tests of the end.
    pub max_sequences: Option<u64>,
    /// The least numbers of a segment, and its first size. Default 1,000.
    pub min_step: u32,
    /// The most numbers of a segment. A killed process loses up to two segments. Default 100,000.
    pub max_step: u32,
    /// Duration of a lease, which is renewed three times within it. A killed instance blocks its issuer for as long.
    /// Default 60 s.
    pub lease: Duration,
    /// Time that a caller waits for a number. Default 1.5 s.
    pub max_wait: Duration,
    /// The pauses before retries of a draw. Default 50 ms up to 1 s.
    pub backoff: Bounds,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self {
            owner: unique_name(),
            length: CodeLength::DEFAULT,
            max_sequences: None,
            min_step: 1_000,
            max_step: 100_000,
            lease: Duration::from_mins(1),
            max_wait: MAX_WAIT,
            backoff: BACKOFF,
        }
    }
}

impl SegmentOptions {
    /// The first sequence that no issuer may use.
    fn limit(&self) -> u64 {
        let all = self.length.count() / u64::from(ISSUERS);
        self.max_sequences.map_or(all, |most| most.min(all))
    }
}

/// Draws segments from an issuer that this instance has leased.
struct Segments {
    store: Arc<Store>,
    options: SegmentOptions,
    held: Mutex<LeasedIssuer>,
}

struct LeasedIssuer {
    issuer: Option<u16>,
    step: AdaptiveStep,
    last_draw: Option<Instant>,
}

impl Segments {
    fn new(store: Arc<Store>, options: SegmentOptions) -> Self {
        let held = LeasedIssuer {
            issuer: None,
            step: AdaptiveStep::new(options.min_step, options.max_step),
            last_draw: None,
        };
        Self {
            store,
            options,
            held: Mutex::new(held),
        }
    }

    async fn draw_leased(&self, held: &mut LeasedIssuer) -> Result<Segment, IssueError> {
        let mut is_refused = false;
        // Each turn but the last two finds an issuer used up, so there are hardly more turns than issuers.
        loop {
            let issuer = self.lease(held).await?;
            match self.store.draw_segment(issuer, held.step.size()).await? {
                Some(segment) => {
                    let end = segment.end.min(self.options.limit());
                    if segment.start < end {
                        return Ok(Segment { end, ..segment });
                    }
                    tracing::info!(issuer, "issuer used up; leasing another one");
                }
                // The issuer that has drawn least has reached the bound as well.
                None if is_refused => return Err(bound_reached()),
                None => {
                    tracing::info!(issuer, "issuer reached the bound; leasing another one");
                    is_refused = true;
                }
            }
            held.issuer = None;
            let released = self.store.release_issuer(issuer, &self.options.owner);
            released.await?;
        }
    }

    /// Returns the issuer that this instance holds, or leases another one if that was lost.
    async fn lease(&self, held: &mut LeasedIssuer) -> Result<u16, IssueError> {
        if let Some(issuer) = self.renew(held).await? {
            return Ok(issuer);
        }
        let (owner, limit) = (&self.options.owner, self.options.limit());
        let leased = self.store.lease_issuer(owner, self.lease_millis(), limit);
        held.issuer = leased.await?;
        let Some(issuer) = held.issuer else {
            return Err(self.no_free_issuer(&self.store.issuer_usage().await?));
        };
        tracing::info!(issuer, owner, "issuer leased");
        Ok(issuer)
    }

    /// Renews the lease; `None` if this instance has none, or has lost it.
    async fn renew(&self, held: &mut LeasedIssuer) -> Result<Option<u16>, StoreError> {
        let Some(issuer) = held.issuer else {
            return Ok(None);
        };
        let owner = &self.options.owner;
        let renewed = self.store.renew_issuer(issuer, owner, self.lease_millis());
        if !renewed.await? {
            tracing::warn!(issuer, owner, "lost an issuer lease");
            held.issuer = None;
        }
        Ok(held.issuer)
    }

    fn lease_millis(&self) -> u64 {
        u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Renews the lease, and measures the share of used numbers.
    async fn renew_and_measure(&self) -> Result<(), StoreError> {
        self.renew(&mut *self.held.lock().await).await?;
        let usage = self.store.issuer_usage().await?;
        let all = self.options.limit() * u64::from(ISSUERS);
        let share = (usage.drawn as f64 / all as f64).min(1.0);
        gauge!(ISSUER_USED).set(share);
        gauge!(ISSUERS_HELD).set(usage.held() as f64);
        if share >= WARN_FROM {
            tracing::warn!(
                used_ratio = share,
                "the numbers of this code length run out: configure a longer links.code_length"
            );
        }
        Ok(())
    }

    /// The error without a free issuer: all are leased, or the free ones are used up.
    fn no_free_issuer(&self, usage: &IssuerUsage) -> IssueError {
        if usage.held() < u64::from(ISSUERS) {
            let length = self.options.length.get();
            return IssueError::Exhausted { length };
        }
        IssueError::transient(NAME, all_held(usage))
    }
}

#[async_trait]
impl RangeSource for Segments {
    fn skipped_in(&self) -> u64 {
        self.store.skipped_in()
    }

    async fn draw(&self) -> Result<NumberRange, IssueError> {
        let mut held = self.held.lock().await;
        let drawn = self.draw_leased(&mut held).await;
        let outcome = if drawn.is_ok() { "ok" } else { "failed" };
        counter!(SEGMENTS_DRAWN, "outcome" => outcome).increment(1);
        if drawn.is_err() {
            held.step.shrink();
        } else if let Some(before) = held.last_draw.replace(Instant::now()) {
            held.step.lasted(before.elapsed());
        }
        gauge!(ISSUER_STEP).set(held.step.size());
        drawn.map(numbers_of)
    }

    async fn give_back(&self, rest: NumberRange) -> Result<bool, IssueError> {
        Ok(self.store.return_segment(segment_of(rest)).await?)
    }

    async fn maintain(&self) {
        let mut ticks = tokio::time::interval(self.options.lease / 3);
        // A paused process renews once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.renew_and_measure().await {
                tracing::warn!(%error, "renewing the issuer lease failed; retrying");
            }
        }
    }

    /// Ends the lease.
    async fn release(&self) {
        let Some(issuer) = self.held.lock().await.issuer.take() else {
            return;
        };
        let released = self.store.release_issuer(issuer, &self.options.owner);
        if let Err(error) = released.await {
            tracing::warn!(issuer, %error, "failed to release the issuer lease; it will expire");
        }
    }
}

fn numbers_of(segment: Segment) -> NumberRange {
    let stride = u64::from(ISSUERS);
    let number = |sequence| sequence * stride + u64::from(segment.issuer);
    NumberRange {
        start: number(segment.start),
        end: number(segment.end),
        stride,
    }
}

fn segment_of(numbers: NumberRange) -> Segment {
    Segment {
        issuer: (numbers.start % numbers.stride) as u16,
        start: numbers.start / numbers.stride,
        end: numbers.end / numbers.stride,
    }
}

/// The error when all issuers have reached the bound.
fn bound_reached() -> IssueError {
    let reason = "all issuers have come to the bound that the edges know; the publisher has to raise it, which takes a minute";
    IssueError::transient(NAME, reason)
}

fn all_held(usage: &IssuerUsage) -> String {
    let named: Vec<String> = usage
        .holders
        .iter()
        .take(HOLDERS_NAMED)
        .map(|holder| format!("{} ({})", holder.owner, holder.issuers))
        .collect();
    let others = match usage.holders.len().saturating_sub(HOLDERS_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let soonest = usage
        .holders
        .iter()
        .map(|holder| holder.ends_in_millis)
        .min();
    format!(
        "all {ISSUERS} issuers are leased, by {}{others}; the first of these leases ends in {} s unless it is renewed",
        named.join(", "),
        soonest.unwrap_or_default().div_ceil(1000)
    )
}

/// `host/process/random`, within 128 bytes.
fn unique_name() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(64).collect();
    let chance = getrandom::u32().unwrap_or_default();
    format!("{host}/{}/{chance:08x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_store::IssuerHolder;

    fn usage(holders: usize) -> IssuerUsage {
        let holder = |n: usize| IssuerHolder {
            owner: format!("host-{n}"),
            issuers: 100,
            ends_in_millis: 59_001 - n as u64 * 1000,
        };
        IssuerUsage {
            drawn: 0,
            holders: (0..holders).map(holder).collect(),
        }
    }

    #[test]
    fn segment_when_turned_into_numbers_and_back_is_equal() {
        let segment = Segment {
            issuer: 7,
            start: 5,
            end: 9,
        };
        let numbers = numbers_of(segment);
        assert_eq!((numbers.start, numbers.end), (5_007, 9_007));
        assert_eq!(segment_of(numbers), segment);
    }

    #[test]
    fn error_when_all_issuers_are_leased_names_holders_and_end() {
        assert_eq!(
            all_held(&usage(2)),
            "all 1000 issuers are leased, by host-0 (100), host-1 (100); the first of these leases ends in 59 s unless \
             it is renewed"
        );
        assert!(all_held(&usage(7)).contains("host-4 (100) and 2 more;"));
    }
}
