//! `proxy_send_local_response`.

use crate::host::HeaderMap;
use crate::host::call::{Call, link_hostcalls};
use crate::host::message::Response;
use crate::host::state::{Deferred, VmState};
use crate::host::status::Answer;
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_send_local_response" => send_local_response(
            status, details, details_size, body, body_size, headers, headers_size, grpc_status
        );
    }
    Ok(())
}

/// The response is sent when the callback has returned. On a root context nothing is sent, which is Ok as well.
#[expect(clippy::too_many_arguments, reason = "the ABI has as many")]
fn send_local_response(
    call: &mut Call<'_>,
    status: u32,
    details: u32,
    details_size: u32,
    body: u32,
    body_size: u32,
    headers: u32,
    headers_size: u32,
    _grpc_status: u32,
) -> Answer {
    call.read(details, details_size)?;
    let body = call.read(body, body_size)?;
    let additional = HeaderMap::decode(&call.read(headers, headers_size)?);
    let state = call.state();
    let stream = state.context();
    if state.streams.contains_key(&stream) {
        let response = local_response(status, body, &additional);
        let action = Deferred::LocalResponse { stream, response };
        state.deferred.push_back(action);
    }
    state.stop_iteration = true;
    Ok(())
}

/// The response as Envoy makes it, before the connection manager adds `date` and `server`.
pub(crate) fn local_response(status: u32, body: Vec<u8>, additional: &HeaderMap) -> Response {
    let mut headers = HeaderMap::new(&[(":status", &status.to_string())]);
    for (name, value) in additional.iter() {
        headers.add(name, value);
    }
    if body.is_empty() {
        headers.remove("content-length");
        headers.remove("content-type");
    } else {
        headers.set("content-length", body.len().to_string());
        if headers.get("content-type").is_none() {
            headers.add("content-type", "text/plain");
        }
    }
    Response {
        headers,
        body,
        trailers: HeaderMap::default(),
    }
}
