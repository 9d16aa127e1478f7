//! What comes back to the module: answers of callouts, gRPC messages, queue items, ticks.

use super::HeaderMap;
use super::driver::Driver;
use super::hostcalls::grpc::GrpcKind;
use super::hostcalls::http_call::Callout;
use super::hostcalls::shared_queue::Post;
use super::message::Response;
use super::state::Deferred;
use super::status::BROKEN_CONNECTION;

impl Driver<'_> {
    /// Answers a callout. What was cancelled, or answered before, is gone, and so is its answer.
    pub(crate) fn answer(&mut self, token: u32, response: Response) {
        let Some(callout) = self.state_mut().callouts.pending.remove(&token) else {
            return;
        };
        let (headers, body) = (response.headers.len() as u32, response.body.len() as u32);
        let trailers = response.trailers.len() as u32;
        self.state_mut().callouts.response = Some(response);
        self.callout_is_over(&callout, headers, body, trailers);
    }

    /// Breaks a callout off: there is no response to be read.
    pub(crate) fn reset_callout(&mut self, token: u32) {
        let Some(callout) = self.state_mut().callouts.pending.remove(&token) else {
            return;
        };
        self.state_mut().status = (BROKEN_CONNECTION, "reset");
        self.callout_is_over(&callout, 0, 0, 0);
    }

    /// It is the root context that is told, also where one of its streams has made the callout.
    fn callout_is_over(&mut self, callout: &Callout, headers: u32, body: u32, trailers: u32) {
        let state = self.state_mut();
        let token = callout.token;
        state.deferred.push_back(Deferred::ForgetCallout { token });
        let root = callout.root;
        let params = (root, token, headers, body, trailers);
        self.call(|exports| &exports.http_call_response, root, params);
    }

    pub(crate) fn forget_callout(&mut self, _token: u32) {
        let state = self.state_mut();
        state.callouts.response = None;
        state.status.1 = "";
    }

    /// Shows initial metadata. Envoy does this also from within the hostcall that opens a stream that fails at once.
    pub(crate) fn grpc_initial_metadata(&mut self, root: u32, token: u32, metadata: HeaderMap) {
        let count = metadata.len() as u32;
        self.state_mut().grpc.initial_metadata = Some(metadata);
        self.call(
            |exports| &exports.grpc_receive_initial_metadata,
            root,
            (root, token, count),
        );
        self.state_mut().grpc.initial_metadata = None;
    }

    /// Shows trailing metadata, as [`Self::grpc_initial_metadata`].
    pub(crate) fn grpc_trailing_metadata(&mut self, root: u32, token: u32, metadata: HeaderMap) {
        let count = metadata.len() as u32;
        self.state_mut().grpc.trailing_metadata = Some(metadata);
        self.call(
            |exports| &exports.grpc_receive_trailing_metadata,
            root,
            (root, token, count),
        );
        self.state_mut().grpc.trailing_metadata = None;
    }

    /// Shows a message; that of a call is its end.
    pub(crate) fn grpc_message(&mut self, token: u32, message: Vec<u8>) {
        let size = message.len() as u32;
        let state = self.state_mut();
        let Some(stream) = state.grpc.open.get(&token) else {
            return;
        };
        let root = stream.root;
        state.grpc.message = Some(message);
        state
            .deferred
            .push_back(Deferred::ForgetGrpcMessage { token });
        self.call(|exports| &exports.grpc_receive, root, (root, token, size));
    }

    pub(crate) fn forget_grpc_message(&mut self, token: u32) {
        let grpc = &mut self.state_mut().grpc;
        grpc.message = None;
        if grpc
            .open
            .get(&token)
            .is_some_and(|stream| stream.kind == GrpcKind::Call)
        {
            grpc.open.remove(&token);
        }
    }

    /// Tells that the peer has closed a stream, or that a call has failed.
    ///
    /// # Panics
    /// Where Envoy would never come back: it puts the news off while a callback runs, and does what was put off after
    /// each callback, also one that it calls from within another.
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
        state.status = (status, "");
        state
            .deferred
            .push_back(Deferred::ForgetGrpcStream { token });
        self.call(|exports| &exports.grpc_close, root, (root, token, status));
    }

    pub(crate) fn forget_grpc_stream(&mut self, token: u32) {
        let grpc = &mut self.state_mut().grpc;
        grpc.closing = None;
        let is_over = grpc
            .open
            .get(&token)
            .is_some_and(|stream| stream.kind == GrpcKind::Call || stream.is_closed_locally);
        if is_over {
            grpc.open.remove(&token);
        }
    }

    /// Tells that data came into a queue. The context may be gone by now.
    pub(crate) fn queue_ready(&mut self, post: Post) {
        if self.state().contexts.contains_key(&post.context) {
            let params = (post.context, post.token);
            self.call(|exports| &exports.queue_ready, post.context, params);
        }
    }

    /// Ticks for a root.
    pub(crate) fn tick(&mut self, root: u32) {
        self.call(|exports| &exports.tick, root, (root,));
    }
}
