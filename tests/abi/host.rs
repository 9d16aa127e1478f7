//! A proxy-wasm host on wasmtime, as strict as Envoy 1.40, for tests that need control over a clock, a peer or a failure.
//!
//! A [`Fleet`] is an Envoy process: it has a clock that stands still, shared data and metrics, a main thread and
//! [`Worker`]s, each with its own VM. Nothing happens unless the test triggers it:
//!
//! ```ignore
//! let mut fleet = Fleet::of(&Module::filter(Metering::Off)).configuration(json).cluster("control_plane", Cluster::Healthy).start()?;
//! let worker = fleet.worker(0);
//! let stream = worker.request("GET", "/abc").header("user-agent", "x").send();
//! assert_eq!(worker.outcome(stream), Outcome::Paused);
//! let callout = worker.callout();
//! worker.answer(&callout, Response::new(404));
//! assert_eq!(worker.outcome(stream).local_response().status(), 503);
//! ```
//!
//! The results of hostcalls and the order of callbacks follow real Envoy: the suite in this folder runs its cases on
//! both. The host implements what our modules use and no more. A hostcall that none of them makes (queues, foreign
//! functions, gRPC calls, ...) traps the module with `unknown import`, a buffer or a header map that none of them reads
//! with its own message; nothing is guessed. Nothing can be read in the log callback.

mod call;
mod callout;
mod driver;
mod edge;
mod exports;
mod fleet;
mod headers;
mod hostcalls;
mod message;
mod module;
mod plugin;
mod shared;
mod state;
mod stream;
mod usage;
mod vm;
mod worker;

pub use edge::WasmtimeEdge;
pub use fleet::{Fleet, FleetBuilder};
pub use headers::HeaderMap;
pub use hostcalls::grpc::GrpcStream;
pub use hostcalls::http_call::Callout;
pub use hostcalls::metric::Metric;
pub use message::{End, Outcome, Response};
pub use module::{Metering, Module};
pub use plugin::{Cluster, FailurePolicy, RELOAD_BACKOFF};
pub use shared::{Level, LogLine, Thread};
pub use state::VmFailure;
pub use usage::Usage;
pub use vm::{StartError, StartFailure};
pub use worker::{RequestBuilder, RootId, StreamId, Worker};
