//! Events for the module: answers of callouts, gRPC messages, ticks.

use super::HeaderMap;
use super::driver::Driver;
use super::hostcalls::http_call::Callout;
use super::message::Response;
use super::state::Deferred;

impl Driver<'_> {
    /// Answers a callout. The answer is dropped if the callout was cancelled or answered before.
    pub(crate) fn answer(&mut self, token: u32, response: Response) {
        let Some(callout) = self.state_mut().callouts.pending.remove(&token) else {
            return;
        };
        let (headers, body) = (response.headers.len() as u32, response.body.len() as u32);
        self.state_mut().callouts.response = Some(response);
        self.callout_is_over(&callout, headers, body);
    }

    /// Aborts a callout: there is no response to read.
    pub(crate) fn reset_callout(&mut self, token: u32) {
        let Some(callout) = self.state_mut().callouts.pending.remove(&token) else {
            return;
        };
        self.callout_is_over(&callout, 0, 0);
    }

    /// Calls back the root context, even if one of its streams made the callout.
    fn callout_is_over(&mut self, callout: &Callout, headers: u32, body: u32) {
        let state = self.state_mut();
        let token = callout.token;
        state.deferred.push_back(Deferred::DropCallout);
        let root = callout.root;
        let params = (root, token, headers, body, 0);
        self.call(|exports| &exports.http_call_response, root, params);
    }

    pub(crate) fn drop_callout(&mut self) {
        self.state_mut().callouts.response = None;
    }

    /// Delivers initial metadata. Envoy does this even from within the hostcall that opens a stream that fails
    /// immediately.
    pub(crate) fn grpc_initial_metadata(&mut self, root: u32, token: u32, metadata: &HeaderMap) {
        let count = metadata.len() as u32;
        self.call(
            |exports| &exports.grpc_receive_initial_metadata,
            root,
            (root, token, count),
        );
    }

    /// Delivers trailing metadata, like [`Self::grpc_initial_metadata`].
    pub(crate) fn grpc_trailing_metadata(&mut self, root: u32, token: u32, metadata: &HeaderMap) {
        let count = metadata.len() as u32;
        self.call(
            |exports| &exports.grpc_receive_trailing_metadata,
            root,
            (root, token, count),
        );
    }

    /// Delivers a message.
    pub(crate) fn grpc_message(&mut self, token: u32, message: Vec<u8>) {
        let size = message.len() as u32;
        let state = self.state_mut();
        let Some(stream) = state.grpc.open.get(&token) else {
            return;
        };
        let root = stream.root;
        state.grpc.message = Some(message);
        state.deferred.push_back(Deferred::DropGrpcMessage);
        self.call(|exports| &exports.grpc_receive, root, (root, token, size));
    }

    pub(crate) fn drop_grpc_message(&mut self) {
        self.state_mut().grpc.message = None;
    }

    /// Delivers the peer's close of a stream.
    ///
    /// # Panics
    /// Panics where Envoy would never return: it defers the callback while another one runs, and runs deferred actions
    /// after each callback, even one that it calls from within another.
    pub(crate) fn grpc_closed(&mut self, root: u32, token: u32, status: u32) {
        let state = self.state_mut();
        assert!(
            state.current.is_none(),
            "Envoy spins here for ever: a callback has opened a second gRPC stream after one that failed at once"
        );
        if let Some(stream) = state.grpc.open.get_mut(&token) {
            stream.is_closed_remotely = true;
        }
        state.grpc.closing = Some(token);
        state.deferred.push_back(Deferred::DropGrpcClose);
        self.call(|exports| &exports.grpc_close, root, (root, token, status));
    }

    pub(crate) fn drop_grpc_close(&mut self) {
        self.state_mut().grpc.closing = None;
    }

    /// Ticks for a root.
    pub(crate) fn tick(&mut self, root: u32) {
        self.call(|exports| &exports.tick, root, (root,));
    }
}
