//! Callouts to control planes, from the edge that orders them to the thread that sends them.

use edgelink_filter_core::control_plane::{Callout, Outgoing};
use edgelink_filter_core::flights::Token;
use edgelink_filter_core::settings::Settings;
use edgelink_wire::link_batch;
use std::sync::Arc;

/// A callout to be sent.
pub(crate) struct Order {
    /// The number by which the edge identifies it.
    pub(crate) token: Token,
    pub(crate) callout: Callout,
    /// The trace of a lookup, if it has one.
    pub(crate) trace: Option<Box<str>>,
    /// True if it must not be batched with others.
    pub(crate) is_alone: bool,
    pub(crate) settings: Arc<Settings>,
    pub(crate) edge_name: Option<Arc<str>>,
}

impl Order {
    /// The request.
    pub(crate) fn request(&self) -> Outgoing<'_> {
        let (trace, edge_name) = (self.trace.as_deref(), self.edge_name.as_deref());
        Outgoing::of(&self.settings, &self.callout, trace, edge_name)
    }

    /// The line of its key, if it may be batched with others. A request with a trace is sent alone.
    fn line(&self) -> Option<&str> {
        match &self.callout {
            Callout::Lookup(callout) if self.trace.is_none() && !self.is_alone => callout.line(),
            _ => None,
        }
    }

    /// True if both may be part of one request.
    fn may_share(&self, other: &Self) -> bool {
        self.line().is_some()
            && other.line().is_some()
            && Arc::ptr_eq(&self.settings, &other.settings)
    }
}

/// The lines of a batch of lookups, which are the body of its request.
pub(crate) fn lines(orders: &[Order]) -> String {
    let lines: Vec<_> = orders.iter().filter_map(Order::line).collect();
    lines.join("\n")
}

/// Groups orders that may share a request.
pub(crate) fn gather(orders: Vec<Order>) -> Vec<Vec<Order>> {
    let mut gathered: Vec<Vec<Order>> = Vec::with_capacity(orders.len());
    let mut open = None;
    for order in orders {
        let together = open.and_then(|at: usize| gathered.get_mut(at));
        let together = together.filter(|orders| {
            let first = orders.first();
            orders.len() < link_batch::MAX_KEYS && first.is_some_and(|it| it.may_share(&order))
        });
        match together {
            Some(orders) => orders.push(order),
            None => {
                open = order.line().map(|_| gathered.len()).or(open);
                gathered.push(vec![order]);
            }
        }
    }
    gathered
}
