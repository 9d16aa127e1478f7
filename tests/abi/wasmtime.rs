//! The wasmtime host with the probe.

use super::{CONFIGURATION, ProbedHost};
use crate::abi::host::{
    Callout, Cluster, Fleet, GrpcStream, HeaderMap, Module, Outcome, RELOAD_BACKOFF, Response,
    StreamId,
};
use crate::scenario::{Answer, Request};
use std::time::Duration;

/// A fleet of one worker, and a peer that answers like the real one.
pub struct ProbedFleet {
    fleet: Fleet,
}

impl ProbedFleet {
    /// Starts the fleet.
    ///
    /// # Panics
    /// Panics if the probe is not built or does not start.
    #[must_use]
    pub fn start() -> Self {
        let fleet = Fleet::of(&Module::probe())
            .configuration(CONFIGURATION)
            .cluster("peer", Cluster::Healthy)
            .cluster("refused", Cluster::Healthy)
            .cluster("grpc", Cluster::Healthy)
            .cluster("nohost", Cluster::NoHost)
            .start()
            .unwrap_or_else(|error| panic!("{error}"));
        Self { fleet }
    }

    fn send(&mut self, request: &Request) -> StreamId {
        let mut builder = self.fleet.worker(0).request(&request.method, &request.path);
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        builder.send()
    }

    /// Simulates the peer while the client waits.
    fn settle(&mut self) {
        for callout in self.fleet.worker(0).callouts() {
            self.answer(&callout);
        }
        for stream in self.fleet.worker(0).grpc_streams() {
            self.answer_grpc(&stream);
        }
    }

    fn answer(&mut self, callout: &Callout) {
        let worker = self.fleet.worker(0);
        if callout.cluster == "refused" {
            return worker.refuse_callout(callout);
        }
        match callout.path() {
            "/ok" => worker.answer(callout, ok()),
            "/empty" => worker.answer(callout, Response::new(204).header("x-peer", "1")),
            "/cut" => worker.reset_callout(callout),
            "/hang" => self.fleet.pass(callout.timeout.unwrap_or_default()),
            _ => worker.disconnect_callout(callout),
        }
    }

    fn answer_grpc(&mut self, stream: &GrpcStream) {
        let worker = self.fleet.worker(0);
        let peer = HeaderMap::new(&[("x-peer", "1")]);
        match (stream.cluster.as_str(), stream.method.as_str()) {
            ("refused", _) => {
                worker.grpc_initial_metadata(stream, &HeaderMap::default());
                worker.grpc_close(stream, 14, &HeaderMap::default());
            }
            (_, "message") => {
                worker.grpc_initial_metadata(stream, &peer);
                worker.grpc_message(stream, "hello");
                worker.grpc_close(stream, 0, &HeaderMap::default());
            }
            _ => {
                worker.grpc_initial_metadata(stream, &HeaderMap::default());
                worker.grpc_close(stream, 5, &peer);
            }
        }
    }
}

fn ok() -> Response {
    let response = Response::new(200)
        .header("x-peer", "1")
        .header("x-peer", "2");
    response.body("hello")
}

/// Response of the upstream.
fn behind(is_head: bool) -> Response {
    let response = Response::new(200)
        .header("content-length", "6")
        .header("content-type", "text/plain")
        .header("x-behind", "1");
    if is_head {
        response
    } else {
        response.body("behind")
    }
}

impl ProbedHost for ProbedFleet {
    async fn visit(&mut self, request: Request) -> Answer {
        let stream = self.send(&request);
        self.settle();
        let worker = self.fleet.worker(0);
        if let Outcome::PassedThrough { .. } = worker.outcome(stream) {
            worker.respond(stream, &behind(request.method == "HEAD"));
        }
        match worker.outcome(stream) {
            Outcome::LocalResponse(response) | Outcome::Responded(response) => response.into(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    async fn leave(&mut self, request: Request) {
        let stream = self.send(&request);
        self.fleet.worker(0).close_stream(stream);
    }

    async fn await_reload(&mut self) {
        self.fleet.pass(RELOAD_BACKOFF);
    }

    async fn idle(&mut self) {
        self.fleet.pass(Duration::from_millis(5));
    }
}
