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

/// Milliseconds between two batches while no requests come, or those of the settings if they are fewer.
const QUIET_MILLIS: u64 = 250;

/// Milliseconds between two reports without clicks that ask for a secret of visitor tokens, while there is none.
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
    /// The losses, and all clicks so far, as the metrics have them.
    known: [u64; 4],
}

/// When the health of the worker is said next.
#[derive(Clone, Copy, Debug)]
enum HealthReport {
    /// The worker has reported nothing yet.
    Unknown,
    /// With a report from then on, by the steady clock.
    DueAt { millis: u64 },
    /// With the report under way.
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

    /// Whether it is time to close a batch; `is_quiet` says that no request came since the last tick. A proxy that is to end gets
    /// no more of them, and does not say when it ends.
    pub(crate) fn is_flush_due(&self, now: Moment, is_quiet: bool) -> bool {
        let early = self.settings.flush_millis.saturating_sub(QUIET_MILLIS);
        let early = if is_quiet { early } else { 0 };
        now.millis() >= self.next_flush_millis.saturating_sub(early)
    }

    /// Closes batches over what was counted, at `seconds` of unix time.
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

    /// Sends what waits, if anything does and it is time to. With `keys`, it asks for secrets of visitor tokens as well, and
    /// for them alone if there is none for `seconds` of unix time. It says how the worker is doing, where [that is due](Self::is_health_due).
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
                // After a step of the clock there may be the next day's, and not this one's.
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
            body,
            timeout_millis: self.settings.timeout_millis,
        })
    }

    /// Whether it is time to say how the worker is doing, or a report that said it has failed.
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

    /// Reads the answer. How many attempts had failed in a row before it, and the secrets of visitor tokens in it.
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
            // The control plane cannot read them, and will not be able to the next time either.
            status @ (400 | 413 | 415 | 422) => {
                self.batches.reject();
                self.update_metrics(counts);
                Err(CalloutError::Answer(status))
            }
            status => Err(CalloutError::Answer(status)),
        }
    }

    /// The worker ends, or reports no clicks any more: what waits is dropped.
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

/// The secrets in an answer; none if it has others, or what cannot be read.
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
