//! Calls into a VM, and what Envoy does right after them.

use super::exports::{Callback, Exports};
use super::state::{Deferred, VM_CONTEXT, VmFailure, VmState};
use std::rc::Rc;
use wasmtime::{StoreContextMut, WasmParams, WasmResults};

/// One VM, to be driven: from outside through its store, or from within a hostcall through the caller.
pub(crate) struct Driver<'a> {
    pub(crate) store: StoreContextMut<'a, VmState>,
}

/// How a call into the VM has ended.
pub(crate) enum Entered<T> {
    /// The module does not export the callback.
    Absent,
    /// The module was trapped, and the VM has failed.
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

    /// Calls a callback on a context, and does what was put off meanwhile. Nothing at all happens in a failed VM, or
    /// where the module has no such callback: what was put off before is put off further.
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

    /// Calls a callback on a context. Contexts are saved and restored around it, for it may come from a hostcall.
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

    /// Does what hostcalls have put off, in order, and what that puts off in turn.
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
