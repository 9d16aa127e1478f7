//! The host's state for one VM.

use super::HeaderMap;
use super::exports::Exports;
use super::hostcalls::context::Timer;
use super::hostcalls::grpc::Grpc;
use super::hostcalls::http_call::Callouts;
use super::hostcalls::metric::MetricIds;
use super::message::{Outcome, Response};
use super::plugin::Plugin;
use super::shared::{Shared, Thread};
use super::usage::Usage;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use wasmtime::Memory;

/// The VM's own context, which belongs to no plugin: it allocates memory.
pub(crate) const VM_CONTEXT: u32 = 0;

/// Failure of a VM: its place and cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmFailure {
    /// The callback that trapped.
    pub callback: &'static str,
    /// The trap, with the module's backtrace.
    pub message: String,
}

/// Set of permitted hostcalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// All of them.
    None,
    /// Hostcalls permitted to a starting module.
    Start,
    /// Hostcalls permitted to an allocator.
    Allocation,
}

/// Action that Envoy defers until the module has returned.
#[derive(Debug)]
pub(crate) enum Deferred {
    LocalResponse { stream: u32, response: Response },
    Reset { stream: u32 },
    DropCallout,
    GrpcClosed { root: u32, token: u32, status: u32 },
    DropGrpcMessage,
    DropGrpcClose,
    Continue { stream: u32 },
}

/// One direction through the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamHalf {
    Request,
    Response,
}

/// A root context: a plugin configuration in use.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) configuration: Rc<[u8]>,
    pub(crate) timer: Option<Timer>,
}

/// The data of a VM's store.
pub(crate) struct VmState {
    pub(crate) shared: Rc<Shared>,
    pub(crate) plugin: Rc<Plugin>,
    pub(crate) thread: Thread,
    /// Distinguishes this VM from others of the same thread.
    pub(crate) generation: usize,
    pub(crate) exports: Option<Rc<Exports>>,
    pub(crate) memory: Option<Memory>,
    pub(crate) restriction: Restriction,
    /// The live contexts; each is the child of another, or its own parent.
    pub(crate) contexts: BTreeMap<u32, u32>,
    pub(crate) next_context: u32,
    /// The live roots, oldest first.
    pub(crate) roots: BTreeMap<u32, Root>,
    /// The context of the running callback, if any.
    pub(crate) current: Option<u32>,
    /// The context that hostcalls apply to; 0 for the current one.
    pub(crate) effective: u32,
    pub(crate) is_configuring: bool,
    pub(crate) stop_iteration: bool,
    pub(crate) deferred: VecDeque<Deferred>,
    /// Streams by their context, ended ones included.
    pub(crate) streams: BTreeMap<u32, HttpStream>,
    pub(crate) callouts: Callouts,
    pub(crate) grpc: Grpc,
    pub(crate) metrics: MetricIds,
    pub(crate) usage: Usage,
    pub(crate) failure: Option<VmFailure>,
}

impl VmState {
    pub(crate) fn new(
        shared: Rc<Shared>,
        plugin: Rc<Plugin>,
        thread: Thread,
        generation: usize,
    ) -> Self {
        Self {
            shared,
            plugin,
            thread,
            generation,
            exports: None,
            memory: None,
            restriction: Restriction::None,
            contexts: BTreeMap::from([(VM_CONTEXT, VM_CONTEXT)]),
            next_context: 1,
            roots: BTreeMap::new(),
            current: None,
            effective: VM_CONTEXT,
            is_configuring: false,
            stop_iteration: false,
            deferred: VecDeque::new(),
            streams: BTreeMap::new(),
            callouts: Callouts::default(),
            grpc: Grpc::default(),
            metrics: MetricIds::default(),
            usage: Usage::default(),
            failure: None,
        }
    }

    /// Creates a context; without a parent, a root.
    pub(crate) fn new_context(&mut self, parent: Option<u32>) -> u32 {
        let id = self.next_context;
        self.next_context += 1;
        self.contexts.insert(id, parent.unwrap_or(id));
        id
    }

