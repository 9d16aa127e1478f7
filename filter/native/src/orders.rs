//! Callouts to the control plane, from the edge that wants them to the main thread that makes them, and back.

use crate::abi::{Configuration, Header};
use edgelink_filter_core::control_plane::callout::{Callout, UnlockCallout};
use edgelink_filter_core::control_plane::{BackgroundCallout, Outgoing};
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::flights::Token;
use edgelink_filter_core::settings::Settings;
use edgelink_wire::link_batch;
use std::sync::Arc;

/// A callout that is to be made.
pub(crate) struct Order {
    /// The number by which the edge knows it.
    pub(crate) token: Token,
    pub(crate) request: Request,
    /// Whether it is not to be put together with others.
    pub(crate) is_alone: bool,
    pub(crate) settings: Arc<Settings>,
    pub(crate) edge_name: Option<Arc<str>>,
}

/// What the control plane is asked.
pub(crate) enum Request {
    /// For a link, or for visits; with the trace that it is part of.
    Lookup(Callout, Option<Box<str>>),
    Background(BackgroundCallout),
    Form(UnlockCallout),
}

impl Order {
    /// Makes it. Envoy's number of it; `None` if Envoy does not.
    pub(crate) fn make(&self, envoy: Configuration<'_>) -> Option<u64> {
        let settings = &*self.settings;
        let request = match &self.request {
            Request::Lookup(callout, trace) => {
                Outgoing::lookup(settings, callout, trace.as_deref())
            }
            Request::Background(callout) => {
                Outgoing::background(settings, callout, self.edge_name.as_deref())
            }
            Request::Form(callout) => Outgoing::form(settings, callout),
        };
        call(envoy, settings, &request)
    }

    /// The line of its key, if it may be asked for together with others. One that is part of a trace is asked for alone.
    fn line(&self) -> Option<&str> {
        match &self.request {
            Request::Lookup(callout, None) if !self.is_alone => callout.line(),
            _ => None,
        }
    }

    /// Whether another one may be part of the same request.
    fn may_share(&self, other: &Self) -> bool {
        self.line().is_some()
            && other.line().is_some()
            && Arc::ptr_eq(&self.settings, &other.settings)
    }
}

fn call(envoy: Configuration<'_>, settings: &Settings, request: &Outgoing<'_>) -> Option<u64> {
    let headers = request.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let cluster = &settings.control_plane.cluster;
    envoy.http_callout(cluster, &headers, request.body, request.timeout_millis)
}

/// Makes one callout for several lookups.
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

/// Puts orders that may be part of one request together.
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

/// A callout: Envoy's number of it, with the root that it was made in.
pub(crate) type Call = (RootId, u64);

/// What a callout is for.
pub(crate) enum Sent {
    One(Token),
    /// Lookups of several keys, in the order in which they are answered.
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

/// How a callout has ended. Without an answer all of it is empty.
#[derive(Default)]
pub(crate) struct CalloutEnd<'a> {
    pub(crate) status: &'a [u8],
    pub(crate) content_type: &'a [u8],
    pub(crate) retry_after: &'a [u8],
    pub(crate) body: Vec<u8>,
}
