//! Reports clicks.

use super::batches::{BatchBounds, Batches};
use super::{BackgroundCallout, BackgroundKind, PeriodicCallout, body_of};
use crate::clicks::Counted;
use crate::control_plane::callout::{CalloutError, Response, status};
use crate::metrics::{ClickOutcome, Counts, Metric};
use crate::settings;
use crate::time::Moment;
use edgelink_wire::backoff;
use edgelink_wire::clicks::{self, MEDIA_TYPE, VisitorKeys, WorkerId};
use edgelink_wire::health::{INTERVAL_MILLIS, WorkerHealth};

const FIRST_PAUSE_MILLIS: u64 = 100;

/// Milliseconds between two batches while no requests come, unless the settings have fewer.
const QUIET_MILLIS: u64 = 250;

/// Milliseconds between reports without clicks that request a missing secret of visitor tokens.
const KEY_PAUSE_MILLIS: u64 = 5_000;

/// Reports the batches of a worker to the control plane.
#[derive(Debug)]
pub(crate) struct ClickReports {
    pub(crate) callout: PeriodicCallout,
    settings: settings::ClicksSection,
    batches: Batches,
    next_flush_millis: u64,
    next_key_millis: u64,
    health: HealthReport,
    /// Losses and clicks already added to the metrics.
    known: [u64; 4],
}

/// State of the worker's health reports.
#[derive(Clone, Copy, Debug)]
enum HealthReport {
    /// The worker has reported nothing yet.
    Unknown,
    /// Due with the next report from then on, by the steady clock.
    DueAt { millis: u64 },
    /// Part of the report in flight.
    Sent,
}

impl ClickReports {
    pub(crate) fn new(settings: settings::ClicksSection, worker: WorkerId, seed: u64) -> Self {
        Self {
            callout: callout(&settings, seed),
            batches: Batches::new(worker, bounds(&settings)),
            settings,
            next_flush_millis: 0,
            next_key_millis: 0,
            health: HealthReport::Unknown,
            known: [0; 4],
        }
    }

    /// Changes the settings, and keeps the batches.
    pub(crate) fn configure(&mut self, settings: settings::ClicksSection, seed: u64) {
        if settings == self.settings {
            return;
        }
        self.callout = callout(&settings, seed);
        self.batches.set_bounds(bounds(&settings));
        self.settings = settings;
    }

    /// True if it is time to close a batch. `is_quiet` means that no request has come since the last tick: a proxy that is about to
    /// stop gets no more requests, and does not announce its end.
    pub(crate) fn is_flush_due(&self, now: Moment, is_quiet: bool) -> bool {
        let early = self.settings.flush_millis.saturating_sub(QUIET_MILLIS);
        let early = if is_quiet { early } else { 0 };
        now.millis() >= self.next_flush_millis.saturating_sub(early)
    }

    /// Closes batches with everything counted, at `seconds` of unix time.
    pub(crate) fn flush(
        &mut self,
        counted: Counted,
        now: Moment,
        seconds: u64,
        counts: &mut Counts,
    ) {
        self.next_flush_millis = now.millis().saturating_add(self.settings.flush_millis);
        self.batches.close(counted, seconds);
        self.update_metrics(counts);
    }

    /// Sends waiting batches, if there are any and a report is due. With `keys`, it also requests secrets of visitor tokens, and
    /// sends a request for them alone if there is none for `seconds` of unix time. `health` is given if
    /// [it is due](Self::is_health_due).
    pub(crate) fn ask(
        &mut self,
        (now, seconds): (Moment, u64),
        keys: Option<&VisitorKeys>,
        health: Option<WorkerHealth>,
    ) -> Option<BackgroundCallout> {
        if !self.callout.is_due(now.millis()) {
            return None;
        }
        let lacks_key = keys.is_some_and(|keys| keys.at(seconds).is_none());
        let asks_for_key = lacks_key && now.millis() >= self.next_key_millis;
        let body = match self.batches.request() {
            Some(body) => body,
            None if asks_for_key || health.is_some() => clicks::encode(&[]),
            None => return None,
        };
        if asks_for_key {
            self.next_key_millis = now.millis().saturating_add(KEY_PAUSE_MILLIS);
        }
        if health.is_some() {
            self.health = HealthReport::Sent;
        }
        self.callout.ask(now.millis());
        let path = "/edge/v1/clicks";
        let (path, accept) = match keys {
            Some(keys) => {
                // After a step of the clock, the next day's secret may be known, but not today's.
                let until = if lacks_key { 0 } else { keys.until() };
                (
                    format!("{path}?visitorKeys={until}"),
                    VisitorKeys::MEDIA_TYPE,
                )
            }
            None => (path.to_owned(), "*/*"),
        };
        Some(BackgroundCallout {
            kind: BackgroundKind::Clicks,
            method: "POST",
            path,
            accept,
            content_type: Some(MEDIA_TYPE),
            sent_at: Some(seconds.to_string()),
            health: health.map(|health| health.to_header()),
            worker: None,
            poller: None,
            body,
            timeout_millis: self.settings.timeout_millis,
        })
    }