    /// The context that a hostcall applies to.
    pub(crate) fn context(&self) -> u32 {
        if self.effective != VM_CONTEXT && self.contexts.contains_key(&self.effective) {
            return self.effective;
        }
        self.current.unwrap_or(VM_CONTEXT)
    }

    /// The root of a context.
    pub(crate) fn root_of(&self, context: u32) -> u32 {
        self.contexts.get(&context).copied().unwrap_or(context)
    }

    /// The root of the context that a hostcall applies to.
    pub(crate) fn root(&mut self) -> Option<&mut Root> {
        let root = self.root_of(self.context());
        self.roots.get_mut(&root)
    }

    /// Removes a context; a root together with its callouts and gRPC streams.
    pub(crate) fn remove_context(&mut self, context: u32) {
        self.contexts.remove(&context);
        self.roots.remove(&context);
        self.callouts
            .pending
            .retain(|_, callout| callout.root != context);
        self.grpc.open.retain(|_, stream| stream.root != context);
    }

    /// The stream that a hostcall applies to, if any.
    pub(crate) fn stream(&mut self) -> Option<&mut HttpStream> {
        let context = self.context();
        self.streams.get_mut(&context)
    }
}

/// A request and its response, as held by Envoy's filter manager.
#[derive(Debug)]
pub(crate) struct HttpStream {
    pub(crate) request: Message,
    pub(crate) response: Message,
    /// Set while a callback of the request direction runs.
    pub(crate) is_decoding: bool,
    /// Local response to send when that callback has returned.
    pub(crate) prepared: Option<Response>,
    /// Set if the response is a local one.
    pub(crate) is_local: bool,
    /// Set once the VM has failed this stream, and is no longer called for it.
    pub(crate) has_failed: bool,
    pub(crate) is_live: bool,
    /// Filter state set by modules, by name.
    pub(crate) filter_state: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl HttpStream {
    pub(crate) fn new(headers: HeaderMap) -> Self {
        Self {
            request: Message {
                headers: Some(headers),
                ..Message::default()
            },
            response: Message::default(),
            is_decoding: false,
            prepared: None,
            is_local: false,
            has_failed: false,
            is_live: true,
            filter_state: BTreeMap::new(),
        }
    }

    pub(crate) fn message(&mut self, direction: StreamHalf) -> &mut Message {
        match direction {
            StreamHalf::Request => &mut self.request,
            StreamHalf::Response => &mut self.response,
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        let headers = self.request.headers.as_ref();
        headers.and_then(|headers| headers.get(":method")) == Some(b"HEAD")
    }

    /// Outcome of the stream so far.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.response.has_passed_end {
            let response = Response {
                headers: self.response.headers.clone().unwrap_or_default(),
                body: self.response.passed.clone(),
            };
            return if self.is_local {
                Outcome::LocalResponse(response)
            } else {
                Outcome::Responded(response)
            };
        }
        if !self.is_live {
            return Outcome::Closed;
        }
        match &self.request.headers {
            Some(headers) if self.request.have_headers_passed => Outcome::PassedThrough {
                headers: headers.clone(),
            },
            _ => Outcome::Paused,
        }
    }
}

/// One direction of a stream.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) headers: Option<HeaderMap>,
    /// Set while the module can see the headers.
    pub(crate) are_headers_visible: bool,
    /// The body that the module can see.
    pub(crate) buffer: Option<Vec<u8>>,
    /// Set while the filter holds the message, and sees no more of it.
    pub(crate) is_paused: bool,
    /// Set while the filter holds only the headers (`StopIteration`, with `allow_on_headers_stop_iteration`): it sees the
    /// body, which is buffered until it releases both.
    pub(crate) is_held: bool,
    /// Set if its end arrived while it was held.
    pub(crate) has_ended: bool,
    pub(crate) have_headers_passed: bool,
    /// The body that has passed the filter.
    pub(crate) passed: Vec<u8>,
    pub(crate) has_passed_end: bool,
}
