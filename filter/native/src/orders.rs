//! Callouts to the control plane, from the edge that orders them to the main thread that sends them, and back.

use crate::abi::{Configuration, EnvoyHeader};
use edgelink_filter_core::control_plane::{Callout, Outgoing};
use edgelink_filter_core::edge::RootId;
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
    /// Sends the callout. Returns its id at Envoy; `None` if Envoy refuses.
    pub(crate) fn make(&self, envoy: Configuration<'_>) -> Option<u64> {
        let settings = &*self.settings;
        let (trace, edge_name) = (self.trace.as_deref(), self.edge_name.as_deref());
        let request = Outgoing::of(settings, &self.callout, trace, edge_name);
        call(envoy, settings, &request)
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

fn call(envoy: Configuration<'_>, settings: &Settings, request: &Outgoing<'_>) -> Option<u64> {
    let headers = request.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| EnvoyHeader::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let cluster = &settings.control_plane.cluster;
    envoy.http_callout(cluster, &headers, request.body, request.timeout_millis)
}

/// Sends one callout for several lookups.
pub(crate) fn make_batch(envoy: Configuration<'_>, orders: &[Order]) -> Option<u64> {
    let settings = &*orders.first()?.settings;
    let lines: Vec<_> = orders.iter().filter_map(Order::line).collect();
    let lines = lines.join("\n");
    call(
        envoy,
        settings,
        &Outgoing::lookups(settings, lines.as_bytes()),
    )
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

/// A callout: its id at Envoy, and the root in which it was sent.
pub(crate) type Call = (RootId, u64);

/// The content of a callout that was sent.
pub(crate) enum Sent {
    One(Token),
    /// Lookups of several keys, in the order of their answers.
    Batch(Vec<Order>),
}

impl Sent {
    pub(crate) fn of(orders: Vec<Order>) -> Self {
        match &*orders {
            [order] => Self::One(order.token),
            _ => Self::Batch(orders),
        }
    }
}

/// The result of a callout. All fields are empty without an answer.
#[derive(Default)]
pub(crate) struct CalloutEnd<'a> {
    pub(crate) status: &'a [u8],
    pub(crate) content_type: &'a [u8],
    pub(crate) retry_after: &'a [u8],
    pub(crate) body: Vec<u8>,
}
