//! The worker that a VM holds between two callbacks, and how a decision becomes host calls.
//!
//! Sending a callout and answering a request are host calls that may end in another callback before they return. So
//! the worker is borrowed to decide, given back, and only then they are made.

use crate::abi::{self, Buffer, HostBytes, Map};
use crate::envoy::Envoy;
use crate::pairs::Pairs;
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::control_plane::BackgroundCallout;
use edgelink_filter_core::control_plane::callout::{Callout, Response};
use edgelink_filter_core::edge::{Action, Edge, Resumed, Step};
use edgelink_filter_core::flights::Waiter;
use edgelink_filter_core::request::Head;
use edgelink_filter_core::settings::Settings;
use edgelink_wire::clicks::WorkerId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// How many waiters are answered in one callback. The proxy sends the answers once the callback has returned, each
/// from within the end of the stream that was answered before it, so that its stack grows with every one of them;
/// V8 gives up at some 300.
const BATCH: usize = 32;

/// How often a lookup is sent again whose connection broke before the answer.
const RETRIES: &str = "2";

/// Milliseconds until the next ones are answered.
const BATCH_PAUSE_MILLIS: u32 = 1;

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// The state of a VM.
struct Worker {
    /// It knows the root contexts, and in which of them callouts are made: those of a stream's own context would end
    /// with that stream, and all other waiters would wait for ever.
    edge: Edge,
    envoy: Envoy,
    pairs: Pairs,
    /// Waiters whose lookup is complete and that are not answered yet.
    resumed: VecDeque<Resumed>,
    /// Whether the tick comes early for them.
    is_hurrying: bool,
}

/// `FilterHeadersStatus`: whether the proxy passes a request on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Flow {
    /// `Continue`: to the next filter.
    Continue = 0,
    /// `StopAllIterationAndWatermark`: the request waits, or is answered. With `StopIteration` (1) the body would not
    /// wait, and would take the headers with it, where the plugin has `allow_on_headers_stop_iteration`.
    Pause = 4,
}

/// A local response, ready to be sent.
struct Reply {
    status: u16,
    pairs: Pairs,
    page: Option<Rc<str>>,
}

/// Lends the worker to `act`. `None` if there is none yet, or if it is lent already.
fn with_worker<R>(act: impl FnOnce(&mut Worker) -> R) -> Option<R> {
    WORKER.with(|worker| {
        let mut worker = worker.try_borrow_mut().ok()?;
        worker.as_mut().map(act)
    })
}

