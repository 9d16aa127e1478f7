//! The worker that a VM holds between two callbacks, and the host calls for its decisions.
//!
//! Sending a callout and answering a request are host calls that may result in another callback before they return. So
//! the worker is borrowed to decide and released before they are made.

mod forms;
mod sending;
mod state;

pub(crate) use forms::{on_body as request_body, on_trailers as request_trailers};
pub(crate) use sending::FilterStatus;

use crate::abi::{self, Buffer, HostBytes, Map};
use crate::envoy::Envoy;
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::control_plane::{Callout, Outgoing};
use edgelink_filter_core::edge::{Action, Again, Edge, Resumed, Step};
use edgelink_filter_core::flights::Waiter;
use edgelink_filter_core::forms::FormEnd;
use edgelink_filter_core::host::{ConnectionToken, RedisEvent};
use edgelink_filter_core::random;
use edgelink_filter_core::request::{Head, Headers};
use edgelink_filter_core::settings::Settings;
use edgelink_filter_core::time::Moment;
use edgelink_wire::TRACEPARENT;
use edgelink_wire::clicks::VisitorKeys;
use sending::{LocalResponse, call};
use state::{Worker, with_worker};
use std::sync::Arc;

/// Maximum number of waiters and forms answered in one callback. The proxy sends the answers once the callback has returned,
/// each from within the end of the previously answered stream, so that its stack grows with every one of them; V8 gives up at
/// about 300.
const BATCH: usize = 32;

/// Milliseconds until the next ones are answered.
const BATCH_PAUSE_MILLIS: u32 = 1;

/// Applies a configuration. Caches and waiters are kept.
pub(crate) fn configure(root: u32, settings: Settings) {
    let settings = Arc::new(settings);
    abi::set_tick_period(jittered(settings.tick_millis));
    state::make_once(|| {
        let wall = Envoy::wall_clock(Envoy::now());
        Worker::new(Edge::new(
            settings.clone(),
            random::name(),
            random::number(),
            wall,
        ))
    });
    with_worker(|worker| {
        worker.envoy.enter(root);
        worker.edge.on_root(&mut worker.envoy, root, settings);
        worker.envoy.set_home(worker.edge.home());
    });
}

/// A stream of a root context has begun.
pub(crate) fn begin(stream: u32, root: u32) {
    with_worker(|worker| worker.edge.on_stream(stream, root));
}

/// A request has come.
pub(crate) fn request(stream: u32) -> FilterStatus {
    let headers = abi::headers(Map::RequestHeaders);
    let Some(head) = Head::read(&headers) else {
        return FilterStatus::Continue;
    };
    let decided = decide(stream, &head, |edge, host, stream, head, now| {
        edge.on_request(host, stream, head, now)
    });
    let callout = match decided {
        None | Some(Step::Pass) => return FilterStatus::Continue,
        Some(Step::Hold(callout, ended)) => {
            ended.into_iter().for_each(enqueue_form);
            note_trace(stream, &head);
            callout.map(Callout::Lookup).iter().for_each(send);
            // Within this callback the stream cannot continue, even if its lookup was refused.
            pace_ticks();
            return FilterStatus::Hold;
        }
        Some(Step::Answer(reply, callout)) => {
            reply.send();
            callout
        }
        Some(Step::Wait(callout)) => {
            note_trace(stream, &head);
            callout
        }
    };
    if let Some(callout) = callout {
        send(&Callout::Lookup(callout));
        // Within this callback the stream cannot continue, even if its lookup was refused.
        match with_worker(|worker| worker.edge.may_pass(&head)) {
            Some(true) => pace_ticks(),
            _ => answer_resumed(),
        }
    }
    FilterStatus::Pause
}

/// Keeps the trace of a request that waits.
fn note_trace(stream: u32, head: &Head<'_>) {
    let traceparent = head.headers.get(TRACEPARENT);
    if !traceparent.is_empty() {
        with_worker(|worker| worker.edge.on_trace(stream, traceparent));
    }
}

/// Decides the request of the stream in effect. `None` if there is no worker. Inlined, as it is on the hot path.
#[inline(always)]
fn decide(
    stream: u32,
    head: &Head<'_>,
    decide: impl for<'e> FnOnce(&'e mut Edge, &mut Envoy, u32, &Head<'_>, Moment) -> Step<Answer<'e>>,
) -> Option<Step<LocalResponse>> {
    let now = Envoy::now();
    with_worker(|worker| {
        worker.envoy.enter(stream);
        let pairs = &mut worker.pairs;
        let step = decide(&mut worker.edge, &mut worker.envoy, stream, head, now);
        step.map(|answer| LocalResponse::new(&answer, std::mem::take(pairs)))
    })
}

