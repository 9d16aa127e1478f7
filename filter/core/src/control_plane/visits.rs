//! Visits of limited links: answers to requests for them, and returns.
//!
//! Blocks are returned in bulk and in several concurrent requests, so that a worker far from its control planes, or with many
//! limited links, reports what it has spent long before its leases expire. A control plane that does not know bulk requests
//! gets one for each link.

use super::callout::{CalloutError, Response, VISITS_PATH, path_of, status};
use super::{BackgroundCallout, BackgroundKind, PeriodicCallout, body_of};
use crate::flights::Token;
use crate::settings::Settings;
use crate::time::Moment;
use crate::visits::{Leases, Returning};
use edgelink_wire::backoff::Bounds;
use edgelink_wire::breaker::CircuitBreaker;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::visits::{
    MAX_RETURNS, RETURNS_MEDIA_TYPE, RETURNS_PATH, ReturnOutcome, VisitReturn, VisitReturns,
};
use edgelink_wire::{VisitsAnswer, VisitsRequest};

/// Status of the answer to a request that arrived after a later one.
const STALE: u16 = 409;

const BACKOFF: Bounds = Bounds {
    first_millis: 100,
    cap_millis: 5_000,
};

/// Maximum number of requests for returns in flight.
const LANES: usize = 4;

/// Period in which links are returned one by one after a control plane did not know bulk requests, in milliseconds.
const SINGLE_MILLIS: u64 = 60_000;

/// The number of links in a row whose timeouts open the circuit of requests for visits.
const TIMEOUTS_TO_OPEN: u32 = 8;

/// The blocks of a worker, and their return to the control plane.
#[derive(Debug)]
pub(crate) struct Visits {
    pub(crate) leases: Leases,
    /// The circuit breaker of requests for visits, which may be slow when lookups are not.
    pub(crate) breaker: CircuitBreaker,
    lanes: [Lane; LANES],
    single_until: Moment,
    /// Consecutive failures of requests for returns.
    failures: u32,
    worker: WorkerId,
    timeout_millis: u32,
    seed: u64,
}

/// One request for returns at a time.
#[derive(Debug)]
struct Lane {
    callout: PeriodicCallout,
    returning: Vec<Returning>,
    /// True if the request in flight is for one link.
    is_single: bool,
}

impl Lane {
    fn new(timeout_millis: u32, seed: u64) -> Self {
        Self {
            callout: PeriodicCallout::new(BACKOFF, timeout_millis, seed),
            returning: Vec::new(),
            is_single: false,
        }
    }

    /// True if the proxy has not taken its request yet.
    fn is_unsent(&self) -> bool {
        self.callout.is_unsent()
    }
}

/// All lanes, each with pauses of its own.
fn lanes(timeout_millis: u32, seed: u64) -> [Lane; LANES] {
    let mut seed = seed;
    [(); LANES].map(|()| {
        seed = seed.rotate_left(16) ^ 1;
        Lane::new(timeout_millis, seed)
    })
}

impl Visits {
    pub(crate) fn new(settings: &Settings, leases: Leases, worker: WorkerId, seed: u64) -> Self {
        let timeout_millis = settings.control_plane.timeout_millis;
        Self {
            leases,
            breaker: CircuitBreaker::new(TIMEOUTS_TO_OPEN),
            lanes: lanes(timeout_millis, seed),
            single_until: Moment::default(),
            failures: 0,
            worker,
            timeout_millis,
            seed,
        }
    }

