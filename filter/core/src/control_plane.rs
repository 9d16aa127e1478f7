//! Calls to the control plane: lookups, and the background callouts that fetch a snapshot to start from, poll the
//! feed, report clicks, and return visits.
//!
//! Each of the latter is one callout at a time ([`BackgroundCallout`]) from the root context, except for returns of visits. As
//! with Redis, a worker begins with its first request: the copy of the plugin on Envoy's main thread never sees one, and has no
//! use for a feed.

mod batches;
pub mod callout;
mod clicks;
pub(crate) mod decoded;
pub(crate) mod feed_places;
mod outgoing;
mod periodic;
pub(crate) mod poll;
pub(crate) mod snapshots;
pub(crate) mod visits;

pub(crate) use clicks::ClickReports;
pub use decoded::{Decoded, DecodedFeed, DecodedSnapshot};
pub use outgoing::Outgoing;
pub(crate) use periodic::PeriodicCallout;
pub(crate) use poll::Poll;
pub(crate) use snapshots::SnapshotTimer;
pub(crate) use visits::Visits;

use crate::control_plane::callout::{CalloutError, LookupCallout, Response, UnlockCallout, status};

pub use crate::metrics::BackgroundKind;

/// A request to the control plane, which the host has to send.
#[derive(Debug)]
pub enum Callout {
    /// A lookup, or a request for visits.
    Lookup(LookupCallout),
    /// One that no visitor waits for.
    Background(BackgroundCallout),
    /// A form with the password of a link.
    Form(UnlockCallout),
}

/// A callout that no visitor waits for.
#[derive(Debug, PartialEq, Eq)]
pub struct BackgroundCallout {
    /// The purpose; at most one of a kind is in flight, except for returns of visits.
    pub kind: BackgroundKind,
    /// The `:method`.
    pub method: &'static str,
    /// The `:path`.
    pub path: String,
    /// The value of `accept`.
    pub accept: &'static str,
    /// The value of `content-type`; `None` without a body.
    pub content_type: Option<&'static str>,
    /// Send time of a report, as the value of the header [`SENT_AT_HEADER`](edgelink_wire::clicks::SENT_AT_HEADER); `None` for
    /// other callouts.
    pub sent_at: Option<String>,
    /// Health of the worker, as the value of the header [`HEADER`](edgelink_wire::health::HEADER); `None` if it is not reported.
    pub health: Option<String>,
    /// Id of the worker, as the value of the header [`WORKER_HEADER`](edgelink_wire::visits::WORKER_HEADER); `None` if it holds no
    /// visits of limited links.
    pub worker: Option<String>,
    /// Id of the worker, as the value of the header [`POLLER_HEADER`](edgelink_wire::feed_batch::POLLER_HEADER); `None` except for
    /// polls.
    pub poller: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Timeout in milliseconds.
    pub timeout_millis: u32,
}

/// The body of an answer with status 200 and that media type. Anything else is a failure.
fn body_of<'a>(response: Response<'a>, media_type: &str) -> Result<&'a [u8], CalloutError> {
    match status(response)? {
        200 if response.content_type == media_type.as_bytes() => Ok(response.body),
        status => Err(CalloutError::Answer(status)),
    }
}

#[cfg(test)]
mod tests;
