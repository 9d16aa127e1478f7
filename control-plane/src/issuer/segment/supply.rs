//! Segments from the store, out of an issuer that this instance has leased.

use super::SegmentOptions;
use super::step::Step;
use crate::clock;
use crate::issuer::IssueError;
use crate::store::{ISSUERS, IssuerUsage, Segment, Store, StoreError};
use crate::telemetry::prometheus::{ISSUER_STEP, SEGMENTS_DRAWN};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The source as it is configured.
pub(super) const NAME: &str = "segment";

/// How many holders an error names.
const HOLDERS_NAMED: usize = 5;

/// Draws segments.
pub(super) struct Supply {
    store: Arc<Store>,
    options: SegmentOptions,
    held: Mutex<Held>,
}

struct Held {
    issuer: Option<u16>,
    step: Step,
    last_draw: Option<Instant>,
}

impl Supply {
    pub(super) fn new(store: Arc<Store>, options: SegmentOptions) -> Self {
        let held = Held {
            issuer: None,
            step: Step::new(options.least_step, options.most_step),
            last_draw: None,
        };
        Self {
            store,
            options,
            held: Mutex::new(held),
        }
    }

    /// The generation with which numbers were skipped last, as far as this process knows.
    pub(super) fn skipped_in(&self) -> u64 {
        self.store.skipped_in()
    }

    /// Draws a segment that is not empty.
    pub(super) async fn draw(&self) -> Result<Segment, IssueError> {
        let mut held = self.held.lock().await;
        let drawn = self.draw_held(&mut held).await;
        let outcome = if drawn.is_ok() { "ok" } else { "failed" };
        counter!(SEGMENTS_DRAWN, "outcome" => outcome).increment(1);
        match &drawn {
            Ok(_) => {
                let before = held.last_draw.replace(Instant::now());
                if let Some(before) = before {
                    held.step.lasted(before.elapsed());
                }
            }
            Err(_) => held.step.failed(),
        }
        gauge!(ISSUER_STEP).set(held.step.size());
        drawn
    }

    async fn draw_held(&self, held: &mut Held) -> Result<Segment, IssueError> {
        let mut is_refused = false;
        // Each turn but the last two leaves an issuer behind that is used up, so there are not many more turns than issuers.
        loop {
            let issuer = self.leased(held).await?;
            match self.store.draw_segment(issuer, held.step.size()).await? {
                Some(segment) => {
                    let end = segment.end.min(self.options.limit());
                    if segment.start < end {
                        return Ok(Segment { end, ..segment });
                    }
                    tracing::info!(issuer, "an issuer is used up");
                }
                // The one that has drawn least has come to the bound as well.
                None if is_refused => return Err(at_the_bound()),
                None => {
                    tracing::info!(issuer, "an issuer has come to the bound");
                    is_refused = true;
                }
            }
            held.issuer = None;
            self.store
                .release_issuer(issuer, &self.options.owner)
                .await?;
        }
    }

    /// The issuer that this instance holds, or another one where the lease was lost.
    async fn leased(&self, held: &mut Held) -> Result<u16, IssueError> {
        if let Some(issuer) = held.issuer
            && self.renew(issuer).await?
        {
            return Ok(issuer);
        }
        held.issuer = None;
        let owner = &self.options.owner;
        let leased = self
            .store
            .lease_issuer(owner, self.lease_ms(), self.options.limit())
            .await?;
        let Some(issuer) = leased else {
            return Err(self.none_free(&self.store.issuer_usage().await?));
        };
        tracing::info!(issuer, owner, "an issuer was leased");
        held.issuer = Some(issuer);
        Ok(issuer)
    }

    async fn renew(&self, issuer: u16) -> Result<bool, StoreError> {
        let owner = &self.options.owner;
        let is_ours = self
            .store
            .renew_issuer(issuer, owner, self.lease_ms())
            .await?;
        if !is_ours {
            tracing::warn!(issuer, owner, "the lease of an issuer was lost");
        }
        Ok(is_ours)
    }

