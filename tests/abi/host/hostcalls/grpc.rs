//! The gRPC hostcalls.

use super::http_call::TOKEN_STEP;
use crate::abi::host::HeaderMap;
use crate::abi::host::call::{Call, HostcallResult, Refusal, Status, link_hostcalls};
use crate::abi::host::plugin::Cluster;
use crate::abi::host::state::{Deferred, VmState};
use std::collections::BTreeMap;
use wasmtime::Linker;

/// UNAVAILABLE, as a gRPC status code.
const UNAVAILABLE: u32 = 14;

/// A gRPC stream opened by the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcStream {
    /// Number that identifies it to the module.
    pub token: u32,
    /// The cluster it goes to.
    pub cluster: String,
    /// The gRPC service.
    pub service: String,
    /// The method of the service.
    pub method: String,
    /// Messages sent by the module.
    pub sent: Vec<Vec<u8>>,
    /// Set once the peer has closed its side, and the module has been called back.
    pub(crate) is_closed_remotely: bool,
    /// The root context of the opener: only that root may use the stream, which ends with it.
    pub(crate) root: u32,
    pub(crate) generation: usize,
}

/// The gRPC state of a VM.
#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) open: BTreeMap<u32, GrpcStream>,
    /// The message that a callback shows to the module.
    pub(crate) message: Option<Vec<u8>>,
    /// The stream whose close callback is running.
    pub(crate) closing: Option<u32>,
    last_stream: u32,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            message: None,
            closing: None,
            last_stream: 2,
        }
    }
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_grpc_stream" => grpc_stream(
            cluster, cluster_size, service, service_size, method, method_size, metadata, metadata_size, token_at
        );
        "proxy_grpc_send" => grpc_send(token, message, message_size, end_of_stream);
        "proxy_grpc_cancel" => grpc_cancel(token);
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the ABI has as many")]
fn grpc_stream(
    call: &mut Call<'_>,
    cluster: u32,
    cluster_size: u32,
    service: u32,
    service_size: u32,
    method: u32,
    method_size: u32,
    metadata: u32,
    metadata_size: u32,
    token_at: u32,
) -> HostcallResult {
    let cluster = call.read(cluster, cluster_size)?;
    let service = call.read(service, service_size)?;
    let method = call.read(method, method_size)?;
    call.read(metadata, metadata_size)?;
    let state = call.state();
    // Any other text is parsed as a GrpcService message, which this host does not support.
    let kind = state.plugin.clusters.get(&cluster).copied();
    let kind = kind.ok_or(Status::ParseFailure)?;
    let root = state.root_of(state.context());
    state.grpc.last_stream += TOKEN_STEP;
    let token = state.grpc.last_stream;
    if kind == Cluster::NoHost {
        return fail_in_the_hostcall(call, root, token);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stream = GrpcStream {
        token,
        cluster: text(&cluster),
        service: text(&service),
        method: text(&method),
        sent: Vec::new(),
        is_closed_remotely: false,
        root,
        generation: state.generation,
    };
    state.grpc.open.insert(token, stream);
    Ok(call.write_word(token_at, token)?)
}

/// The router answers immediately: metadata callbacks come before the hostcall returns, the close right after the
/// callback that made it.
fn fail_in_the_hostcall(call: &mut Call<'_>, root: u32, token: u32) -> HostcallResult {
    let mut driver = call.driver();
    driver.grpc_initial_metadata(root, token, &HeaderMap::default());
    driver.grpc_trailing_metadata(root, token, &HeaderMap::default());
    let status = UNAVAILABLE;
    let closed = Deferred::GrpcClosed {
        root,
        token,
        status,
    };
    call.state().deferred.push_back(closed);
    Err(Status::InternalFailure.into())
}

/// Finds a stream of the calling root.
fn find(state: &mut VmState, token: u32) -> Result<&mut GrpcStream, Refusal> {
    if !matches!(token % TOKEN_STEP, 1 | 2) {
        return Err(Status::BadArgument.into());
    }
    let root = state.root_of(state.context());
    let is_closing = state.grpc.closing == Some(token);
    let stream = state.grpc.open.get_mut(&token);
    let ours = stream.filter(|stream| stream.root == root);
    let stream = ours.ok_or(Status::NotFound)?;
    if stream.is_closed_remotely && !is_closing {
        return Err(Refusal::Trap(wasmtime::Error::msg(format!(
            "Envoy may touch freed memory here: gRPC stream {token} was closed by its peer in an earlier callback"
        ))));
    }
    Ok(stream)
}

fn grpc_send(
    call: &mut Call<'_>,
    token: u32,
    message: u32,
    message_size: u32,
    end_of_stream: u32,
) -> HostcallResult {
    let message = call.read(message, message_size)?;
    if token % TOKEN_STEP != 2 {
        return Err(Status::BadArgument.into());
    }
    let stream = find(call.state(), token)?;
    if end_of_stream != 0 {
        let text = "this host does not know streams that are closed on one side";
        return Err(Refusal::Trap(wasmtime::Error::msg(text)));
    }
    stream.sent.push(message);
    Ok(())
}

fn grpc_cancel(call: &mut Call<'_>, token: u32) -> HostcallResult {
    find(call.state(), token)?;
    call.state().grpc.open.remove(&token);
    Ok(())
}
