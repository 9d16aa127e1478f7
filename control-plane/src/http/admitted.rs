//! The permits of a request, which it puts down while it waits for its client.

use crate::admission::{Admission, Claim, Permit, Refusal};
use http::Extensions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The permits that a request holds, as an extension of it. Requests of this process to its own routes have none.
#[derive(Clone, Default)]
pub(crate) struct Admitted(Arc<Mutex<Vec<Held>>>);

struct Held {
    admission: Admission,
    claim: Claim,
    /// `None` while it is put down.
    permit: Option<Permit>,
}

impl Admitted {
    /// The permits of the request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Takes a further permit, for the parties for which the first one was taken, or for these.
    pub(crate) fn take(&self, admission: &Admission, claim: Claim) -> Result<(), Refusal> {
        let permit = admission.try_take(claim.clone())?;
        self.add(admission, claim, permit);
        Ok(())
    }

    /// Adds a permit that was waited for.
    pub(crate) fn add(&self, admission: &Admission, claim: Claim, permit: Permit) {
        self.held().push(Held {
            admission: admission.clone(),
            claim,
            permit: Some(permit),
        });
    }

    /// Counts the permits as those of a key of a tenant as well.
    pub(crate) fn identify(&self, tenant_id: u32, key_id: &str) -> Result<(), Refusal> {
        for held in self.held().iter_mut() {
            held.claim = held.claim.clone().by(tenant_id, key_id);
            if let Some(permit) = &held.permit {
                permit.identify(tenant_id, key_id)?;
            }
        }
        Ok(())
    }

    /// The parties for which the first permit was taken.
    pub(crate) fn claim(&self) -> Claim {
        let held = self.held();
        held.first()
            .map_or_else(Claim::default, |held| held.claim.clone())
    }

    /// Gives all permits back, while a client is waited for.
    pub(super) fn put_down(&self) {
        for held in self.held().iter_mut() {
            held.permit = None;
        }
    }

    /// Takes them again.
    pub(super) fn take_up(&self) -> Result<(), Refusal> {
        for held in self.held().iter_mut() {
            if held.permit.is_none() {
                held.permit = Some(held.admission.try_take(held.claim.clone())?);
            }
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
