//! An answer in transit from the edge, which lends its parts, to Envoy, which gets it once the edge is released.

use crate::abi::{EnvoyHeader, Filter};
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::forms::FormAnswer;
use std::ops::Range;
use std::sync::Arc;

/// The most headers of an answer.
const MAX_HEADERS: usize = 16;

/// An answer that can be sent.
#[derive(Debug, Default)]
pub(crate) struct LocalReply {
    status: u16,
    /// Names of headers, and the ranges of their values in `text`.
    headers: Vec<(&'static str, Range<usize>)>,
    text: Vec<u8>,
    page: Option<Arc<str>>,
    /// `%RESPONSE_CODE_DETAILS%` in access logs.
    details: String,
}

impl LocalReply {
    /// Writes an answer.
    #[inline(always)]
    pub(crate) fn write(&mut self, answer: &Answer<'_>) {
        self.clear(answer.status);
        match (answer.plain_redirect(), answer.more()) {
            (Some(location), _) => {
                self.push("location", location);
                let cache_control = edgelink_wire::redirect::CACHE_CONTROL;
                self.push("cache-control", cache_control.as_bytes());
            }
            (None, more) => {
                for (name, value) in answer.headers() {
                    self.push(name, value);
                }
                for (name, value) in more {
                    self.push(name, value.as_bytes());
                }
            }
        }
        self.page = answer.page().cloned();
        let names = [answer.tier().name(), answer.outcome().name()];
        self.describe(names);
    }

    /// Writes the answer to a form.
    pub(crate) fn write_form(&mut self, answer: FormAnswer) {
        self.clear(answer.status);
        for (name, value) in &answer.headers {
            self.push(name, value);
        }
        self.page = Some(answer.page);
        self.describe(["control-plane", "form"]);
    }

    /// Writes the answer after a panic.
    pub(crate) fn write_panic(&mut self) {
        self.clear(503);
        self.push("retry-after", b"1");
        self.push("cache-control", b"no-store");
        self.describe(["module", "panic"]);
    }

    /// Sends the answer. The stream may have ended when this returns.
    #[inline(always)]
    pub(crate) fn send(&self, filter: Filter<'_>) {
        let mut headers = [EnvoyHeader::EMPTY; MAX_HEADERS];
        let mut count = 0;
        for (place, (name, range)) in headers.iter_mut().zip(&self.headers) {
            let value = self.text.get(range.clone()).unwrap_or_default();
            *place = EnvoyHeader::new(name.as_bytes(), value);
            count += 1;
        }
        let headers = headers.get(..count).unwrap_or_default();
        let page = self.page.as_deref().unwrap_or_default();
        filter.send_response(self.status, headers, page.as_bytes(), &self.details);
    }

    #[inline(always)]
    fn clear(&mut self, status: u16) {
        self.status = status;
        self.headers.clear();
        self.text.clear();
        self.page = None;
        self.details.clear();
    }

    #[inline(always)]
    fn push(&mut self, name: &'static str, value: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(value);
        self.headers.push((name, start..self.text.len()));
    }

    /// Sets the details to `edgelink.{tier}.{outcome}`: they must not contain spaces.
    #[inline(always)]
    fn describe(&mut self, [tier, outcome]: [&str; 2]) {
        for part in ["edgelink.", tier, ".", outcome] {
            self.details.push_str(part);
        }
    }
}