    /// Renews the lease, if there is one.
    pub(super) async fn keep_lease(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock().await;
        if let Some(issuer) = held.issuer
            && !self.renew(issuer).await?
        {
            held.issuer = None;
        }
        Ok(())
    }

    /// How the issuers are used, and the share of all numbers that is used up.
    pub(super) async fn usage(&self) -> Result<(IssuerUsage, f64), StoreError> {
        let usage = self.store.issuer_usage().await?;
        let all = self.options.limit() * u64::from(ISSUERS);
        let share = usage.drawn as f64 / all as f64;
        Ok((usage, share.min(1.0)))
    }

    /// Gives the unused rest of a segment back.
    pub(super) async fn give_back(&self, rest: Segment) {
        let Segment { issuer, start, end } = rest;
        match self.store.return_segment(rest).await {
            Ok(true) => tracing::debug!(issuer, start, end, "unused numbers were given back"),
            Ok(false) => tracing::info!(issuer, start, end, "unused numbers are skipped"),
            Err(error) => tracing::warn!(issuer, start, end, %error, "unused numbers are skipped"),
        }
    }

    /// Ends the lease.
    pub(super) async fn release(&self) {
        let Some(issuer) = self.held.lock().await.issuer.take() else {
            return;
        };
        let owner = &self.options.owner;
        if let Err(error) = self.store.release_issuer(issuer, owner).await {
            tracing::warn!(issuer, %error, "the issuer stays leased until its lease runs out");
        }
    }

    /// How long to wait after that many draws that failed.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        clock::pause_after(failures, self.options.backoff)
    }

    /// How often the lease is renewed.
    pub(super) fn heartbeat(&self) -> Duration {
        self.options.lease / 3
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Why there is no issuer: all are held, or those that are not held are used up.
    fn none_free(&self, usage: &IssuerUsage) -> IssueError {
        if usage.held() < u64::from(ISSUERS) {
            return IssueError::Exhausted {
                length: self.options.length.get(),
            };
        }
        IssueError::Source {
            name: NAME,
            reason: all_held(usage),
            transient: true,
        }
    }
}

/// Why no issuer has numbers now.
fn at_the_bound() -> IssueError {
    IssueError::Source {
        name: NAME,
        reason: "all issuers have come to the bound that the edges know; the relay has to raise it, which takes a minute"
            .to_owned(),
        transient: true,
    }
}

fn all_held(usage: &IssuerUsage) -> String {
    let named: Vec<String> = usage
        .holders
        .iter()
        .take(HOLDERS_NAMED)
        .map(|holder| format!("{} ({})", holder.owner, holder.issuers))
        .collect();
    let more = usage.holders.len().saturating_sub(HOLDERS_NAMED);
    let others = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let soonest = usage.holders.iter().map(|holder| holder.ends_in_ms).min();
    format!(
        "all {ISSUERS} issuers are leased, by {}{others}; the first of these leases ends in {} s unless it is renewed",
        named.join(", "),
        soonest.unwrap_or_default().div_ceil(1000)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::IssuerHolder;

    fn usage(holders: usize) -> IssuerUsage {
        let holder = |n: usize| IssuerHolder {
            owner: format!("host-{n}"),
            issuers: 100,
            ends_in_ms: 59_001 - n as u64 * 1000,
        };
        IssuerUsage {
            drawn: 0,
            holders: (0..holders).map(holder).collect(),
        }
    }

    #[test]
    fn the_error_names_some_who_hold_issuers_and_says_when_the_first_lease_ends() {
        assert_eq!(
            all_held(&usage(2)),
            "all 1000 issuers are leased, by host-0 (100), host-1 (100); the first of these leases ends in 59 s unless \
             it is renewed"
        );
        assert!(all_held(&usage(7)).contains("host-4 (100) and 2 more;"));
    }
}
