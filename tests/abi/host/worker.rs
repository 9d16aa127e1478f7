//! A thread of Envoy, driven by a test.

use super::HeaderMap;
use super::hostcalls::context::local_response;
use super::hostcalls::grpc::GrpcStream;
use super::hostcalls::http_call::Callout;
use super::message::{End, Outcome, Response};
use super::module::Module;
use super::plugin::{FailurePolicy, Plugin, RELOAD_BACKOFF};
use super::shared::{Shared, Thread};
use super::state::VmFailure;
use super::usage::Usage;
use super::vm::{StartFailure, Vm};
use std::rc::Rc;
use std::time::Duration;

/// Body of the router's answer to a callout whose connection is refused.
const REFUSED: &str = "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
/// Body of the router's answer to a callout whose connection is closed before the response.
const DISCONNECTED: &str = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
/// Body of the router's answer to a callout that times out.
const TIMED_OUT: &str = "upstream request timeout";

/// A request of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    generation: usize,
    context: u32,
}

/// A root context of a worker: a plugin configuration in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootId {
    generation: usize,
    context: u32,
}

/// A request under construction.
pub struct RequestBuilder<'a> {
    worker: &'a mut Worker,
    root: Option<RootId>,
    headers: HeaderMap,
}

impl RequestBuilder<'_> {
    /// Adds a header; `host` replaces the existing one.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if name.eq_ignore_ascii_case("host") {
            self.headers.set(name, value);
        } else {
            self.headers.add(name, value);
        }
        self
    }

    /// Sends it through a listener with another configuration than the VM was created for.
    #[must_use]
    pub fn root(mut self, root: RootId) -> Self {
        self.root = Some(root);
        self
    }

    /// Sends it without a body.
    pub fn send(self) -> StreamId {
        self.worker.begin(self.root, self.headers, End::Last)
    }

    /// Sends its headers; the body follows ([`Worker::send_body`]).
    pub fn open(self) -> StreamId {
        self.worker.begin(self.root, self.headers, End::More)
    }
}

/// A thread with its VM. If a failed VM was replaced, the old one is kept: its streams may still be open.
pub struct Worker {
    thread: Thread,
    module: Module,
    shared: Rc<Shared>,
    plugin: Rc<Plugin>,
    vms: Vec<Vm>,
    loaded: Duration,
}

impl Worker {
    pub(crate) fn start(
        thread: Thread,
        module: &Module,
        shared: &Rc<Shared>,
        plugin: &Rc<Plugin>,
    ) -> Result<Self, StartFailure> {
        Ok(Self {
            thread,
            module: module.clone(),
            shared: Rc::clone(shared),
            plugin: Rc::clone(plugin),
            vms: vec![Vm::start(module, shared, plugin, thread, 0)?],
            loaded: shared.clock.monotonic(),
        })
    }

