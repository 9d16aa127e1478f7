//! Local responses, callouts and flow control.

use super::state::with_worker;
use crate::abi;
use crate::pairs::Pairs;
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::control_plane::Outgoing;
use edgelink_filter_core::settings::Settings;
use std::sync::Arc;

/// Flow of a request: `FilterHeadersStatus`, `FilterDataStatus` or `FilterTrailersStatus`, depending on the callback.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FilterStatus {
    /// `Continue`: to the next filter.
    Continue = 0,
    /// For headers, `StopIteration`: they wait, and the body arrives, if the plugin has `allow_on_headers_stop_iteration`. For a
    /// body, `StopIterationAndBuffer`: more of it is awaited, or it waits. For trailers, `StopIteration`: they wait.
    Hold = 1,
    /// For headers, `StopAllIterationAndWatermark`: the request waits, or is answered. With `StopIteration` (1) the body would not
    /// wait, and would take the headers with it, if the plugin has `allow_on_headers_stop_iteration`.
    Pause = 4,
}

/// A local response, ready to be sent.
pub(super) struct LocalResponse {
    pub(super) status: u16,
    pub(super) pairs: Pairs,
    pub(super) page: Option<Arc<str>>,
}

impl LocalResponse {
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

    /// Answers the stream in effect, and returns the buffer for the next answer.
    pub(super) fn send(self) {
        let page = self.page.as_deref().unwrap_or_default();
        abi::send_local_response(self.status, self.pairs.encoded(), page.as_bytes());
        with_worker(|worker| worker.pairs = self.pairs);
    }
}

/// Sends a callout in the home of the worker.
pub(super) fn call(settings: &Settings, request: &Outgoing<'_>) -> Option<u32> {
    let mut pairs = Pairs::default();
    let headers = request.headers.iter();
    let headers = pairs.encode(headers.map(|(name, value)| (*name, value.as_bytes())));
    let home = with_worker(|worker| worker.edge.home()).flatten()?;
    if !abi::set_effective_context(home) {
        return None;
    }
    let cluster = &settings.control_plane.cluster;
    abi::http_call(cluster, headers, request.body, request.timeout_millis)
}
