//! Exports that a module may have. Missing ones are not called, as in Envoy.

use super::state::VmState;
use wasmtime::{Instance, Store, TypedFunc};

/// An export of that name, if the module has it.
pub(crate) struct Callback<Params, Results> {
    pub(crate) name: &'static str,
    pub(crate) func: Option<TypedFunc<Params, Results>>,
}

macro_rules! exports {
    ($($field:ident = $name:literal: $params:ty => $results:ty;)*) => {
        /// The exports that Envoy looks for.
        pub(crate) struct Exports {
            $(pub(crate) $field: Callback<$params, $results>,)*
        }

        impl Exports {
            /// Looks them up in an instance.
            ///
            /// # Errors
            /// Fails if one of them has another signature.
            pub(crate) fn find(instance: &Instance, store: &mut Store<VmState>) -> wasmtime::Result<Self> {
                Ok(Self {
                    $($field: Callback {
                        name: $name,
                        func: match instance.get_func(&mut *store, $name) {
                            Some(func) => Some(func.typed(&*store)?),
                            None => None,
                        },
                    },)*
                })
            }
        }
    };
}

exports! {
    initialize = "_initialize": () => ();
    malloc = "malloc": (u32,) => u32;
    memory_allocate = "proxy_on_memory_allocate": (u32,) => u32;
    context_create = "proxy_on_context_create": (u32, u32) => ();
    vm_start = "proxy_on_vm_start": (u32, u32) => u32;
    configure = "proxy_on_configure": (u32, u32) => u32;
    tick = "proxy_on_tick": (u32,) => ();
    request_headers = "proxy_on_request_headers": (u32, u32, u32) => u32;
    request_body = "proxy_on_request_body": (u32, u32, u32) => u32;
    request_trailers = "proxy_on_request_trailers": (u32, u32) => u32;
    response_headers = "proxy_on_response_headers": (u32, u32, u32) => u32;
    response_body = "proxy_on_response_body": (u32, u32, u32) => u32;
    http_call_response = "proxy_on_http_call_response": (u32, u32, u32, u32, u32) => ();
    grpc_receive_initial_metadata = "proxy_on_grpc_receive_initial_metadata": (u32, u32, u32) => ();
    grpc_receive = "proxy_on_grpc_receive": (u32, u32, u32) => ();
    grpc_receive_trailing_metadata = "proxy_on_grpc_receive_trailing_metadata": (u32, u32, u32) => ();
    grpc_close = "proxy_on_grpc_close": (u32, u32, u32) => ();
    done = "proxy_on_done": (u32,) => u32;
    log = "proxy_on_log": (u32,) => ();
    delete = "proxy_on_delete": (u32,) => ();
}
