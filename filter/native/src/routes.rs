//! The addresses of the configurations of routes.
//!
//! Envoy gives a request the most specific configuration under the name of the filter, whichever module created it. During an
//! upgrade an Envoy may have two builds of this module, each with its own layout of a configuration. So a configuration counts only
//! if this build created it, which is recognized by its address.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The sorted addresses of configurations that have begun and not ended.
static LIVING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Version of [`LIVING`].
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's copy of [`LIVING`], and its version.
    static KNOWN: RefCell<(u64, Vec<usize>)> = const { RefCell::new((0, Vec::new())) };
}

fn living() -> MutexGuard<'static, Vec<usize>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A configuration begins at this address.
pub(crate) fn begin(address: usize) {
    let mut living = living();
    if let Err(place) = living.binary_search(&address) {
        living.insert(place, address);
    }
    CHANGES.fetch_add(1, Ordering::Release);
}

/// A configuration ends: its address may be reused soon.
pub(crate) fn end(address: usize) {
    let mut living = living();
    if let Ok(place) = living.binary_search(&address) {
        living.remove(place);
    }
    CHANGES.fetch_add(1, Ordering::Release);
}

/// True if a route has ever had a configuration: otherwise the call into Envoy is skipped.
#[inline(always)]
pub(crate) fn were_there() -> bool {
    CHANGES.load(Ordering::Relaxed) > 0
}

/// True if there is a configuration of this build at the address.
///
/// Envoy passes a configuration to its threads after it has begun, and ends it when all have released it: a thread that is given
/// an address sees all changes that concern it.
pub(crate) fn is_ours(address: usize) -> bool {
    let is_ours = KNOWN.with_borrow_mut(|(known, addresses)| {
        if *known != CHANGES.load(Ordering::Acquire) {
            let living = living();
            *known = CHANGES.load(Ordering::Relaxed);
            addresses.clone_from(&living);
        }
        addresses.binary_search(&address).is_ok()
    });
    if !is_ours {
        warn_of_another();
    }
    is_ours
}

#[cold]
fn warn_of_another() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        log::error!(
            "edgelink: a route has a configuration of another module than its filter has; requests on it pass untouched"
        );
    }
}
