//! Visits of links that have a limit: answers to requests for them, and returns.

use super::callout::{CalloutError, Response, VISITS_PATH, path_of, status};
use super::{BackgroundCallout, BackgroundKind, PeriodicCallout, body_of};
use crate::settings::Settings;
use crate::time::Moment;
use crate::visits::Leases;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::{VisitsAnswer, VisitsRequest};

/// The status of the answer to a request that came after a later one.
const STALE: u16 = 409;

const BACKOFF: Bounds = Bounds {
    first_millis: 100,
    cap_millis: 5_000,
};

/// The blocks of a worker, and their return to the control plane.
#[derive(Debug)]
pub(crate) struct Visits {
    pub(crate) callout: PeriodicCallout,
    pub(crate) leases: Leases,
    timeout_millis: u32,
    seed: u64,
}

impl Visits {
    pub(crate) fn new(settings: &Settings, leases: Leases, seed: u64) -> Self {
        let timeout_millis = settings.control_plane.timeout_millis;
        Self {
            callout: PeriodicCallout::new(BACKOFF, timeout_millis, seed),
            leases,
            timeout_millis,
            seed,
        }
    }

    /// Changes the settings, and keeps the blocks.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.leases.set_max_links(settings.max_limited_links);
        let timeout_millis = settings.control_plane.timeout_millis;
        if timeout_millis != self.timeout_millis {
            self.timeout_millis = timeout_millis;
            self.callout = PeriodicCallout::new(BACKOFF, timeout_millis, self.seed);
        }
    }

    /// Returns the next block, if there is one and it is time to.
    pub(crate) fn ask(&mut self, now: Moment) -> Option<BackgroundCallout> {
        if !self.callout.is_due(now.millis()) {
            return None;
        }
        let (key, request) = self.leases.next_return(now)?;
        self.callout.ask(now.millis());
        Some(BackgroundCallout {
            kind: BackgroundKind::Visits,
            method: "POST",
            path: path_of(VISITS_PATH, &key),
            accept: VisitsAnswer::MEDIA_TYPE,
            content_type: Some(VisitsRequest::MEDIA_TYPE),
            health: None,
            body: request.to_bytes(),
            timeout_millis: self.timeout_millis,
        })
    }

    /// Reads the answer to a return. How many attempts had failed in a row before it.
    pub(crate) fn on_answer(
        &mut self,
        response: Response<'_>,
        now: Moment,
    ) -> Result<u32, CalloutError> {
        match status(response)? {
            200..300 | STALE => {
                self.leases.on_returned();
                Ok(self.callout.succeed(now.millis()))
            }
            status => Err(CalloutError::Answer(status)),
        }
    }
}

/// Reads the answer to a request for a block.
pub(crate) fn read(response: Response<'_>) -> Result<VisitsAnswer, CalloutError> {
    let body = body_of(response, VisitsAnswer::MEDIA_TYPE)?;
    VisitsAnswer::decode(body).map_err(|_| CalloutError::Answer(200))
}

/// Whether the request came after a later one.
pub(crate) fn is_stale(error: CalloutError) -> bool {
    error == CalloutError::Answer(STALE)
}
