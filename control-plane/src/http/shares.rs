//! Shares of what is bounded in all, for each tenant, and for each key.

use super::auth::Caller;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Those who have a part of something that is bounded, with how many parts they have.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Mutex<HashMap<String, usize>>>);

/// A part, until it is dropped.
pub(crate) struct Share {
    names: [String; 3],
    of: Shares,
}

impl Shares {
    /// A part for the caller, of which there are so many in all, for its tenant, and for its key.
    pub(crate) fn take(&self, caller: &Caller, most: [usize; 3]) -> Option<Share> {
        let names = [
            String::new(),
            format!("tenant {}", caller.tenant_id()),
            format!("key {}", caller.id()),
        ];
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room =
            |(name, most): (&String, usize)| taken.get(name).copied().unwrap_or_default() < most;
        if !names.iter().zip(most).all(has_room) {
            return None;
        }
        for name in &names {
            *taken.entry(name.clone()).or_default() += 1;
        }
        drop(taken);
        let of = self.clone();
        Some(Share { names, of })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &self.names {
            if let Some(count) = taken.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(name);
                }
            }
        }
    }
}