/// Puts a configuration into effect. Caches and waiters are kept.
pub(crate) fn configure(root: u32, settings: Settings) {
    let settings = Rc::new(settings);
    abi::set_tick_period(jittered(settings.tick_millis));
    WORKER.with(|place| {
        place.borrow_mut().get_or_insert_with(|| Worker {
            edge: Edge::new(
                settings.clone(),
                name(),
                random(),
                Envoy::wall_clock(Envoy::now()),
            ),
            envoy: Envoy::new(),
            pairs: Pairs::default(),
            resumed: VecDeque::new(),
            is_hurrying: false,
        });
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
pub(crate) fn request(stream: u32) -> Flow {
    let headers = abi::headers(Map::RequestHeaders);
    let Some(head) = Head::read(&headers) else {
        return Flow::Continue;
    };
    let now = Envoy::now();
    let step = with_worker(|worker| {
        worker.envoy.enter(stream);
        let pairs = &mut worker.pairs;
        let step = worker
            .edge
            .on_request(&mut worker.envoy, stream, &head, now);
        step.map(|answer| Reply::new(&answer, std::mem::take(pairs)))
    });
    let callout = match step {
        None | Some(Step::Pass) => return Flow::Continue,
        Some(Step::Answer(reply, callout)) => {
            reply.send();
            callout
        }
        Some(Step::Wait(callout)) => callout,
    };
    if let Some(callout) = callout {
        send(&callout);
        answer_resumed();
    }
    Flow::Pause
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

/// Time has passed for a root context, whichever: time is the same for all.
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
    let now = Envoy::now();
    let actions = with_worker(|worker| {
        worker.envoy.enter(root);
        worker
            .edge
            .on_stream_data(&mut worker.envoy, stream, &message, now)
    });
    act_on(actions.unwrap_or_default());
}

/// A gRPC stream has ended.
pub(crate) fn stream_closed(root: u32, stream: u32) {
    let now = Envoy::now();
    let actions = with_worker(|worker| {
        worker.envoy.enter(root);
        worker.edge.on_stream_closed(&mut worker.envoy, stream, now)
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
        Action::Run(callout) => run(&callout),
    }
}

/// A callout has ended. The number of its headers is 0 where there was no answer.
pub(crate) fn callout_end(token: u32, headers: usize, body_size: usize) {
    let header = |name| match headers {
        0 => HostBytes::default(),
        _ => abi::header(Map::CalloutHeaders, name).unwrap_or_default(),
    };
    let (status, content_type) = (header(":status"), header("content-type"));
    let limit = with_worker(|worker| worker.edge.max_body_bytes(token)).unwrap_or(0);
    let is_readable = headers > 0 && (1..=limit).contains(&body_size);
    let body = is_readable.then(|| abi::buffer(Buffer::CalloutBody, body_size));
    let body = body.flatten().unwrap_or_default();
    let now = Envoy::now();
    let actions = with_worker(|worker| {
        let response = Response {
            status: &status,
            content_type: &content_type,
            body: &body,
        };
        worker
            .edge
            .on_callout_end(&mut worker.envoy, token, response, now)
    });
    act_on(actions.unwrap_or_default());
}

/// Sends a lookup, or a request for visits.
fn send(callout: &Callout) {
    let media_type = callout.media_type();
    let is_post = !callout.body.is_empty();
    let headers = [
        (":method", if is_post { "POST" } else { "GET" }),
        (":path", callout.path.as_str()),
        ("accept", media_type),
        // The proxy does it, within the timeout: another control plane may well be there.
        ("x-envoy-retry-on", "connect-failure,refused-stream,reset"),
        ("x-envoy-max-retries", RETRIES),
    ];
    let Some(settings) = with_worker(|worker| worker.edge.settings().clone()) else {
        return;
    };
    let timeout = settings.control_plane.timeout_millis;
    let content_type = is_post.then_some(("content-type", media_type));
    let headers = headers.into_iter().chain(content_type);
    let token = call(&settings, headers, &callout.body, timeout);
    let now = Envoy::now();
    let actions = with_worker(|worker| match token {
        Some(token) => {
            worker.edge.on_sent(callout.flight, token, now);
            Vec::new()
        }
        None => worker.edge.on_refused(&mut worker.envoy, callout.flight),
    });
    for action in actions.unwrap_or_default() {
        act(action);
    }
}

/// Sends a background callout.
fn run(callout: &BackgroundCallout) {
    let headers = [
        (":method", callout.method),
        (":path", callout.path.as_str()),
        ("accept", callout.accept),
    ];
    let content_type = callout.content_type.map(|name| ("content-type", name));
    let headers = headers.into_iter().chain(content_type);
    let Some(settings) = with_worker(|worker| worker.edge.settings().clone()) else {
        return;
    };
    let token = call(&settings, headers, &callout.body, callout.timeout_millis);
    let now = Envoy::now();
    with_worker(|worker| match token {
        Some(token) => worker.edge.on_background_sent(callout.kind, token),
        None => worker
            .edge
            .on_background_refused(&mut worker.envoy, callout.kind, now),
    });
}

/// Sends a callout in the home of the worker, with the headers that every one has.
fn call<'a>(
    settings: &'a Settings,
    headers: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    body: &[u8],
    timeout_millis: u32,
) -> Option<u32> {
    let control_plane = &settings.control_plane;
    let common = [
        (":authority", control_plane.authority.as_str()),
        ("authorization", &control_plane.authorization),
    ];
    let mut pairs = Pairs::default();
    let headers = headers.chain(common);
    let headers = pairs.encode(headers.map(|(name, value)| (name, value.as_bytes())));
    let home = with_worker(|worker| worker.edge.home()).flatten()?;
    if !abi::set_effective_context(home) {
        return None;
    }
    abi::http_call(&control_plane.cluster, headers, body, timeout_millis)
}

/// Queues waiters whose lookup is complete.
fn enqueue_resumed(resumed: Resumed) {
    with_worker(|worker| worker.resumed.push_back(resumed));
}

/// Answers the waiters at the front of the queue; the last thing that a callback does.
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
    pace_ticks();
}

/// Answers a waiter whose lookup is complete, unless it has gone.
fn answer(waiter: Waiter, resumed: &Resumed) {
    if !abi::set_effective_context(waiter.stream) {
        with_worker(|worker| worker.edge.on_unanswered(resumed));
        return;
    }
    let headers = if resumed.needs_headers() {
        abi::headers(Map::RequestHeaders)
    } else {
        HostBytes::default()
    };
    let mut head = Head::read(&headers).unwrap_or_default();
    if resumed.is_undecided() {
        return decide_again(waiter, &head);
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
        Reply::new(&answer, pairs)
    });
    if let Some(reply) = reply {
        reply.send();
    }
}

/// Decides about a request that has waited until the domains are known. The stream is in effect.
fn decide_again(waiter: Waiter, head: &Head<'_>) {
    let now = Envoy::now();
    let step = with_worker(|worker| {
        worker.envoy.enter(waiter.stream);
        let pairs = &mut worker.pairs;
        let step = worker
            .edge
            .on_request_again(&mut worker.envoy, waiter.stream, head, now);
        step.map(|answer| Reply::new(&answer, std::mem::take(pairs)))
    });
    let callout = match step {
        // Only requests that are never passed on wait.
        None | Some(Step::Pass) => None,
        Some(Step::Answer(reply, callout)) => {
            reply.send();
            callout
        }
        Some(Step::Wait(callout)) => callout,
    };
    if let Some(callout) = callout {
        send(&callout);
    }
}

/// Sets the tick to come early while the queue has waiters, and as configured when it is empty.
fn pace_ticks() {
    let change = with_worker(|worker| {
        let is_hurrying = !worker.resumed.is_empty();
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

impl Reply {
    fn new(answer: &Answer<'_>, mut pairs: Pairs) -> Self {
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
    fn send(self) {
        let page = self.page.as_deref().unwrap_or_default();
        abi::send_local_response(self.status, self.pairs.encoded(), page.as_bytes());
        with_worker(|worker| worker.pairs = self.pairs);
    }
}

/// The period, up to a quarter longer: else all workers, which are configured in the same moment, would always tick
/// together.
fn jittered(millis: u32) -> u32 {
    let share = (random() % 256) as u32;
    millis + millis * share / 1_024
}

/// A name that no other worker has.
fn name() -> WorkerId {
    let halves = [random(), random()].map(u64::to_le_bytes);
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(halves.as_flattened()) {
        *to = *from;
    }
    name
}

/// A random number: Rust's own hasher draws its keys from the host.
fn random() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(())
}
