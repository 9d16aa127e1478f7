//! The configurations of routes.
//!
//! Envoy gives a request the most specific one that stands under the name of the filter, whichever module has made it. In an Envoy
//! that is upgraded there may be two builds of this one, each with its own idea of what a configuration is. So one counts only if this
//! build has made it, which its address says.

use crate::abi::{self, Level};
use edgelink_filter_core::settings::{Route, Settings};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What Envoy has of the configuration of a route.
pub(crate) struct RouteConfig {
    id: u64,
    route: Route,
}

impl RouteConfig {
    pub(crate) fn new(route: Route) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            route,
        }
    }

    /// A number that no other one has or has had.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.route.disabled
    }

    /// What counts on the route, where those are the settings of the plugin.
    pub(crate) fn settings(&self, plugin: &Settings) -> Settings {
        self.route.settings(plugin)
    }
}

/// The addresses of those that have begun and not ended, in order.
static LIVING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// How often those have changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Those that this thread knows, and how often they had changed by then.
    static KNOWN: RefCell<(u64, Vec<usize>)> = const { RefCell::new((0, Vec::new())) };
}

fn living() -> MutexGuard<'static, Vec<usize>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One begins at that address.
pub(crate) fn begin(address: usize) {
    let mut living = living();
    if let Err(place) = living.binary_search(&address) {
        living.insert(place, address);
    }
    CHANGES.fetch_add(1, Ordering::Release);
}

/// It ends: another one may be at its address soon.
pub(crate) fn end(address: usize) {
    let mut living = living();
    if let Ok(place) = living.binary_search(&address) {
        living.remove(place);
    }
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Whether a route has ever had a configuration: without one, Envoy is not asked for it.
#[inline(always)]
pub(crate) fn were_there() -> bool {
    CHANGES.load(Ordering::Relaxed) > 0
}

/// Whether there is one of this build at that address.
///
/// Envoy hands a configuration to its threads after it has begun, and ends it when all have let go of it: a thread that is given
/// an address knows of all changes that concern it.
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
        let message = "edgelink: a route has a configuration of another module than its filter has; requests on it pass untouched";
        abi::log(Level::Error, message);
    }
}
