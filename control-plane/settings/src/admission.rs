//! Admission to every bounded resource: requests, bodies in transit, responses being sent, password hashes, queries, imports, polls,
//! connections, database calls.
//!
//! This one type bounds all of them, so that they keep the same rules:
//!
//! - One address, key or tenant holds no more permits than its share.
//! - Claims that wait are served in turns: first comes the one whose address, key and tenant hold least. A claim that cannot be served by
//!   its deadline is refused at once, and where too many wait, the last one of the party that holds most gives way.
//! - A permit that waits for its client (a body, an answer, an idle connection) gives way to others while it does: of the party that
//!   holds most the one whose client has paid least for its time.
//! - A permit ends with what it pays for, as a value that is dropped with it.

mod claim;
mod ledger;

pub use claim::{Bounds, Claim, Refusal};

use crate::telemetry::prometheus::ADMISSION_REFUSALS;
use ledger::{Lines, Notice, PermitLedger};
use metrics::counter;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A bounded resource, from which claims take permits.
#[derive(Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    bounds: Bounds,
    ledger: Mutex<PermitLedger>,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, PermitLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admission({})", self.0.bounds.name)
    }
}

/// The right to do one of a bounded number of things at once; it is returned on drop.
#[derive(Debug)]
pub struct Permit {
    admission: Admission,
    id: u64,
    /// Notes that the permit has given way; `None` if it never does.
    gone: Option<Notice>,
}

impl Admission {
    /// Creates a resource with all permits free.
    pub fn new(bounds: Bounds) -> Self {
        let ledger = Mutex::new(PermitLedger::new(bounds, Instant::now()));
        Self(Arc::new(Shared { bounds, ledger }))
    }

    /// A permit, if there is one now.
    ///
    /// # Errors
    /// The [`Refusal`] if no permit is free.
    pub fn try_take(&self, claim: Claim) -> Result<Permit, Refusal> {
        self.try_take_bytes(claim, 0)
    }

    /// A permit by the deadline. A claim that is dropped waits no longer.
    ///
    /// # Errors
    /// The [`Refusal`] if there is no permit by the deadline.
    pub async fn take(&self, claim: Claim, deadline: Instant) -> Result<Permit, Refusal> {
        self.wait(claim, None, deadline).await
    }

    /// Waits for a permit that gives way, see [`Admission::try_take_yielding`].
    ///
    /// # Errors
    /// The [`Refusal`] if there is no permit by the deadline.
    pub async fn take_yielding(&self, claim: Claim, deadline: Instant) -> Result<Permit, Refusal> {
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
        // Leaves the line, or returns the permit, however this ends.
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
    /// The [`Refusal`] if no permit is free.
    pub fn try_take_yielding(&self, claim: Claim, bytes: usize) -> Result<Permit, Refusal> {
        let gone = Notice::default();
        let now = Instant::now();
        let taken = self.0.ledger().take(claim, bytes, Some(gone.clone()), now);
        self.permit(taken, Some(gone))
    }

    /// A permit for something of so many bytes that never gives way.
    ///
    /// # Errors
    /// The [`Refusal`] if no permit is free.
    pub fn try_take_bytes(&self, claim: Claim, bytes: usize) -> Result<Permit, Refusal> {
        let taken = self.0.ledger().take(claim, bytes, None, Instant::now());
        self.permit(taken, None)
    }

    /// Time during which every claim was refused and no permit came back; zero if the last claim was admitted.
    pub fn stuck_for(&self) -> Duration {
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
    /// Counts the permit against a tenant's key as well, once the request has been authenticated.
    ///
    /// # Errors
    /// A refusal if key or tenant has its share already; the permit is left unchanged.
    pub fn identify(&self, tenant_id: u32, key_id: &str) -> Result<(), Refusal> {
        let by = |claim: Claim| claim.by(tenant_id, key_id);
        let identified = self.ledger().identify(self.id, by);
        let taken = identified.map(|()| self.id);
        match taken {
            Ok(_) => Ok(()),
            Err(refusal) => self.admission.permit(Err(refusal), None).map(drop),
        }
    }

    /// Adds received bytes to those held and paid. If there is no room for them, a permit of the party that holds most gives way.
    ///
    /// # Errors
    /// A refusal if that permit is this one.
    pub fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        let grown = self.ledger().grow(self.id, bytes, Instant::now());
        match grown {
            Ok(()) => Ok(()),
            Err(refusal) => self.admission.permit(Err(refusal), None).map(drop),
        }
    }

    /// Notes that the client has paid by sending or receiving this many bytes.
    pub fn pay(&self, bytes: usize) {
        self.ledger().pay(self.id, bytes);
    }

    /// Stops the permit from giving way, because its client is no longer waited for. False if it has given way already.
    pub fn settle(&self) -> bool {
        self.ledger().settle(self.id)
    }

    /// Lets the permit give way from now on, because its client is waited for.
    pub fn unsettle(&self) {
        self.ledger().unsettle(self.id, Instant::now());
    }

    /// Completes when the permit has given way, and otherwise never.
    pub fn given_way(&self) -> impl Future<Output = ()> + Send + use<> {
        let gone = self.gone.clone();
        async move {
            match gone {
                Some(gone) => gone.sent().await,
                None => std::future::pending().await,
            }
        }
    }

    /// The refusal of a permit that has given way.
    pub fn refusal(&self) -> Refusal {
        let bound = self.gone.as_ref().and_then(Notice::bound);
        Refusal::Full(bound.unwrap_or(self.admission.0.bounds.name))
    }

    fn ledger(&self) -> MutexGuard<'_, PermitLedger> {
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
