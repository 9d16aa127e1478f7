//! Requests, on the threads of their workers.
//!
//! The edge decides under its lock; Envoy is called after the lock is released, because a request may end while it is answered.

use crate::abi::{Filter, RequestHeaders};
use crate::panics::Panicked;
use crate::process::{Config, Process};
use crate::reply::LocalReply;
use crate::routes::RouteConfig;
use crate::worker::{COMES, Decided, Worker};
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::flights::StreamId;
use edgelink_filter_core::request::{Head, Headers};
use edgelink_wire::password::MAX_FORM_LENGTH;
use std::cell::Cell;

/// A request as held by Envoy.
pub(crate) struct Stream {
    process: &'static Process,
    root: RootId,
    /// The number by which the edge identifies it, if it does: the edge must then be notified when the request ends.
    known: Cell<Option<StreamId>>,
    is_answered: Cell<bool>,
    /// True while its body is held, until it is answered or passes.
    is_held: Cell<bool>,
}

/// Flow control of a request in Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continues with the next filter.
    Continue,
    /// Holds the headers while the body arrives. A part of the body waits for the rest, or with it.
    Hold,
    /// The request waits, or is answered.
    Pause,
}

impl Flow {
    /// `envoy_dynamic_module_type_on_http_filter_request_headers_status`.
    pub(crate) fn of_headers(self) -> u32 {
        match self {
            Self::Continue => 0,
            Self::Hold => 1,
            // StopAllIterationAndWatermark
            Self::Pause => 4,
        }
    }

    /// The status of the hooks for body (`StopIterationAndBuffer`) and trailers (`StopIteration`).
    pub(crate) fn of_rest(self) -> u32 {
        match self {
            Self::Continue => 0,
            Self::Hold | Self::Pause => 1,
        }
    }
}

thread_local! {
    /// The reply of the running hook. Each thread reuses one, so that nothing is allocated.
    static REPLY: Cell<Option<Box<LocalReply>>> = const { Cell::new(None) };
}

impl Stream {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            process: config.process,
            root: config.root,
            known: Cell::new(None),
            is_answered: Cell::new(false),
            is_held: Cell::new(false),
        }
    }

    /// Passes a decision to Envoy.
    #[inline(always)]
    fn finish(
        &self,
        filter: Filter<'_>,
        (decided, reply): (Result<Option<Decided>, Panicked>, Box<LocalReply>),
    ) -> Flow {
        if let Ok(Some(Decided::Answered)) = decided {
            self.is_answered.set(true);
            reply.send(filter);
        }
        REPLY.set(Some(reply));
        match decided {
            Ok(Some(Decided::Answered)) => Flow::Pause,
            Ok(Some(Decided::Waits)) => Flow::Pause,
            Ok(Some(Decided::Held)) => {
                self.is_held.set(true);
                Flow::Hold
            }
            Ok(Some(Decided::Passes) | None) => Flow::Continue,
            Err(Panicked) => on_panic(filter, self),
        }
    }
}

/// Lends the headers of a request, and a reply to write, which is returned too: Envoy is answered once the headers were given back.
#[inline(always)]
fn with_head<R>(
    filter: Filter<'_>,
    act: impl FnOnce(&Head<'_, RequestHeaders<'_>>, &mut LocalReply) -> R,
) -> (R, Box<LocalReply>) {
    let mut reply = REPLY.take().unwrap_or_default();
    let done = filter.with_headers(|headers| {
        let head = Head {
            method: headers.get(":method"),
            path: headers.get(":path"),
            authority: headers.get(":authority"),
            headers,
        };
        act(&head, &mut reply)
    });
    (done, reply)
}

