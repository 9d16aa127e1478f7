//! `proxy_call_foreign_function`.

use crate::host::call::{Call, link_hostcalls};
use crate::host::state::VmState;
use crate::host::status::{Answer, Refusal, Status};
use wasmtime::Linker;

/// Functions that Envoy has and this host does not.
const NOT_MODELLED: &[&[u8]] = &[
    b"compress",
    b"declare_property",
    b"expr_create",
    b"expr_delete",
    b"expr_evaluate",
    b"set_envoy_filter_state",
    b"sign",
    b"uncompress",
    b"verify_signature",
];

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_call_foreign_function" => call_foreign_function(
            name, name_size, arguments, arguments_size, results_at, size_at
        );
    }
    Ok(())
}

fn call_foreign_function(
    call: &mut Call<'_>,
    name: u32,
    name_size: u32,
    arguments: u32,
    arguments_size: u32,
    results_at: u32,
    size_at: u32,
) -> Answer {
    let name = call.read(name, name_size)?;
    call.read(arguments, arguments_size)?;
    if NOT_MODELLED.contains(&name.as_slice()) {
        let name = String::from_utf8_lossy(&name);
        let text = format!("this host does not know the foreign function '{name}'");
        return Err(Refusal::Trap(wasmtime::Error::msg(text)));
    }
    // There are no routes here, and so nothing to clear.
    if name != b"clear_route_cache" {
        return Err(Status::NotFound.into());
    }
    for at in [results_at, size_at].into_iter().filter(|at| *at != 0) {
        call.write_word(at, 0)?;
    }
    Ok(())
}
