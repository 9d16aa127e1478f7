//! The worker that a VM holds between two callbacks, which borrow it in turn.

use crate::envoy::{Envoy, edge_name};
use crate::pairs::Pairs;
use edgelink_filter_core::edge::{Edge, Resumed};
use edgelink_filter_core::forms::FormEnd;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// The state of a VM.
pub(super) struct Worker {
    /// It tracks the root contexts, and which of them makes the callouts: callouts of a stream's own context would end with
    /// that stream, and all other waiters would wait for ever.
    pub(super) edge: Edge,
    pub(super) envoy: Envoy,
    /// The name of the edge in reports of clicks; `None` if it has none.
    pub(super) edge_name: Option<Rc<str>>,
    pub(super) pairs: Pairs,
    /// Waiters whose lookup is complete and that are not answered yet.
    pub(super) resumed: VecDeque<Resumed>,
    /// Forms that have ended and are not answered yet.
    pub(super) ended_forms: VecDeque<FormEnd>,
    /// Set while the tick period is short for these queues.
    pub(super) is_hurrying: bool,
}

impl Worker {
    pub(super) fn new(edge: Edge) -> Self {
        Self {
            edge,
            envoy: Envoy::new(),
            edge_name: edge_name(),
            pairs: Pairs::default(),
            resumed: VecDeque::new(),
            ended_forms: VecDeque::new(),
            is_hurrying: false,
        }
    }
}

/// Makes the worker, unless there is one.
pub(super) fn make_once(make: impl FnOnce() -> Worker) {
    WORKER.with(|place| {
        place.borrow_mut().get_or_insert_with(make);
    });
}

/// Runs `act` with the worker. `None` if there is none yet, or if it is already borrowed.
pub(super) fn with_worker<R>(act: impl FnOnce(&mut Worker) -> R) -> Option<R> {
    WORKER.with(|worker| {
        let mut worker = worker.try_borrow_mut().ok()?;
        worker.as_mut().map(act)
    })
}
