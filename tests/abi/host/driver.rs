//! Calls into a VM, and Envoy's actions right after them.

use super::exports::{Callback, Exports};
use super::state::{Deferred, VM_CONTEXT, VmFailure, VmState};
use std::rc::Rc;
use wasmtime::{StoreContextMut, WasmParams, WasmResults};

/// Access to one VM: from outside through its store, or from within a hostcall through the caller.
pub(crate) struct Driver<'a> {
    pub(crate) store: StoreContextMut<'a, VmState>,
}

/// Outcome of a call into the VM.
pub(crate) enum Entered<T> {
    /// The module does not export the callback.
    Absent,
    /// The module trapped, and the VM has failed.
    Trapped,
    /// The module has returned.
    Returned(T),
}

impl Driver<'_> {
    pub(crate) fn state(&self) -> &VmState {
        self.store.data()
    }

    pub(crate) fn state_mut(&mut self) -> &mut VmState {
        self.store.data_mut()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Calls a callback on a context, then runs the actions deferred meanwhile. If the VM has failed or the module has no
    /// such callback, nothing happens at all: actions deferred before stay deferred.
    pub(crate) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        which: impl FnOnce(&Exports) -> &Callback<P, R>,
        context: u32,
        params: P,
    ) -> Option<R> {
        if self.has_failed() {
            return None;
        }
        let result = match self.enter(which, context, params) {
            Entered::Absent => return None,
            Entered::Trapped => None,
            Entered::Returned(result) => Some(result),
        };
        self.after_call();
        result
    }

    /// Calls a callback on a context. Contexts are saved and restored around it, because the call may come from a
    /// hostcall.
    pub(crate) fn enter<P: WasmParams, R: WasmResults>(
        &mut self,
        which: impl FnOnce(&Exports) -> &Callback<P, R>,
        context: u32,
        params: P,
    ) -> Entered<R> {
        let Some(exports) = self.state().exports.clone() else {
            return Entered::Absent;
        };
        let callback = which(&exports);
        let Some(func) = &callback.func else {
            return Entered::Absent;
        };
        let state = self.state_mut();
        *state.usage.callbacks.entry(callback.name).or_default() += 1;
        let saved = (state.current, state.effective);
        (state.current, state.effective) = (Some(context), VM_CONTEXT);
        let result = func.call(&mut self.store, params);
        let state = self.state_mut();
        (state.current, state.effective) = saved;
        match result {
            Ok(result) => Entered::Returned(result),
            Err(error) => {
                self.fail(callback.name, &error);
                Entered::Trapped
            }
        }
    }

    fn fail(&mut self, callback: &'static str, error: &wasmtime::Error) {
        let failure = VmFailure {
            callback,
            message: format!("{error:?}"),
        };
        self.state_mut().failure.get_or_insert(failure);
    }

    /// Runs the actions deferred by hostcalls, in order, including those that they defer in turn.
    pub(crate) fn after_call(&mut self) {
        self.state_mut().stop_iteration = false;
        while let Some(action) = self.state_mut().deferred.pop_front() {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Deferred) {
        match action {
            Deferred::LocalResponse { stream, response } => self.respond_locally(stream, response),
            Deferred::Reset { stream } => self.close(stream),
            Deferred::DropCallout => self.drop_callout(),
            Deferred::GrpcClosed {
                root,
                token,
                status,
            } => self.grpc_closed(root, token, status),
            Deferred::DropGrpcMessage => self.drop_grpc_message(),
            Deferred::DropGrpcClose => self.drop_grpc_close(),
            Deferred::Continue { stream } => self.continue_request(stream),
        }
    }

    /// The exports, once the VM is instantiated.
    pub(crate) fn exports(&self) -> Option<Rc<Exports>> {
        self.state().exports.clone()
    }
}
