//! Admission to everything of which there is only so much: requests, bodies that are on their way, answers that are being sent, passwords
//! that are hashed, questions, imports, polls, connections, calls of the database.
//!
//! It is the one type that bounds things, so that all of them keep the same rules:
//!
//! - Of one address, key or tenant there are no more permits than its share.
//! - Claims that wait are served in turns: first comes the one whose address, key and tenant hold least. A claim that cannot be served by
//!   its deadline is refused at once, and where too many wait, the last one of the party that holds most gives way.
//! - A permit that waits for its client (a body, an answer, an idle connection) gives way to others while it does: of the party that
//!   holds most the one whose client has paid least for its time.
//! - A permit ends with what it pays for, as a value that is dropped with it.

mod claim;
mod ledger;

pub(crate) use claim::{Bounds, Claim, Refusal};

use crate::telemetry::prometheus::ADMISSION_REFUSALS;
use ledger::{Ledger, Lines, Notice};
use metrics::counter;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Something that is bounded.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Shared>);

struct Shared {
    bounds: Bounds,
    ledger: Mutex<Ledger>,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admission({})", self.0.bounds.name)
    }
}

/// A right to do one thing of those that are bounded, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Admission,
    id: u64,
    /// Notes that the permit has given way; `None` if it never does.
    gone: Option<Notice>,
}

impl Admission {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let ledger = Mutex::new(Ledger::new(bounds, Instant::now()));
        Self(Arc::new(Shared { bounds, ledger }))
    }

    /// A permit, if there is one now.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn try_take(&self, claim: Claim) -> Result<Permit, Refusal> {
        self.try_take_bytes(claim, 0)
    }

    /// A permit by the deadline. A claim that is dropped waits no longer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn take(&self, claim: Claim, deadline: Instant) -> Result<Permit, Refusal> {
        self.wait(claim, None, deadline).await
    }

    /// The same of a permit that gives way, as by [`Admission::try_take_yielding`].
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn take_yielding(
        &self,
        claim: Claim,
        deadline: Instant,
    ) -> Result<Permit, Refusal> {
        self.wait(claim, Some(Notice::default()), deadline).await
    }

    async fn wait(
        &self,
        claim: Claim,
        gone: Option<Notice>,
        deadline: Instant,
    ) -> Result<Permit, Refusal> {
        let lines = self
            .0
            .ledger()
            .line_up(claim, gone.clone(), deadline, Instant::now());
        let (id, granted) = match lines {
            Ok(Lines::Taken(id)) => return self.permit(Ok(id), gone),
            Ok(Lines::Waits(id, granted)) => (id, granted),
            Err(refusal) => return self.permit(Err(refusal), None),
        };
        // It leaves the line, or gives the permit back, wherever this ends.
        let ticket = Permit {
            admission: self.clone(),
            id,
            gone,
        };
        match timeout_at(deadline, granted).await {
            Ok(Ok(())) => Ok(ticket),
            Ok(Err(_)) => self.permit(Err(Refusal::Full(self.0.bounds.name)), None),
            Err(_) => {
                self.0.ledger().note_refusal(Instant::now());
                self.permit(Err(Refusal::Late(self.0.bounds.name)), None)
            }
        }
    }

    /// A permit for something of so many bytes that waits for its client. It gives way to others until it is settled, as others do to
    /// it.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn try_take_yielding(&self, claim: Claim, bytes: usize) -> Result<Permit, Refusal> {
        let gone = Notice::default();
        let now = Instant::now();
        let taken = self.0.ledger().take(claim, bytes, Some(gone.clone()), now);
        self.permit(taken, Some(gone))
    }

    /// A permit for something of so many bytes that never gives way.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn try_take_bytes(&self, claim: Claim, bytes: usize) -> Result<Permit, Refusal> {
        let taken = self.0.ledger().take(claim, bytes, None, Instant::now());
        self.permit(taken, None)
    }

    /// For how long every claim has been refused while no permit came back; zero if the last one was admitted.
    pub(crate) fn stuck_for(&self) -> Duration {
        self.0.ledger().stuck_for(Instant::now())
    }

    fn permit(&self, taken: Result<u64, Refusal>, gone: Option<Notice>) -> Result<Permit, Refusal> {
        let admission = self.clone();
        match taken {
            Ok(id) => Ok(Permit {
                admission,
                id,
                gone,
            }),
            Err(refusal) => {
                let (bound, reason) = (self.0.bounds.name, refusal.reason());
                counter!(ADMISSION_REFUSALS, "bound" => bound, "reason" => reason).increment(1);
                Err(refusal)
            }
        }
    }
}

impl Permit {
    /// Counts the permit as one of a key of a tenant as well, whose request it turns out to be.
    ///
    /// # Errors
    /// A refusal if these have their share; then it stays as it was.
    pub(crate) fn identify(&self, tenant_id: u32, key_id: &str) -> Result<(), Refusal> {
        let by = |claim: Claim| claim.by(tenant_id, key_id);
        let identified = self.ledger().identify(self.id, by);
        let taken = identified.map(|()| self.id);
        match taken {
            Ok(_) => Ok(()),
            Err(refusal) => self.admission.permit(Err(refusal), None).map(drop),
        }
    }

    /// Adds bytes that have come: so much more is held, and paid. Where there is no room for them, a permit of the party that holds
    /// most gives way, if that is not this one.
    ///
    /// # Errors
    /// A refusal if it is this one.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        let grown = self.ledger().grow(self.id, bytes, Instant::now());
        match grown {
            Ok(()) => Ok(()),
            Err(refusal) => self.admission.permit(Err(refusal), None).map(drop),
        }
    }

    /// Notes that the client has paid so much of what it holds: bytes that it has sent, or taken.
    pub(crate) fn pay(&self, bytes: usize) {
        self.ledger().pay(self.id, bytes);
    }

    /// The permit gives way no longer: its client is not waited for. False if it has given way already.
    pub(crate) fn settle(&self) -> bool {
        self.ledger().settle(self.id)
    }

    /// The permit gives way from now on: its client is waited for.
    pub(crate) fn unsettle(&self) {
        self.ledger().unsettle(self.id, Instant::now());
    }

    /// Done when the permit has given way; never if it does not.
    pub(crate) fn given_way(&self) -> impl Future<Output = ()> + Send + use<> {
        let gone = self.gone.clone();
        async move {
            match gone {
                Some(gone) => gone.sent().await,
                None => std::future::pending().await,
            }
        }
    }

    /// The refusal of a permit that has given way.
    pub(crate) fn refusal(&self) -> Refusal {
        let bound = self.gone.as_ref().and_then(Notice::bound);
        Refusal::Full(bound.unwrap_or(self.admission.0.bounds.name))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.admission.0.ledger()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.ledger().leave(self.id, Instant::now());
    }
}

#[cfg(test)]
mod tests;
