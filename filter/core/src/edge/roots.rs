//! The root contexts of the VM: one for each plugin configuration that the proxy has in use.
//!
//! There may be several at a time. While a listener with an older configuration drains, its root stays beside the new one, and
//! a configuration that is restored before its root has ended takes effect again without notice to the filter. So each
//! request uses the settings of the root that its stream belongs to. Singletons of a worker (caches, connections, clicks) use
//! the settings that were configured last, and belong to one root, the home, until that ends.

use super::Edge;
use crate::flights::StreamId;
use crate::host::{Log, Lookups, SharedData};
use crate::metrics::{CalloutOutcome, Metrics};
use crate::settings::Settings;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a root context, as the proxy gives it.
pub type RootId = u32;

/// The root contexts that have not ended.
#[derive(Debug, Default)]
pub(super) struct Roots {
    /// In the order in which they came.
    living: Vec<Root>,
    /// The root in which callouts are made and, at some hosts, connections are opened; the proxy ends them with it.
    home: Option<RootId>,
    /// The roots of streams that do not belong to the first root. A root outlives its streams.
    others: HashMap<StreamId, RootId>,
    /// Number of configurations of roots so far.
    configured: u64,
}

#[derive(Debug)]
struct Root {
    id: RootId,
    settings: Arc<Settings>,
    /// Sequence number among all configurations, the latest of which is in effect for the worker; `None` for a route.
    configured: Option<u64>,
}

impl Roots {
    /// The settings for a stream; `None` before the first root is configured.
    pub(super) fn settings_of(&self, stream: StreamId) -> Option<&Arc<Settings>> {
        let first = self.living.first()?;
        // With a single root, which is the usual case, not even a hash is needed.
        if self.others.is_empty() {
            return Some(&first.settings);
        }
        let root = self.others.get(&stream).and_then(|root| self.find(*root));
        Some(&root.unwrap_or(first).settings)
    }

    /// The settings of a root or route; `None` before the first root is configured.
    #[inline(always)]
    pub(super) fn settings(&self, id: RootId) -> Option<&Arc<Settings>> {
        let root = self.find(id).or_else(|| self.living.first())?;
        Some(&root.settings)
    }

    fn find(&self, id: RootId) -> Option<&Root> {
        self.living.iter().find(|root| root.id == id)
    }

    fn configure(&mut self, id: RootId, settings: Arc<Settings>) {
        self.configured += 1;
        self.put(id, settings, Some(self.configured));
        self.home.get_or_insert(id);
    }

    fn put(&mut self, id: RootId, settings: Arc<Settings>, configured: Option<u64>) {
        match self.living.iter_mut().find(|root| root.id == id) {
            Some(root) => (root.settings, root.configured) = (settings, configured),
            None => self.living.push(Root {
                id,
                settings,
                configured,
            }),
        }
    }

    fn latest(&self) -> Option<&Root> {
        let of_workers = self.living.iter().filter(|root| root.configured.is_some());
        of_workers.max_by_key(|root| root.configured)
    }

    /// A stream has begun. Returns `true` if its root is remembered.
    fn begin(&mut self, stream: StreamId, root: RootId) -> bool {
        let is_other = self.living.first().is_some_and(|first| first.id != root);
        if is_other {
            self.others.insert(stream, root);
        }
        is_other
    }

    /// A stream has ended.
    pub(super) fn leave(&mut self, stream: StreamId) {
        if !self.others.is_empty() {
            self.others.remove(&stream);
        }
    }

    #[cfg(test)]
    pub(super) fn others(&self) -> usize {
        self.others.len()
    }

    fn end(&mut self, id: RootId) {
        self.living.retain(|root| root.id != id);
        self.others.retain(|_, root| *root != id);
    }
}

impl Edge {
    /// A root context was configured, for the first time or again. Its settings apply to the worker from now on.
    pub fn on_root(
        &mut self,
        host: &mut (impl Lookups + SharedData + Log),
        root: RootId,
        settings: Arc<Settings>,
    ) {
        self.roots.configure(root, Arc::clone(&settings));
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.configure(host, settings);
        }
    }

    /// A route has settings of its own for its requests, whose streams begin as with a root ([`Edge::on_stream`]). They never apply
    /// to the worker, and end with [`Edge::on_route_end`].
    pub fn on_route(&mut self, route: RootId, settings: Arc<Settings>) {
        self.roots.put(route, settings, None);
    }

    /// The settings of a route are no longer needed.
    pub fn on_route_end(&mut self, route: RootId) {
        self.roots.end(route);
    }

    /// A root context has ended. The worker continues with the others; without others it ends.
    ///
    /// Must be called while the proxy still knows the root: its gRPC streams are cancelled in it.
    pub fn on_root_end(
        &mut self,
        host: &mut (impl Lookups + SharedData + Metrics + Log),
        root: RootId,
    ) {
        self.roots.end(root);
        let latest = self.roots.latest();
        let latest = latest.map(|latest| (latest.id, Arc::clone(&latest.settings)));
        let is_home = self.roots.home == Some(root);
        if is_home {
            self.roots.home = latest.as_ref().map(|(id, _)| *id);
        }
        let Some((_, settings)) = latest else {
            return self.on_end(host);
        };
        if is_home {
            self.leave_home(host);
        }
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.configure(host, settings);
        }
    }

    /// True if that context is a root that was configured and has not ended.
    #[must_use]
    pub fn is_root(&self, context: u32) -> bool {
        self.roots.find(context).is_some()
    }

    /// The root context in which callouts are made and gRPC streams are opened; `None` if there is none.
    #[must_use]
    pub fn home(&self) -> Option<RootId> {
        self.roots.home
    }

    /// A stream has begun. A stream that was not announced before its request belongs to the first root. Returns `true` if its end
    /// must be reported even if its request does not wait.
    pub fn on_stream(&mut self, stream: StreamId, root: RootId) -> bool {
        self.roots.begin(stream, root)
    }

    /// Applies the settings for a stream, which is the current one.
    #[inline(always)]
    pub(super) fn enter(&mut self, stream: StreamId) {
        self.address = None;
        let settings = self.roots.settings_of(stream).unwrap_or(&self.settings);
        if !Arc::ptr_eq(settings, &self.here) {
            self.here = Arc::clone(settings);
            self.caches.set_lifetimes(self.here.lifetimes);
        }
    }

    /// Where callouts and gRPC streams belong to a root, they have ended without a report from the proxy. With the next tick they are repeated from the new
    /// home: the feed continues from the same position, and waiters keep waiting.
    fn leave_home<H: SharedData + Lookups + Log>(&mut self, host: &mut H) {
        if !H::END_WITH_ROOT {
            return;
        }
        self.lose_connection(host);
        self.background.lose_background();
        self.forms.lose_tokens();
        self.lost.extend(self.visits.lose_tokens());
        let lost = self.flights.lose_tokens();
        for _ in &lost {
            self.count_callout(CalloutOutcome::Failed);
        }
        self.lost.extend(lost);
    }
}
