//! The callbacks of the proxy.

use crate::abi::{self, Buffer, Level};
use crate::worker;
use edgelink_filter_core::settings::Settings;

/// A context has begun: a root, whose configuration follows, or a stream of a root.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_context_create(context: u32, root: u32) {
    const NO_PARENT: u32 = 0;
    if root != NO_PARENT {
        worker::begin(context, root);
    }
}

/// A root context gets its configuration: at the start, in every worker and once on the main thread, and whenever the
/// configuration changes. Returning 0 refuses it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_configure(root: u32, size: usize) -> u32 {
    let json = abi::buffer(Buffer::PluginConfiguration, size).unwrap_or_default();
    match Settings::parse(&json).and_then(Settings::for_worker) {
        Ok(settings) => {
            worker::configure(root, settings);
            1
        }
        Err(error) => {
            abi::log(Level::Error, &format!("plugin configuration: {error}"));
            0
        }
    }
}

/// A period has passed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_tick(root: u32) {
    worker::tick(root);
}

/// The headers of a request have arrived.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_request_headers(
    stream: u32,
    _headers: u32,
    _end_of_stream: u32,
) -> u32 {
    worker::request(stream) as u32
}

/// A part of the body of a request has arrived; `size` is the total so far.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_request_body(
    stream: u32,
    size: usize,
    end_of_stream: u32,
) -> u32 {
    worker::request_body(stream, size, end_of_stream != 0) as u32
}

/// The trailers of a request have arrived, behind its body.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_request_trailers(stream: u32, _trailers: u32) -> u32 {
    worker::request_trailers(stream) as u32
}

/// A callout has ended, with an answer or without.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_http_call_response(
    _root: u32,
    token: u32,
    headers: usize,
    body_size: usize,
    _trailers: usize,
) {
    worker::callout_end(token, headers, body_size);
}

/// A message has come on a gRPC stream.
///
/// The callbacks for its initial and trailing metadata are left out on purpose: Envoy makes them from within
/// `proxy_grpc_stream` if it cannot reach the cluster, while the worker is borrowed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_receive(root: u32, stream: u32, size: usize) {
    worker::stream_data(root, stream, size);
}

/// A gRPC stream has ended, by either side.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_close(root: u32, stream: u32, _status: u32) {
    worker::stream_closed(root, stream);
}

/// A context has ended: a stream was answered or left, or the proxy dropped a configuration.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_delete(context: u32) {
    worker::end(context);
}
