//! Traces of waiting requests, for the lookups they wait for.
//!
//! A lookup is part of the trace of the request that has started it, or of the oldest that still waits for it; other waiters are
//! not in that trace. A request without a trace costs nothing.

use crate::flights::StreamId;
use edgelink_wire::TraceParent;
use std::collections::HashMap;

/// The traces of waiting requests, and of no others.
#[derive(Debug, Default)]
pub(crate) struct Traces(HashMap<StreamId, Box<str>>);

impl Traces {
    /// Keeps the header `traceparent` of a request that begins to wait, if it is valid.
    pub(crate) fn keep(&mut self, stream: StreamId, traceparent: &[u8]) {
        let text = std::str::from_utf8(traceparent).ok();
        if let Some(text) = text.filter(|text| TraceParent::parse(text.as_bytes()).is_some()) {
            self.0.insert(stream, text.into());
        }
    }

    pub(crate) fn of(&self, stream: StreamId) -> Option<&str> {
        self.0.get(&stream).map(Box::as_ref)
    }

    /// The stream has ended.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        if !self.0.is_empty() {
            self.0.remove(&stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn trace_when_its_request_ends_is_dropped() {
        let mut traces = Traces::default();
        traces.keep(1, PARENT.as_bytes());
        assert_eq!((traces.of(1), traces.of(2)), (Some(PARENT), None));
        traces.leave(1);
        assert_eq!(traces.of(1), None);
    }

    #[test]
    fn traceparent_when_malformed_is_not_kept() {
        let mut traces = Traces::default();
        traces.keep(1, &PARENT.as_bytes()[1..]);
        traces.keep(1, &[0xff; 55]);
        assert_eq!(traces.of(1), None);
    }
}