    /// True if the health of the worker is due, or the report that carried it has failed.
    pub(crate) fn is_health_due(&mut self, now: Moment) -> bool {
        if !self.callout.is_due(now.millis()) {
            return false;
        }
        match self.health {
            HealthReport::Unknown => {
                self.health = HealthReport::due_after(now);
                false
            }
            HealthReport::DueAt { millis } => now.millis() >= millis,
            HealthReport::Sent => true,
        }
    }

    /// Reads the answer. Returns the number of consecutive failures before it, and its secrets of visitor tokens.
    pub(crate) fn on_answer(
        &mut self,
        response: Response<'_>,
        now: Moment,
        counts: &mut Counts,
    ) -> Result<(u32, VisitorKeys), CalloutError> {
        match status(response)? {
            200..300 => {
                let clicks = self.batches.acknowledge();
                count(counts, ClickOutcome::Acknowledged, clicks);
                if matches!(self.health, HealthReport::Sent) {
                    self.health = HealthReport::due_after(now);
                }
                Ok((self.callout.succeed(now.millis()), keys(response)))
            }
            // The control plane cannot read the batches, so a retry would be rejected too.
            status @ (400 | 413 | 415 | 422) => {
                self.batches.reject();
                self.update_metrics(counts);
                Err(CalloutError::Answer(status))
            }
            status => Err(CalloutError::Answer(status)),
        }
    }

    /// Drops all batches, because the worker ends or no longer reports clicks.
    pub(crate) fn end(&mut self, counted: Counted, now: Moment, seconds: u64, counts: &mut Counts) {
        self.flush(counted, now, seconds, counts);
        self.batches.drop_all();
        self.update_metrics(counts);
    }

    fn update_metrics(&mut self, counts: &mut Counts) {
        let batches = &self.batches;
        let now = [
            (ClickOutcome::Sent, batches.total()),
            (ClickOutcome::Dropped, batches.dropped()),
            (ClickOutcome::Undescribed, batches.undescribed()),
            (ClickOutcome::OrphansDropped, batches.dropped_orphans()),
        ];
        for ((outcome, now), known) in now.into_iter().zip(&mut self.known) {
            count(counts, outcome, now.saturating_sub(*known));
            *known = now;
        }
    }
}

impl HealthReport {
    fn due_after(now: Moment) -> Self {
        let millis = now.millis().saturating_add(INTERVAL_MILLIS);
        Self::DueAt { millis }
    }
}

/// The secrets in an answer; none if it has another type or cannot be read.
fn keys(response: Response<'_>) -> VisitorKeys {
    let body = body_of(response, VisitorKeys::MEDIA_TYPE).ok();
    let keys = body.and_then(|body| VisitorKeys::decode(body).ok());
    keys.unwrap_or_default()
}

fn count(counts: &mut Counts, outcome: ClickOutcome, clicks: u64) {
    let clicks = u32::try_from(clicks).unwrap_or(u32::MAX);
    counts.count_more(Metric::Clicks(outcome), clicks);
}

fn bounds(settings: &settings::ClicksSection) -> BatchBounds {
    BatchBounds {
        batches: settings.max_unsent,
        bytes: settings.max_unsent_bytes,
    }
}

fn callout(settings: &settings::ClicksSection, seed: u64) -> PeriodicCallout {
    let bounds = backoff::Bounds {
        first_millis: FIRST_PAUSE_MILLIS,
        cap_millis: settings.max_backoff_millis,
    };
    PeriodicCallout::new(bounds, settings.timeout_millis, seed)
}
