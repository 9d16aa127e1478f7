//! The permits of a request, which it releases while it waits for its client.

use edgelink_settings::admission::{Admission, Claim, Permit, Refusal};
use http::Extensions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The permits that a request holds, as an extension of the request. Requests of this process to its own routes have none.
#[derive(Clone, Default)]
pub struct Admitted(Arc<Mutex<Vec<ClaimedPermit>>>);

struct ClaimedPermit {
    admission: Admission,
    claim: Claim,
    /// `None` while it is released.
    permit: Option<Permit>,
}

impl Admitted {
    /// The permits of the request with these extensions.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Takes a further permit for `claim`.
    pub fn take(&self, admission: &Admission, claim: Claim) -> Result<(), Refusal> {
        let permit = admission.try_take(claim.clone())?;
        self.add(admission, claim, permit);
        Ok(())
    }

    /// Adds a permit for which the request has waited.
    pub(crate) fn add(&self, admission: &Admission, claim: Claim, permit: Permit) {
        self.held().push(ClaimedPermit {
            admission: admission.clone(),
            claim,
            permit: Some(permit),
        });
    }

    /// Counts the permits for a key and its tenant as well.
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
    pub fn claim(&self) -> Claim {
        let held = self.held();
        held.first()
            .map_or_else(Claim::default, |held| held.claim.clone())
    }

    /// Releases all permits, for as long as the request waits for its client.
    pub(super) fn put_down(&self) {
        for held in self.held().iter_mut() {
            held.permit = None;
        }
    }

    /// Takes the permits again.
    pub(super) fn take_up(&self) -> Result<(), Refusal> {
        for held in self.held().iter_mut() {
            if held.permit.is_none() {
                held.permit = Some(held.admission.try_take(held.claim.clone())?);
            }
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Vec<ClaimedPermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
