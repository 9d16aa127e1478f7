//! Requests, on the threads of their workers.
//!
//! The edge decides side by side with others, or in a turn; the proxy is called after that, because a request may end while it is
//! answered.

use crate::panics::Panicked;
use crate::process::Process;
use crate::proxy::{Request, Wake, Waker};
use crate::reply::LocalReply;
use crate::routes::RouteConfig;
use crate::worker::{Decided, Worker};
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::flights::StreamId;
use edgelink_filter_core::request::Head;
use edgelink_wire::password::MAX_FORM_LENGTH;
use std::cell::Cell;

/// A request as held by the proxy.
#[derive(Debug)]
pub struct Stream<W: 'static> {
    process: &'static Process<W>,
    root: RootId,
    /// The number by which the edge identifies it, if it does: the edge must then be notified when the request ends.
    known: Cell<Option<StreamId>>,
    is_answered: Cell<bool>,
    /// True while its body is held, until it is answered or passes.
    is_held: Cell<bool>,
}

/// Flow control of a request in the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It goes on with what follows in the proxy.
    Continue,
    /// Its headers are held while the body arrives. A part of the body waits for the rest, or with it.
    Hold,
    /// It waits, or is answered.
    Pause,
}

thread_local! {
    /// The reply of the running hook. Each thread reuses one, so that nothing is allocated.
    static REPLY: Cell<Option<Box<LocalReply>>> = const { Cell::new(None) };
}

impl<W: Waker> Stream<W> {
    /// A request of a configuration.
    #[must_use]
    pub fn new(process: &'static Process<W>, root: RootId) -> Self {
        Self {
            process,
            root,
            known: Cell::new(None),
            is_answered: Cell::new(false),
            is_held: Cell::new(false),
        }
    }

    /// Passes a decision to the proxy.
    #[inline(always)]
    fn finish(
        &self,
        request: &impl Request<Waker = W>,
        (decided, reply): (Result<Option<Decided>, Panicked>, Box<LocalReply>),
    ) -> Flow {
        if let Ok(Some(Decided::Answered)) = decided {
            self.is_answered.set(true);
            request.answer(&reply);
        }
        REPLY.set(Some(reply));
        match decided {
            Ok(Some(Decided::Answered | Decided::Waits)) => Flow::Pause,
            Ok(Some(Decided::Held)) => {
                self.is_held.set(true);
                Flow::Hold
            }
            Ok(Some(Decided::Passes) | None) => Flow::Continue,
            Err(Panicked) => self.on_panic(request),
        }
    }

    /// The headers of the request have arrived.
    #[inline(always)]
    pub fn on_headers<R: Request<Waker = W>>(
        &self,
        request: &R,
        route: Option<&RouteConfig>,
    ) -> Flow {
        if route.is_some_and(RouteConfig::is_disabled) {
            return Flow::Continue;
        }
        let decided = with_head(request, |head, reply| {
            let to = (self.root, route);
            let arrival = match self.process.answer_hit((request, to), head, reply)? {
                Ok(decided) => return Ok(Some(decided)),
                Err(arrival) => arrival,
            };
            match route {
                None => self.process.with(|worker| {
                    let id = worker.begin_stream();
                    let is_kept = worker.edge.on_stream(id, self.root);
                    // Set before deciding, in case of a panic.
                    self.known.set(Some(id));
                    let decided = worker.decide((request, id, self.root), head, reply, arrival);
                    let is_known = is_kept || matches!(decided, Decided::Waits | Decided::Held);
                    self.known.set(is_known.then_some(id));
                    decided
                }),
                Some(route) => self.process.with_route(route, self.root, |worker, root| {
                    let id = worker.begin_stream();
                    worker.edge.on_stream(id, root);
                    self.known.set(Some(id));
                    worker.decide((request, id, root), head, reply, arrival)
                }),
            }
        });
        self.finish(request, decided)
    }

