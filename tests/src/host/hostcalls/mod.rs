//! The hostcalls, one file a family. Each answers what Envoy 1.40 answers: its source says why
//! (proxy-wasm-cpp-host `src/exports.cc`, Envoy `source/extensions/common/wasm/context.cc`), and the conformance test
//! has asked it.

mod buffer;
mod clock;
mod context;
mod foreign;
pub(crate) mod grpc;
mod header_map;
pub(crate) mod http_call;
pub(crate) mod local_response;
mod log;
pub(crate) mod metric;
mod property;
pub(crate) mod shared_data;
pub(crate) mod shared_queue;
pub(crate) mod timer;
mod wasi;

use super::state::VmState;
use wasmtime::Linker;

/// Links everything that Envoy provides to a module of ABI 0.2.1, and nothing more: a module that imports anything
/// else is refused by both.
pub(crate) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    for family in [
        buffer::link,
        clock::link,
        context::link,
        foreign::link,
        grpc::link,
        header_map::link,
        http_call::link,
        local_response::link,
        log::link,
        metric::link,
        property::link,
        shared_data::link,
        shared_queue::link,
        timer::link,
        wasi::link,
    ] {
        family(linker)?;
    }
    Ok(())
}
