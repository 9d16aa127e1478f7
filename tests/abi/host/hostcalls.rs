//! The hostcalls, one file for each family. Each answers like Envoy 1.40, as read in its source (proxy-wasm-cpp-host
//! `src/exports.cc`, Envoy `source/extensions/common/wasm/context.cc`) and checked by the conformance test.

mod buffer;
pub(crate) mod context;
pub(crate) mod grpc;
mod header_map;
pub(crate) mod http_call;
pub(crate) mod metric;
pub(crate) mod shared_data;
mod system;

use super::state::VmState;
use wasmtime::Linker;

/// Links the hostcalls that our modules make.
pub(crate) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    for family in [
        buffer::link,
        context::link,
        grpc::link,
        header_map::link,
        http_call::link,
        metric::link,
        shared_data::link,
        system::link,
    ] {
        family(linker)?;
    }
    Ok(())
}