    /// The thread's role.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread
    }

    /// Prepares a request.
    pub fn request(&mut self, method: &str, path: impl AsRef<[u8]>) -> RequestBuilder<'_> {
        let mut headers = HeaderMap::default();
        headers.add(":authority", "go.example");
        headers.add(":path", path);
        headers.add(":method", method);
        headers.add(":scheme", "http");
        RequestBuilder {
            worker: self,
            root: None,
            headers,
        }
    }

    /// Root context that the VM was created for; requests belong to it by default.
    ///
    /// # Panics
    /// Panics if every root has ended.
    #[must_use]
    pub fn root(&self) -> RootId {
        let roots = self.last().state().roots.keys();
        RootId {
            generation: self.vms.len() - 1,
            context: *roots.min().expect("a root that lives"),
        }
    }

    /// Starts another plugin configuration in the current VM, as Envoy does for a new listener with one.
    ///
    /// # Errors
    /// Fails if the plugin refuses it.
    pub fn start_root(&mut self, configuration: &str) -> Result<RootId, StartFailure> {
        let generation = self.vms.len() - 1;
        let context = self.current().start_root(configuration.as_bytes())?;
        Ok(RootId {
            generation,
            context,
        })
    }

    /// Ends a plugin configuration, as Envoy does when the last listener using it has drained. Callouts and gRPC streams
    /// made in its root context end silently.
    pub fn end_root(&mut self, root: RootId) {
        self.vm(root.generation).end_root(root.context);
    }

    /// Ticks once for a root context, whether or not a tick is due.
    ///
    /// # Panics
    /// Panics if it has ended.
    pub fn tick_root(&mut self, root: RootId) {
        let vm = self.vm(root.generation);
        assert!(vm.state().roots.contains_key(&root.context), "{root:?}");
        vm.drive().tick(root.context);
    }

    /// Sends a GET and returns its outcome.
    pub fn get(&mut self, path: impl AsRef<[u8]>) -> Outcome {
        let stream = self.request("GET", path).send();
        self.outcome(stream)
    }

    /// Outcome of a request so far.
    #[must_use]
    pub fn outcome(&self, stream: StreamId) -> Outcome {
        let streams = &self.vms[stream.generation].state().streams;
        streams
            .get(&stream.context)
            .expect("a stream of this worker")
            .outcome()
    }

    /// Filter state of a request by that name; empty if unset.
    #[must_use]
    pub fn filter_state(&self, stream: StreamId, name: &str) -> String {
        let streams = &self.vms[stream.generation].state().streams;
        let stream = streams.get(&stream.context);
        let value = stream.and_then(|stream| stream.filter_state.get(name.as_bytes()));
        String::from_utf8_lossy(value.map_or(&[], Vec::as_slice)).into_owned()
    }

    /// Sends a part of the request body.
    pub fn send_body(&mut self, stream: StreamId, data: &[u8], end: End) {
        self.vm(stream.generation)
            .drive()
            .request_data(stream.context, data, end);
    }

    /// Ends the request with trailers, after a body of which no part was the last.
    pub fn send_trailers(&mut self, stream: StreamId) {
        self.vm(stream.generation)
            .drive()
            .request_trailers(stream.context);
    }

    /// Request body that has passed the filter so far, and whether it is complete.
    #[must_use]
    pub fn passed_body(&self, stream: StreamId) -> (Vec<u8>, End) {
        let message = &self.vms[stream.generation].state().streams[&stream.context].request;
        let end = if message.has_passed_end {
            End::Last
        } else {
            End::More
        };
        (message.passed.clone(), end)
    }

    /// Response body that has passed the filter so far.
    #[must_use]
    pub fn received_body(&self, stream: StreamId) -> Vec<u8> {
        let streams = &self.vms[stream.generation].state().streams;
        streams[&stream.context].response.passed.clone()
    }

    /// Answers a request that has passed the filter.
    ///
    /// # Panics
    /// Panics if it has not.
    pub fn respond(&mut self, stream: StreamId, response: &Response) {
        let end = if response.body.is_empty() {
            End::Last
        } else {
            End::More
        };
        self.respond_headers(stream, response.headers.clone(), end);
        if end == End::More {
            self.respond_body(stream, &response.body, End::Last);
        }
    }

    /// Begins to answer a request that has passed the filter.
    ///
    /// # Panics
    /// Panics if it has not.
    pub fn respond_headers(&mut self, stream: StreamId, headers: HeaderMap, end: End) {
        let outcome = self.outcome(stream);
        assert!(
            matches!(outcome, Outcome::PassedThrough { .. }),
            "{outcome:?}"
        );
        let mut driver = self.vms[stream.generation].drive();
        driver.response_headers(stream.context, headers, end);
    }

    /// Sends the next part of an answer.
    pub fn respond_body(&mut self, stream: StreamId, data: &[u8], end: End) {
        self.vm(stream.generation)
            .drive()
            .response_data(stream.context, data, end);
    }

    /// Closes the client's connection.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.vm(stream.generation).drive().close(stream.context);
    }

    /// Pending HTTP callouts, oldest first.
    #[must_use]
    pub fn callouts(&self) -> Vec<Callout> {
        let vms = self.vms.iter();
        vms.flat_map(|vm| vm.state().callouts.pending.values().cloned())
            .collect()
    }

    /// The oldest pending HTTP callout whose path has that prefix.
    ///
    /// # Panics
    /// Panics if there is none.
    #[must_use]
    pub fn callout_to(&self, path: &str) -> Callout {
        let mut callouts = self.callouts().into_iter();
        let found = callouts.find(|each| each.path().starts_with(path));
        found.unwrap_or_else(|| panic!("no callout to {path}"))
    }

    /// The only pending HTTP callout.
    ///
    /// # Panics
    /// Panics if there is none, or more than one.
    #[must_use]
    #[track_caller]
    pub fn callout(&self) -> Callout {
        let mut callouts = self.callouts();
        assert_eq!(callouts.len(), 1, "{callouts:?}");
        callouts.remove(0)
    }

    /// Answers a callout. Nothing happens if it has already ended.
    pub fn answer(&mut self, callout: &Callout, response: Response) {
        self.vm(callout.generation)
            .drive()
            .answer(callout.token, response);
    }

    /// Refuses the connection of a callout: for the module, that is an answer with status 503.
    pub fn refuse_callout(&mut self, callout: &Callout) {
        self.answer(callout, router_response(503, REFUSED));
    }

    /// Closes the connection of a callout before the response: also an answer with status 503.
    pub fn disconnect_callout(&mut self, callout: &Callout) {
        self.answer(callout, router_response(503, DISCONNECTED));
    }

    /// Times a callout out: for the module, that is an answer with status 504.
    pub fn time_out_callout(&mut self, callout: &Callout) {
        self.answer(callout, router_response(504, TIMED_OUT));
    }

    /// Aborts a callout in the middle of its response: the module gets no headers at all.
    pub fn reset_callout(&mut self, callout: &Callout) {
        self.vm(callout.generation)
            .drive()
            .reset_callout(callout.token);
    }

    /// Open gRPC streams, oldest first.
    #[must_use]
    pub fn grpc_streams(&self) -> Vec<GrpcStream> {
        let vms = self.vms.iter();
        vms.flat_map(|vm| vm.state().grpc.open.values().cloned())
            .collect()
    }

    /// Sends initial metadata from the peer.
    pub fn grpc_initial_metadata(&mut self, stream: &GrpcStream, metadata: &HeaderMap) {
        let mut driver = self.vms[stream.generation].drive();
        driver.grpc_initial_metadata(stream.root, stream.token, metadata);
    }

    /// Sends a message from the peer.
    pub fn grpc_message(&mut self, stream: &GrpcStream, message: impl Into<Vec<u8>>) {
        let mut driver = self.vms[stream.generation].drive();
        driver.grpc_message(stream.token, message.into());
    }

    /// Closes a stream from the peer's side, with a status and trailing metadata.
    pub fn grpc_close(&mut self, stream: &GrpcStream, status: u32, metadata: &HeaderMap) {
        let mut driver = self.vms[stream.generation].drive();
        if !driver.state().grpc.open.contains_key(&stream.token) {
            return;
        }
        driver.grpc_trailing_metadata(stream.root, stream.token, metadata);
        driver.grpc_closed(stream.root, stream.token, status);
    }

    /// Ticks once for every root that has requested ticks, whether or not a tick is due.
    ///
    /// # Panics
    /// Panics if the module has not requested ticks.
    pub fn tick(&mut self) {
        let roots = self.last().state().roots.iter();
        let ticking: Vec<u32> = roots
            .filter_map(|(id, root)| root.timer.map(|_| *id))
            .collect();
        assert!(!ticking.is_empty(), "the module has asked for no ticks");
        for root in ticking {
            self.current().drive().tick(root);
        }
    }

    /// Shortest tick period requested by a root.
    #[must_use]
    pub fn tick_period(&self) -> Option<Duration> {
        let roots = self.last().state().roots.values();
        roots
            .filter_map(|root| root.timer.map(|timer| timer.period))
            .min()
    }

    /// Cost of the current VM so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.last().usage()
    }

    /// Size of the current VM's linear memory in bytes, which never shrinks.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.last().memory_size()
    }

    /// True if the linear memory of the current VM contains these bytes.
    #[must_use]
    pub fn has_in_memory(&self, bytes: &[u8]) -> bool {
        self.last().has_in_memory(bytes)
    }

    /// Makes the next callback of the current VM trap, for lack of fuel.
    ///
    /// # Panics
    /// Panics if the module is not metered.
    pub fn take_fuel(&mut self) {
        self.current().take_fuel();
    }

    /// Failures of this thread's VMs, oldest first.
    #[must_use]
    pub fn failures(&self) -> Vec<VmFailure> {
        let vms = self.vms.iter();
        vms.filter_map(|vm| vm.state().failure.clone()).collect()
    }

    /// Number of times the VM was replaced.
    #[must_use]
    pub fn reloads(&self) -> usize {
        self.vms.len() - 1
    }

    /// Time of the next event: a tick, or the timeout of a callout.
    pub(crate) fn next_event(&self) -> Option<Duration> {
        let roots = self.last().state().roots.values();
        let ticks = roots.filter_map(|root| root.timer.map(|timer| timer.due));
        let timeouts = self
            .callouts()
            .into_iter()
            .filter_map(|callout| callout.deadline);
        timeouts.chain(ticks).min()
    }

    /// Times out the callouts that are due.
    pub(crate) fn expire(&mut self) {
        let now = self.shared.clock.monotonic();
        for callout in self.callouts() {
            if callout.deadline.is_some_and(|deadline| deadline <= now) {
                self.time_out_callout(&callout);
            }
        }
    }

    /// Ticks if a tick is due.
    pub(crate) fn tick_if_due(&mut self) {
        let now = self.shared.clock.monotonic();
        let mut due = Vec::new();
        for (id, root) in &mut self.current().state_mut().roots {
            if let Some(timer) = root.timer.as_mut().filter(|timer| timer.due <= now) {
                timer.due = now + timer.period;
                due.push(*id);
            }
        }
        for root in due {
            self.current().drive().tick(root);
        }
    }

    fn begin(&mut self, root: Option<RootId>, headers: HeaderMap, end: End) -> StreamId {
        self.reload_if_failed();
        let root = root.unwrap_or_else(|| self.root());
        let generation = root.generation;
        let context = self.vm(generation).drive().open(root.context, headers, end);
        StreamId {
            generation,
            context,
        }
    }

    /// Replaces a failed VM for the next request, but not more often than the backoff permits.
    fn reload_if_failed(&mut self) {
        let now = self.shared.clock.monotonic();
        let may_reload = self.plugin.failure_policy == FailurePolicy::Reload
            && now.saturating_sub(self.loaded) >= RELOAD_BACKOFF;
        if self.last().state().failure.is_none() || !may_reload {
            return;
        }
        self.loaded = now;
        let generation = self.vms.len();
        let vm = Vm::start(
            &self.module,
            &self.shared,
            &self.plugin,
            self.thread,
            generation,
        );
        if let Ok(vm) = vm {
            self.vms.push(vm);
        }
    }

    fn vm(&mut self, generation: usize) -> &mut Vm {
        &mut self.vms[generation]
    }

    fn last(&self) -> &Vm {
        self.vms.last().expect("a worker has a VM")
    }

    fn current(&mut self) -> &mut Vm {
        self.vms.last_mut().expect("a worker has a VM")
    }
}

/// Response of Envoy's router for a failed upstream.
fn router_response(status: u32, body: &str) -> Response {
    local_response(status, body.as_bytes().to_vec(), &HeaderMap::default())
}
