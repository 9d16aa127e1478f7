//! The hostcalls that select, answer and close contexts, and the timer of a root.

use crate::abi::host::HeaderMap;
use crate::abi::host::call::{Call, HostcallResult, Status, link_hostcalls};
use crate::abi::host::message::Response;
use crate::abi::host::state::{Deferred, VmState};
use std::time::Duration;
use wasmtime::Linker;

/// Ticks requested by a root context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) period: Duration,
    /// Time of the next tick, since 1970.
    pub(crate) due: Duration,
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_set_effective_context" => set_effective_context(context);
        "proxy_close_stream" => close_stream(stream_type);
        "proxy_continue_stream" => continue_stream(stream_type);
        "proxy_send_local_response" => send_local_response(
            status, details, details_size, body, body_size, headers, headers_size, grpc_status
        );
        "proxy_set_tick_period_milliseconds" => set_tick_period_milliseconds(period);
    }
    Ok(())
}

fn set_effective_context(call: &mut Call<'_>, context: u32) -> HostcallResult {
    let state = call.state();
    if !state.contexts.contains_key(&context) {
        return Err(Status::BadArgument.into());
    }
    state.effective = context;
    Ok(())
}

/// Continues a held request after the callback returns.
fn continue_stream(call: &mut Call<'_>, stream_type: u32) -> HostcallResult {
    if stream_type > 3 {
        return Err(Status::BadArgument.into());
    }
    let state = call.state();
    let stream = state.context();
    if stream_type == 0 && state.streams.contains_key(&stream) {
        state.deferred.push_back(Deferred::Continue { stream });
    }
    Ok(())
}

/// Resets an HTTP stream: 0 is its request, 1 its response. 2 and 3 are connections, which HTTP filters do not have.
fn close_stream(call: &mut Call<'_>, stream_type: u32) -> HostcallResult {
    if stream_type > 3 {
        return Err(Status::BadArgument.into());
    }
    let state = call.state();
    let stream = state.context();
    if stream_type < 2 && state.streams.contains_key(&stream) {
        state.deferred.push_back(Deferred::Reset { stream });
    }
    Ok(())
}

/// The response is sent after the callback returns. On a root context nothing is sent, which is Ok as well.
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
) -> HostcallResult {
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

/// The response as built by Envoy, before the connection manager adds `date` and `server`.
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
    Response { headers, body }
}

/// Sets the root's timer, from any of its contexts; 0 stops it.
fn set_tick_period_milliseconds(call: &mut Call<'_>, period: u32) -> HostcallResult {
    let state = call.state();
    let period = Duration::from_millis(u64::from(period));
    let due = state.shared.clock.monotonic() + period;
    if let Some(root) = state.root() {
        root.timer = (!period.is_zero()).then_some(Timer { period, due });
    }
    Ok(())
}