/// A request has arrived.
#[inline(always)]
pub(crate) fn on_headers(filter: Filter<'_>, stream: &Stream, route: Option<&RouteConfig>) -> Flow {
    if route.is_some_and(RouteConfig::is_disabled) {
        return Flow::Continue;
    }
    let decided = with_head(filter, |head, reply| {
        #[cfg(test)]
        crate::panics::asked::arm(head.headers.get(crate::panics::asked::HEADER));
        match route {
            None => stream.process.with(|worker| {
                let id = worker.begin_stream();
                let is_kept = worker.edge.on_stream(id, stream.root);
                // Set before deciding, in case of a panic.
                stream.known.set(Some(id));
                let decided = worker.decide((filter, id, stream.root), head, reply, COMES);
                let is_known = is_kept || matches!(decided, Decided::Waits | Decided::Held);
                stream.known.set(is_known.then_some(id));
                decided
            }),
            Some(route) => stream
                .process
                .with_route(route, stream.root, |worker, root| {
                    let id = worker.begin_stream();
                    worker.edge.on_stream(id, root);
                    stream.known.set(Some(id));
                    worker.decide((filter, id, root), head, reply, COMES)
                }),
        }
    });
    stream.finish(filter, decided)
}

/// A part of the body has arrived.
pub(crate) fn on_body(filter: Filter<'_>, stream: &Stream, is_all: bool) -> Flow {
    let id = match held_form(stream) {
        Ok(id) => id,
        Err(flow) => return flow,
    };
    if filter.body_length() <= MAX_FORM_LENGTH {
        return if is_all {
            take_body(filter, stream, id)
        } else {
            Flow::Hold
        };
    }
    let decided = with_head(filter, |head, reply| {
        stream.process.with(|worker| {
            let end = worker.edge.on_form_too_long(id);
            end.map_or(Decided::Held, |end| {
                reply.write_form(worker.edge.answer_form(&end, head));
                Decided::Answered
            })
        })
    });
    stream.finish(filter, decided)
}

/// The trailers have arrived: the body is complete.
pub(crate) fn on_trailers(filter: Filter<'_>, stream: &Stream) -> Flow {
    held_form(stream).map_or_else(|flow| flow, |id| take_body(filter, stream, id))
}

/// The number of a form whose body is awaited; otherwise the flow of the body. A form whose result is known waits for the wake of
/// its worker: otherwise body and headers would continue before it.
fn held_form(stream: &Stream) -> Result<StreamId, Flow> {
    let id = stream.known.get().filter(|_| !stream.is_answered.get());
    let id = id.filter(|_| stream.is_held.get()).ok_or(Flow::Continue)?;
    let holds = stream.process.with(|worker| worker.edge.holds_form(id));
    match holds {
        Ok(Some(true)) => Ok(id),
        _ => Err(Flow::Hold),
    }
}

/// The body of a form is complete.
fn take_body(filter: Filter<'_>, stream: &Stream, id: StreamId) -> Flow {
    let body = filter.body(MAX_FORM_LENGTH);
    let decided = with_head(filter, |head, reply| {
        stream.process.with(|worker| {
            let step = worker.edge.on_form_body(id, &body);
            worker.take_step(step, head, reply)
        })
    });
    stream.finish(filter, decided)
}

/// A waiting request was woken.
pub(crate) fn on_woken(filter: Filter<'_>, stream: &Stream) {
    while let Some(id) = stream.known.get().filter(|_| !stream.is_answered.get()) {
        let (decided, reply) = with_head(filter, |head, reply| {
            let decided = stream.process.with(|worker| {
                let event = worker.next_event(id)?;
                Some(worker.go_on((filter, id), event, head, reply))
            });
            decided.map(Option::flatten)
        });
        if let Ok(None) = decided {
            // The event was handled already, or there is no edge any more.
            return;
        }
        match stream.finish(filter, (decided, reply)) {
            Flow::Continue => {
                stream.is_answered.set(true);
                return filter.continue_decoding();
            }
            Flow::Hold | Flow::Pause => {}
        }
    }
}

/// The worker has no requests at hand except waiting ones.
pub(crate) fn on_flush(stream: &Stream) {
    let _counted = stream.process.with(Worker::flush);
}

/// A hook has panicked: the request gets 503, unless it was answered already.
#[cold]
pub(crate) fn on_panic(filter: Filter<'_>, stream: &Stream) -> Flow {
    if !stream.is_answered.replace(true) {
        let mut reply = LocalReply::default();
        reply.write_panic();
        reply.send(filter);
    }
    Flow::Pause
}

/// A request has ended.
pub(crate) fn on_end(stream: &Stream) {
    if let Some(id) = stream.known.take() {
        let _counted = stream.process.with(|worker| worker.end_stream(id));
    }
}