/// A context has ended: a stream's, or a root.
pub(crate) fn end(context: u32) {
    with_worker(|worker| {
        if !worker.edge.is_root(context) {
            return worker.edge.on_stream_end(context);
        }
        worker.envoy.enter(context);
        worker.edge.on_root_end(&mut worker.envoy, context);
        let home = worker.edge.home();
        if home != worker.envoy.home() {
            worker.envoy.set_home(home);
            // It was the other root's ticks that came early.
            worker.is_hurrying = false;
        }
    });
}

/// Time has passed for a root context; which one does not matter.
pub(crate) fn tick(root: u32) {
    let now = Envoy::now();
    let wall = Envoy::wall_clock(now);
    let actions = with_worker(|worker| {
        worker.envoy.enter(root);
        let is_root = worker.edge.is_root(root);
        is_root.then(|| worker.edge.on_tick(&mut worker.envoy, now, wall))
    });
    act_on(actions.flatten().unwrap_or_default());
}

/// A message has come on a gRPC stream.
pub(crate) fn stream_data(root: u32, stream: u32, size: usize) {
    let message = abi::buffer(Buffer::GrpcMessage, size).unwrap_or_default();
    redis_event(root, (stream, RedisEvent::Data(&message)));
}

/// A gRPC stream has ended.
pub(crate) fn stream_closed(root: u32, stream: u32) {
    redis_event(root, (stream, RedisEvent::Closed));
}

