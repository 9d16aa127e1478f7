//! Fetches the snapshot that a worker starts from.

use super::{BackgroundCallout, BackgroundKind, PeriodicCallout};
use crate::settings;
use crate::time::Moment;
use edgelink_wire::Snapshot;
use edgelink_wire::backoff::Bounds;

const PATH: &str = "/edge/v1/snapshot";

/// Milliseconds before the first attempt and after the first failure. Workers begin together, so each waits for a random
/// time below that.
const FIRST_PAUSE_MILLIS: u64 = 200;

/// Schedule of snapshot requests.
#[derive(Debug)]
pub(crate) struct SnapshotTimer {
    pub(crate) callout: PeriodicCallout,
    settings: settings::SnapshotSection,
    need: Need,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// One is needed, and its first pause has not begun.
    New,
    Known,
    Met,
}

impl SnapshotTimer {
    pub(crate) fn new(settings: settings::SnapshotSection, seed: u64) -> Self {
        let bounds = Bounds {
            first_millis: FIRST_PAUSE_MILLIS,
            cap_millis: settings.max_backoff_millis,
        };
        Self {
            callout: PeriodicCallout::new(bounds, settings.timeout_millis, seed),
            settings,
            need: Need::New,
        }
    }

    /// Maximum length of a body that is read, in bytes.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.settings.max_bytes
    }

    /// A newer one is needed.
    pub(crate) fn renew(&mut self) {
        if self.need == Need::Met {
            self.need = Need::New;
        }
    }

    /// The fetched snapshot could not be applied: another one is fetched after a pause.
    pub(crate) fn retry(&mut self, now: Moment) {
        self.need = Need::Known;
        self.callout.rest(now.millis());
    }

    /// Requests a snapshot, if one is needed and due.
    pub(crate) fn ask(&mut self, now: Moment) -> Option<BackgroundCallout> {
        if self.need == Need::New {
            self.need = Need::Known;
            self.callout.rest(now.millis());
        }
        if self.need == Need::Met || !self.callout.is_due(now.millis()) {
            return None;
        }
        self.callout.ask(now.millis());
        Some(BackgroundCallout {
            kind: BackgroundKind::Snapshot,
            method: "GET",
            path: PATH.to_owned(),
            accept: Snapshot::MEDIA_TYPE,
            content_type: None,
            sent_at: None,
            health: None,
            worker: None,
            poller: None,
            body: Vec::new(),
            timeout_millis: self.settings.timeout_millis,
        })
    }

    /// A snapshot was fetched. Returns the number of consecutive failures before it.
    pub(crate) fn meet(&mut self, now: Moment) -> u32 {
        self.need = Need::Met;
        self.callout.succeed(now.millis())
    }
}
