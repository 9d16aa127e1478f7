//! What the proxy is told: answers, callouts, and whether a request goes on.

use super::state::with_worker;
use crate::abi;
use crate::pairs::Pairs;
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::settings::Settings;
use std::rc::Rc;

/// What makes the proxy send a request again whose connection broke before the answer, within its timeout: another control plane
/// may well be there.
pub(super) const RETRY: [(&str, &str); 2] = [
    ("x-envoy-retry-on", "connect-failure,refused-stream,reset"),
    ("x-envoy-max-retries", "2"),
];

/// The same for requests that the control plane may not get twice: they are sent again only if it has not seen them.
pub(super) const RETRY_UNSEEN: [(&str, &str); 2] = [
    ("x-envoy-retry-on", "connect-failure,refused-stream"),
    ("x-envoy-max-retries", "2"),
];

/// Whether the proxy passes a request on: `FilterHeadersStatus`, `FilterDataStatus` or `FilterTrailersStatus`, by what it has shown.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Flow {
    /// `Continue`: to the next filter.
    Continue = 0,
    /// `StopIteration`: the headers wait, and the body comes, where the plugin has `allow_on_headers_stop_iteration`. Of a body,
    /// `StopIterationAndBuffer`: more of it is awaited, or it waits. Of trailers, `StopIteration`: they wait.
    Hold = 1,
    /// Of headers, `StopAllIterationAndWatermark`: the request waits, or is answered. With `StopIteration` (1) the body would not
    /// wait, and would take the headers with it, where the plugin has `allow_on_headers_stop_iteration`.
    Pause = 4,
}

/// A local response, ready to be sent.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) pairs: Pairs,
    pub(super) page: Option<Rc<str>>,
}

impl Reply {
    pub(super) fn new(answer: &Answer<'_>, mut pairs: Pairs) -> Self {
        match (answer.plain_redirect(), answer.more()) {
            (Some(location), _) => pairs.encode_redirect(location),
            (None, []) => pairs.encode(answer.headers()),
            (None, more) => {
                let more = more.iter().map(|(name, value)| (*name, value.as_bytes()));
                pairs.encode(answer.headers().chain(more))
            }
        };
        Self {
            status: answer.status,
            pairs,
            page: answer.page().cloned(),
        }
    }

    /// Answers the stream in effect, and gives the buffer back for the next one.
    pub(super) fn send(self) {
        let page = self.page.as_deref().unwrap_or_default();
        abi::send_local_response(self.status, self.pairs.encoded(), page.as_bytes());
        with_worker(|worker| worker.pairs = self.pairs);
    }
}

/// Sends a callout in the home of the worker, with the headers that every one has.
pub(super) fn call<'a>(
    settings: &'a Settings,
    headers: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    body: &[u8],
    timeout_millis: u32,
) -> Option<u32> {
    let control_plane = &settings.control_plane;
    let authority = (":authority", control_plane.authority.as_str());
    let authorization = control_plane.authorization.as_deref();
    let authorization = authorization.map(|value| ("authorization", value));
    let mut pairs = Pairs::default();
    let headers = headers.chain([authority]).chain(authorization);
    let headers = pairs.encode(headers.map(|(name, value)| (name, value.as_bytes())));
    let home = with_worker(|worker| worker.edge.home()).flatten()?;
    if !abi::set_effective_context(home) {
        return None;
    }
    abi::http_call(&control_plane.cluster, headers, body, timeout_millis)
}