fn redis_event(root: u32, event: (ConnectionToken, RedisEvent<'_>)) {
    let now = Envoy::now();
    let actions = with_worker(|worker| {
        worker.envoy.enter(root);
        worker.edge.on_redis(&mut worker.envoy, event, now)
    });
    act_on(actions.unwrap_or_default());
}

fn act_on(actions: Vec<Action>) {
    actions.into_iter().for_each(act);
    answer_resumed();
}

fn act(action: Action) {
    match action {
        Action::Resume(resumed) => enqueue_resumed(resumed),
        Action::Send(callout) => send(&callout),
        Action::EndForm(end) => enqueue_form(end),
    }
}

/// A callout has ended. The number of its headers is 0 if there was no answer.
pub(crate) fn callout_end(token: u32, headers: usize, body_size: usize) {
    let header = |name| match headers {
        0 => HostBytes::default(),
        _ => abi::header(Map::CalloutHeaders, name).unwrap_or_default(),
    };
    let (status, content_type) = (header(":status"), header("content-type"));
    let limit = with_worker(|worker| worker.edge.max_body_bytes(token)).unwrap_or(0);
    let is_readable = headers > 0 && (1..=limit).contains(&body_size);
    let body = is_readable.then(|| abi::buffer(Buffer::CalloutBody, body_size));
    let mut body = body.flatten().unwrap_or_default();
    let response = Response {
        status: &status,
        content_type: &content_type,
        body: &body,
    };
    if with_worker(|worker| worker.edge.carries_form(token)) == Some(true) {
        return forms::on_end(token, response, &header("retry-after"));
    }
    let now = Envoy::now();
    let actions = with_worker(|worker| {
        worker
            .edge
            .on_callout_end(&mut worker.envoy, token, response, now)
    });
    if *content_type == *VisitorKeys::MEDIA_TYPE.as_bytes() {
        body.overwrite();
    }
    act_on(actions.unwrap_or_default());
}

/// Sends a callout.
fn send(callout: &Callout) {
    let context = with_worker(|worker| {
        let trace = worker.edge.trace_of(callout).map(Box::<str>::from);
        let settings = worker.edge.settings().clone();
        (settings, trace, worker.edge_name.clone())
    });
    let Some((settings, trace, edge_name)) = context else {
        return;
    };
    let request = Outgoing::of(&settings, callout, trace.as_deref(), edge_name.as_deref());
    let token = call(&settings, &request);
    let now = Envoy::now();
    let actions = with_worker(|worker| match token {
        Some(token) => {
            worker.edge.on_sent(callout, token, now);
            Vec::new()
        }
        None => worker
            .edge
            .on_refused(&mut worker.envoy, (callout, None), now),
    });
    actions.into_iter().flatten().for_each(act);
}

/// Queues waiters whose lookup is complete.
fn enqueue_resumed(resumed: Resumed) {
    with_worker(|worker| worker.resumed.push_back(resumed));
}

/// Queues the answer to a form.
fn enqueue_form(end: FormEnd) {
    with_worker(|worker| worker.ended_forms.push_back(end));
}

/// Answers the waiters at the front of the queue, then forms, as the last step of a callback.
fn answer_resumed() {
    let mut room = BATCH;
    while room > 0 {
        let Some(mut resumed) = with_worker(|worker| worker.resumed.pop_front()).flatten() else {
            break;
        };
        let later = resumed.waiters.split_off(room.min(resumed.waiters.len()));
        room -= resumed.waiters.len();
        for waiter in &resumed.waiters {
            answer(*waiter, &resumed);
        }
        if !later.is_empty() {
            resumed.waiters = later;
            with_worker(|worker| worker.resumed.push_front(resumed));
        }
    }
    for _ in 0..room {
        let Some(end) = with_worker(|worker| worker.ended_forms.pop_front()).flatten() else {
            break;
        };
        forms::end(&end);
    }
    pace_ticks();
}

/// Answers a waiter whose lookup is complete, unless it has gone.
fn answer(waiter: Waiter, resumed: &Resumed) {
    if waiter.is_form {
        return forms::on_link(waiter, resumed);
    }
    if !abi::set_effective_context(waiter.stream) {
        with_worker(|worker| worker.edge.on_unanswered(resumed));
        return;
    }
    let admitted = with_worker(|worker| worker.edge.admit_unlocked(&worker.envoy, waiter, resumed));
    if let Some(actions) = admitted.flatten() {
        return actions.into_iter().for_each(act);
    }
    let needs_headers = with_worker(|worker| worker.edge.needs_headers(waiter, resumed));
    let headers = if needs_headers == Some(true) {
        abi::headers(Map::RequestHeaders)
    } else {
        HostBytes::default()
    };
    let mut head = Head::read(&headers).unwrap_or_default();
    if let Some(again) = resumed.again() {
        return decide_again(waiter, &head, again);
    }
    let path =
        (headers.is_empty() && waiter.has_more).then(|| abi::header(Map::RequestHeaders, ":path"));
    let path = path.flatten().unwrap_or_default();
    if !path.is_empty() {
        head.path = &path;
    }
    let reply = with_worker(|worker| {
        let pairs = std::mem::take(&mut worker.pairs);
        let answer = worker.edge.answer(&worker.envoy, waiter, resumed, &head);
        answer.map(|answer| LocalResponse::new(&answer, pairs))
    });
    match reply {
        Some(Some(reply)) => reply.send(),
        Some(None) => abi::continue_request(),
        None => {}
    }
}

/// Decides a request that has waited for its domain. The stream is in effect.
fn decide_again(waiter: Waiter, head: &Head<'_>, again: Again) {
    let decided = decide(waiter.stream, head, |edge, host, stream, head, now| {
        edge.on_request_again(host, stream, head, now, again)
    });
    let callout = match decided {
        Some(Step::Answer(reply, callout)) => {
            reply.send();
            callout
        }
        Some(Step::Wait(callout)) => callout,
        Some(Step::Pass) => {
            abi::continue_request();
            None
        }
        // Requests that have waited for their domain are not held.
        Some(Step::Hold(..)) | None => None,
    };
    callout.map(Callout::Lookup).iter().for_each(send);
}

/// Sets a short tick period while a queue has waiters or forms, and the configured one otherwise.
fn pace_ticks() {
    let change = with_worker(|worker| {
        let is_hurrying = !(worker.resumed.is_empty() && worker.ended_forms.is_empty());
        if std::mem::replace(&mut worker.is_hurrying, is_hurrying) == is_hurrying {
            return None;
        }
        let period = if is_hurrying {
            BATCH_PAUSE_MILLIS
        } else {
            jittered(worker.edge.settings().tick_millis)
        };
        Some((worker.edge.home()?, period))
    });
    if let Some((home, period)) = change.flatten() {
        abi::set_effective_context(home);
        abi::set_tick_period(period);
    }
}

/// The period, up to a quarter longer: otherwise all workers, which are configured at the same moment, would always tick
/// together.
fn jittered(millis: u32) -> u32 {
    let share = (random::number() % 256) as u32;
    millis + millis * share / 1_024
}
