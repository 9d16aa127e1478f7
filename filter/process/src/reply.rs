//! An answer in transit from the edge, which lends its parts, to the proxy, which gets it once the edge is released.

use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::forms::FormAnswer;
use std::ops::Range;
use std::sync::Arc;

/// The most headers of an answer.
pub const MAX_HEADERS: usize = 16;

/// An answer that can be sent.
#[derive(Debug, Default)]
pub struct LocalReply {
    status: u16,
    headers: Vec<(&'static str, ReplyValue)>,
    text: Vec<u8>,
    page: Option<Arc<str>>,
    /// `%RESPONSE_CODE_DETAILS%` in access logs.
    details: String,
    /// Tier and outcome in them: nearly always those of the answer before.
    described: [&'static str; 2],
}

/// The value of a header.
#[derive(Debug)]
enum ReplyValue {
    Fixed(&'static str),
    /// Its place in the text.
    Written(Range<usize>),
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
                self.push_fixed("cache-control", cache_control);
            }
            (None, more) => {
                for (name, value) in answer.headers() {
                    self.push(name, value);
                }
                for (name, value) in more {
                    self.push_fixed(name, value);
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
        self.push_fixed("retry-after", "1");
        self.push_fixed("cache-control", "no-store");
        self.describe(["module", "panic"]);
    }

    /// The status code.
    #[inline(always)]
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names of headers, in lower case, and their values; at most [`MAX_HEADERS`].
    #[inline(always)]
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let headers = self.headers.iter().take(MAX_HEADERS);
        headers.map(|(name, value)| match value {
            ReplyValue::Fixed(value) => (*name, value.as_bytes()),
            ReplyValue::Written(range) => (*name, self.text.get(range.clone()).unwrap_or_default()),
        })
    }

    /// The body; empty for a redirect.
    #[inline(always)]
    #[must_use]
    pub fn page(&self) -> &str {
        self.page.as_deref().unwrap_or_default()
    }

    /// `edgelink.{tier}.{outcome}`.
    #[inline(always)]
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    #[inline(always)]
    fn clear(&mut self, status: u16) {
        self.status = status;
        self.headers.clear();
        self.text.clear();
        self.page = None;
    }

    #[inline(always)]
    fn push(&mut self, name: &'static str, value: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(value);
        let range = start..self.text.len();
        self.headers.push((name, ReplyValue::Written(range)));
    }

    #[inline(always)]
    fn push_fixed(&mut self, name: &'static str, value: &'static str) {
        self.headers.push((name, ReplyValue::Fixed(value)));
    }

    /// Sets the details to `edgelink.{tier}.{outcome}`: they must not contain spaces.
    #[inline(always)]
    fn describe(&mut self, described: [&'static str; 2]) {
        let is_same = |(one, other): (&&str, &&str)| std::ptr::eq(*one, *other);
        if !self.described.iter().zip(&described).all(is_same) {
            self.write_details(described);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_details(&mut self, described: [&'static str; 2]) {
        self.described = described;
        self.details.clear();
        let [tier, outcome] = described;
        for part in ["edgelink.", tier, ".", outcome] {
            self.details.push_str(part);
        }
    }
}
