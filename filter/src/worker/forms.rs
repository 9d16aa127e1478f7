//! Forms with passwords of links, between the proxy and the core.

use super::sending::{FilterStatus, LocalResponse};
use super::state::with_worker;
use crate::abi::{self, Buffer, Map};
use edgelink_filter_core::control_plane::Callout;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::edge::Resumed;
use edgelink_filter_core::flights::{Token, Waiter};
use edgelink_filter_core::forms::{FormEnd, FormStep};
use edgelink_filter_core::request::Head;
use edgelink_wire::password::MAX_FORM_LENGTH;

/// A part of the body of a request has arrived.
pub(crate) fn on_body(stream: u32, size: usize, is_all: bool) -> FilterStatus {
    if !is_held(stream) {
        return FilterStatus::Continue;
    }
    if size > MAX_FORM_LENGTH {
        let ended = with_worker(|worker| worker.edge.on_form_too_long(stream));
        ended.flatten().iter().for_each(end);
        return FilterStatus::Hold;
    }
    if !is_all {
        return FilterStatus::Hold;
    }
    take_body(stream, size);
    FilterStatus::Hold
}

/// The trailers of a request have arrived: its body is complete.
pub(crate) fn on_trailers(stream: u32) -> FilterStatus {
    if !is_held(stream) {
        return FilterStatus::Continue;
    }
    take_body(stream, MAX_FORM_LENGTH);
    FilterStatus::Hold
}

fn is_held(stream: u32) -> bool {
    with_worker(|worker| worker.edge.holds_form(stream)).unwrap_or(false)
}

/// The body of a form is complete: at most `size` bytes.
fn take_body(stream: u32, size: usize) {
    let body = abi::buffer(Buffer::RequestBody, size).unwrap_or_default();
    let step = with_worker(|worker| worker.edge.on_form_body(stream, &body));
    step.into_iter().for_each(take_step);
    // A form that the proxy refused to send is answered at once.
    super::answer_resumed();
}

/// The lookup of the link of a form is complete.
pub(super) fn on_link(form: Waiter, resumed: &Resumed) {
    match with_worker(|worker| worker.edge.on_form_link(form, resumed)) {
        Some(FormStep::Pass) => {
            let actions = with_worker(|worker| worker.edge.release_form(form, resumed));
            actions.into_iter().flatten().for_each(super::act);
        }
        Some(step) => take_step(step),
        None => {}
    }
}

/// The callout of a form has ended.
pub(super) fn on_end(token: Token, response: Response<'_>, retry_after: &[u8]) {
    let ended = with_worker(|worker| worker.edge.on_form_end(token, response, retry_after));
    ended.flatten().iter().for_each(end);
}

/// Carries out the next step of a form. A form that passes is released when its lookup ends: see [`on_link`].
fn take_step(step: FormStep) {
    match step {
        FormStep::Hold | FormStep::Pass => {}
        FormStep::End(ended) => end(&ended),
        FormStep::Ask(callout) => super::send(&Callout::Form(callout)),
    }
}

/// Answers a form, unless its visitor has gone.
pub(super) fn end(ended: &FormEnd) {
    if !abi::set_effective_context(ended.stream) {
        return;
    }
    let headers = abi::headers(Map::RequestHeaders);
    let head = Head::read(&headers).unwrap_or_default();
    let reply = with_worker(|worker| {
        let mut pairs = std::mem::take(&mut worker.pairs);
        let answer = worker.edge.answer_form(ended, &head);
        let headers = answer.headers.iter();
        pairs.encode(headers.map(|(name, value)| (*name, value.as_slice())));
        LocalResponse {
            status: answer.status,
            pairs,
            page: Some(answer.page),
        }
    });
    if let Some(reply) = reply {
        reply.send();
    }
}
