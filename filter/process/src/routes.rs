//! The configurations of routes, which override settings of the module for their requests.

use edgelink_filter_core::settings::{Route, Settings};
use std::sync::atomic::{AtomicU64, Ordering};

/// The configuration of a route.
#[derive(Debug)]
pub struct RouteConfig {
    id: u64,
    route: Route,
}

impl RouteConfig {
    /// A configuration with an id that is never reused.
    #[must_use]
    pub fn new(route: Route) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            route,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.route.disabled
    }

    /// The effective settings on the route, given the settings of the plugin.
    pub(crate) fn settings(&self, plugin: &Settings) -> Settings {
        self.route.settings(plugin)
    }
}