    /// Changes the settings, and keeps the blocks.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.leases.set_max_links(settings.max_limited_links);
        let timeout_millis = settings.control_plane.timeout_millis;
        if timeout_millis != self.timeout_millis {
            self.lose();
            self.timeout_millis = timeout_millis;
            self.lanes = lanes(timeout_millis, self.seed);
        }
    }

    /// Returns the next blocks, if there are any and a lane is due.
    pub(crate) fn ask(&mut self, now: Moment) -> Option<BackgroundCallout> {
        let is_single = now < self.single_until;
        let most = if is_single { 1 } else { MAX_RETURNS };
        let mut lanes = self.lanes.iter_mut();
        let lane = lanes.find(|lane| lane.callout.is_due(now.millis()))?;
        let returning = self.leases.next_returns(most, now);
        let first = returning.first()?;
        let (path, media_type, body) = if is_single {
            (
                path_of(VISITS_PATH, &first.key),
                VisitsRequest::MEDIA_TYPE,
                first.request.to_bytes(),
            )
        } else {
            (
                RETURNS_PATH.to_owned(),
                RETURNS_MEDIA_TYPE,
                encode(self.worker, &returning),
            )
        };
        lane.callout.ask(now.millis());
        lane.is_single = is_single;
        lane.returning = returning;
        Some(BackgroundCallout {
            kind: BackgroundKind::Visits,
            method: "POST",
            path,
            accept: media_type,
            content_type: Some(media_type),
            sent_at: None,
            health: None,
            worker: None,
            poller: None,
            body,
            timeout_millis: self.timeout_millis,
        })
    }

    /// True if this is the token of a callout in flight.
    pub(crate) fn carries(&self, token: Token) -> bool {
        self.lanes.iter().any(|lane| lane.callout.carries(token))
    }

    /// The proxy has taken the first untaken request.
    pub(crate) fn on_sent(&mut self, token: Token) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.is_unsent()) {
            lane.callout.on_sent(token);
        }
    }

    /// The proxy has refused the first untaken request. Returns the number of consecutive failures.
    pub(crate) fn on_refused(&mut self, now: Moment) -> u32 {
        let place = self.lanes.iter().position(Lane::is_unsent);
        place.map_or(self.failures, |place| self.fail(place, now))
    }

    /// Gives up requests that the proxy has forgotten. Returns the number of consecutive failures at each.
    pub(crate) fn give_up(&mut self, now: Moment) -> Vec<u32> {
        let is_overdue = |place: &usize| {
            let lane = self.lanes.get(*place);
            lane.is_some_and(|lane| lane.callout.is_overdue(now.millis()))
        };
        let overdue: Vec<usize> = (0..LANES).filter(is_overdue).collect();
        let failures = overdue.into_iter().map(|place| self.fail(place, now));
        failures.collect()
    }

    /// The request of that token has failed. Returns the number of consecutive failures.
    pub(crate) fn on_failure(&mut self, token: Token, now: Moment) -> u32 {
        match self.place_of(token) {
            Some(place) => self.fail(place, now),
            None => self.failures,
        }
    }

    /// All requests have ended with the root context that sent them.
    pub(crate) fn lose(&mut self) {
        for lane in &mut self.lanes {
            lane.callout.lose();
            for returning in lane.returning.drain(..) {
                self.leases.on_return_failed(&returning);
            }
        }
    }

    /// Reads the answer to returns. Returns the number of consecutive failures before it.
    pub(crate) fn on_answer(
        &mut self,
        token: Token,
        response: Response<'_>,
        now: Moment,
    ) -> Result<u32, CalloutError> {
        let place = self.place_of(token).ok_or(CalloutError::Reset)?;
        let lane = self.lanes.get_mut(place).ok_or(CalloutError::Reset)?;
        let outcomes = if lane.is_single {
            read_single(response)?
        } else {
            match read_several(response, lane.returning.len()) {
                Err(CalloutError::Answer(404 | 405 | 501)) => {
                    self.single_until = now.after(SINGLE_MILLIS);
                    vec![None; lane.returning.len()]
                }
                outcomes => outcomes?,
            }
        };
        lane.callout.succeed(now.millis());
        for (returning, outcome) in lane.returning.drain(..).zip(outcomes) {
            match outcome {
                Some(outcome) => self.leases.on_returned(&returning, outcome, now),
                None => self.leases.on_return_failed(&returning),
            }
        }
        Ok(std::mem::take(&mut self.failures))
    }

    fn place_of(&self, token: Token) -> Option<usize> {
        let mut lanes = self.lanes.iter();
        lanes.position(|lane| lane.callout.carries(token))
    }

    fn fail(&mut self, place: usize, now: Moment) -> u32 {
        if let Some(lane) = self.lanes.get_mut(place) {
            lane.callout.fail(now.millis());
            for returning in lane.returning.drain(..) {
                self.leases.on_return_failed(&returning);
            }
        }
        self.failures = self.failures.saturating_add(1);
        self.failures
    }
}

fn encode(worker: WorkerId, returning: &[Returning]) -> Vec<u8> {
    let returns = returning.iter().map(|returning| VisitReturn {
        key: &returning.key,
        number: returning.request.number,
        settled: returning.request.settled,
    });
    VisitReturns {
        worker,
        returns: returns.collect(),
    }
    .to_bytes()
}

/// Reads the outcome of the return of one link.
fn read_single(response: Response<'_>) -> Result<Vec<Option<ReturnOutcome>>, CalloutError> {
    match status(response)? {
        200..300 | STALE => Ok(vec![Some(ReturnOutcome::Settled)]),
        status => Err(CalloutError::Answer(status)),
    }
}

/// Reads the outcomes of a bulk return.
fn read_several(
    response: Response<'_>,
    returns: usize,
) -> Result<Vec<Option<ReturnOutcome>>, CalloutError> {
    let body = body_of(response, RETURNS_MEDIA_TYPE)?;
    let outcomes = ReturnOutcome::decode(body, returns);
    let outcomes = outcomes.map_err(|_| CalloutError::Answer(200))?;
    Ok(outcomes.into_iter().map(Some).collect())
}

/// Reads the answer to a request for a block.
pub(crate) fn read(response: Response<'_>) -> Result<VisitsAnswer, CalloutError> {
    let body = body_of(response, VisitsAnswer::MEDIA_TYPE)?;
    VisitsAnswer::decode(body).map_err(|_| CalloutError::Answer(200))
}

/// True if the request arrived after a later one.
pub(crate) fn is_stale(error: CalloutError) -> bool {
    error == CalloutError::Answer(STALE)
}