    /// A part of the body has arrived, the last one if `is_all`.
    pub fn on_body<R: Request<Waker = W>>(&self, request: &R, is_all: bool) -> Flow {
        let id = match self.held_form() {
            Ok(id) => id,
            Err(flow) => return flow,
        };
        if request.body_length() <= MAX_FORM_LENGTH {
            return if is_all {
                self.take_body(request, id)
            } else {
                Flow::Hold
            };
        }
        let decided = with_head(request, |head, reply| {
            self.process.with(|worker| {
                let end = worker.edge.on_form_too_long(id);
                end.map_or(Decided::Held, |end| {
                    reply.write_form(worker.edge.answer_form(&end, head));
                    Decided::Answered
                })
            })
        });
        self.finish(request, decided)
    }

    /// The trailers have arrived: the body is complete.
    pub fn on_trailers<R: Request<Waker = W>>(&self, request: &R) -> Flow {
        self.held_form()
            .map_or_else(|flow| flow, |id| self.take_body(request, id))
    }

    /// The number of a form whose body is awaited; otherwise the flow of the body. A form whose result is known waits for the wake of
    /// its worker: otherwise body and headers would continue before it.
    fn held_form(&self) -> Result<StreamId, Flow> {
        let id = self.known.get().filter(|_| !self.is_answered.get());
        let id = id.filter(|_| self.is_held.get()).ok_or(Flow::Continue)?;
        let holds = self.process.with(|worker| worker.edge.holds_form(id));
        match holds {
            Ok(Some(true)) => Ok(id),
            _ => Err(Flow::Hold),
        }
    }

    /// The body of a form is complete.
    fn take_body<R: Request<Waker = W>>(&self, request: &R, id: StreamId) -> Flow {
        let body = request.body(MAX_FORM_LENGTH);
        let decided = with_head(request, |head, reply| {
            self.process.with(|worker| {
                let step = worker.edge.on_form_body(id, &body);
                worker.take_step(step, head, reply)
            })
        });
        self.finish(request, decided)
    }

    /// The request was woken.
    pub fn on_woken<R: Request<Waker = W>>(&self, request: &R, to: Wake) {
        if to == Wake::Flush {
            let _counted = self.process.with(Worker::flush);
            return;
        }
        while let Some(id) = self.known.get().filter(|_| !self.is_answered.get()) {
            let (decided, reply) = with_head(request, |head, reply| {
                let decided = self.process.with(|worker| {
                    let event = worker.next_event(id)?;
                    Some(worker.go_on((request, id), event, head, reply))
                });
                decided.map(Option::flatten)
            });
            if let Ok(None) = decided {
                // The event was handled already, or there is no edge any more.
                return;
            }
            match self.finish(request, (decided, reply)) {
                Flow::Continue => {
                    self.is_answered.set(true);
                    return request.go_on();
                }
                Flow::Hold | Flow::Pause => {}
            }
        }
    }

    /// A hook has panicked: the request gets 503, unless it was answered already.
    #[cold]
    pub fn on_panic(&self, request: &impl Request<Waker = W>) -> Flow {
        if !self.is_answered.replace(true) {
            let mut reply = LocalReply::default();
            reply.write_panic();
            request.answer(&reply);
        }
        Flow::Pause
    }

    /// The request has ended, answered or not.
    pub fn on_end(&self) {
        if let Some(id) = self.known.take() {
            let _counted = self.process.with(|worker| worker.end_stream(id));
        }
    }
}

/// Lends the headers of a request, and a reply to write, which is returned too: the proxy is answered once the headers were given back.
#[inline(always)]
fn with_head<Q: Request, R>(
    request: &Q,
    act: impl FnOnce(&Head<'_, Q::Headers<'_>>, &mut LocalReply) -> R,
) -> (R, Box<LocalReply>) {
    let mut reply = REPLY.take().unwrap_or_default();
    let done = request.with_head(|head| act(head, &mut reply));
    (done, reply)
}
