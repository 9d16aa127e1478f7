//! The gRPC hostcalls.

use super::http_call::TOKEN_STEP;
use crate::host::HeaderMap;
use crate::host::call::{Call, link_hostcalls};
use crate::host::plugin::Cluster;
use crate::host::state::{Deferred, VmState};
use crate::host::status::{Answer, Refusal, Status};
use std::collections::BTreeMap;
use std::time::Duration;
use wasmtime::Linker;

/// Unavailable, in gRPC's numbers.
const UNAVAILABLE: u32 = 14;

/// Which of the two kinds of gRPC callouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcKind {
    /// One message, one answer.
    Call,
    /// Messages both ways.
    Stream,
}

/// A gRPC call or stream that the module has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcStream {
    /// The number by which the module knows it.
    pub token: u32,
    /// What it is.
    pub kind: GrpcKind,
    /// Where it goes.
    pub cluster: String,
    /// The gRPC service.
    pub service: String,
    /// The method of the service.
    pub method: String,
    /// The metadata that the module has sent.
    pub metadata: HeaderMap,
    /// The messages that the module has sent.
    pub sent: Vec<Vec<u8>>,
    /// How long the module wants to wait for the answer of a call.
    pub timeout: Option<Duration>,
    /// Whether the module has closed its side.
    pub is_closed_locally: bool,
    /// Whether the peer has closed its side, and the module been told.
    pub(crate) is_closed_remotely: bool,
    /// The root context of the one that has opened it: it alone knows it, and takes it along when it ends.
    pub(crate) root: u32,
    pub(crate) generation: usize,
}

/// The gRPC state of a VM.
#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) open: BTreeMap<u32, GrpcStream>,
    /// What the callbacks show to the module.
    pub(crate) initial_metadata: Option<HeaderMap>,
    pub(crate) trailing_metadata: Option<HeaderMap>,
    pub(crate) message: Option<Vec<u8>>,
    /// The stream that the module is told the end of.
    pub(crate) closing: Option<u32>,
    last_call: u32,
    last_stream: u32,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            initial_metadata: None,
            trailing_metadata: None,
            message: None,
            closing: None,
            last_call: 1,
            last_stream: 2,
        }
    }
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_grpc_call" => grpc_call(
            cluster, cluster_size, service, service_size, method, method_size, metadata, metadata_size,
            message, message_size, timeout, token_at
        );
        "proxy_grpc_stream" => grpc_stream(
            cluster, cluster_size, service, service_size, method, method_size, metadata, metadata_size, token_at
        );
        "proxy_grpc_send" => grpc_send(token, message, message_size, end_of_stream);
        "proxy_grpc_close" => grpc_close(token);
        "proxy_grpc_cancel" => grpc_cancel(token);
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the ABI has as many")]
fn grpc_call(
    call: &mut Call<'_>,
    cluster: u32,
    cluster_size: u32,
    service: u32,
    service_size: u32,
    method: u32,
    method_size: u32,
    metadata: u32,
    metadata_size: u32,
    message: u32,
    message_size: u32,
    timeout: u32,
    token_at: u32,
) -> Answer {
    let cluster = call.read(cluster, cluster_size)?;
    let service = call.read(service, service_size)?;
    let method = call.read(method, method_size)?;
    let metadata = HeaderMap::decode(&call.read(metadata, metadata_size)?);
    let message = call.read(message, message_size)?;
    let mut stream = describe(call, GrpcKind::Call, &cluster, &service, &method, metadata)?;
    stream.sent.push(message);
    stream.timeout = Some(Duration::from_millis(u64::from(timeout)));
    open(call, &cluster, stream, token_at)
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
) -> Answer {
    let cluster = call.read(cluster, cluster_size)?;
    let service = call.read(service, service_size)?;
    let method = call.read(method, method_size)?;
    let metadata = HeaderMap::decode(&call.read(metadata, metadata_size)?);
    let stream = describe(
        call,
        GrpcKind::Stream,
        &cluster,
        &service,
        &method,
        metadata,
    )?;
    open(call, &cluster, stream, token_at)
}

/// What is opened, with the token that it will have.
fn describe(
    call: &mut Call<'_>,
    kind: GrpcKind,
    cluster: &[u8],
    service: &[u8],
    method: &[u8],
    metadata: HeaderMap,
) -> Result<GrpcStream, Refusal> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = match target(cluster)? {
        Target::Name(name) if !call.state().plugin.clusters.contains_key(name) => {
            return Err(Status::ParseFailure.into());
        }
        Target::Name(name) | Target::Message(name) => text(name),
    };
    let state = call.state();
    let root = state.root_of(state.context());
    let last = match kind {
        GrpcKind::Call => &mut state.grpc.last_call,
        GrpcKind::Stream => &mut state.grpc.last_stream,
    };
    *last += TOKEN_STEP;
    Ok(GrpcStream {
        token: *last,
        kind,
        cluster: name,
        service: text(service),
        method: text(method),
        metadata,
        sent: Vec::new(),
        timeout: None,
        is_closed_locally: false,
        is_closed_remotely: false,
        root,
        generation: state.generation,
    })
}

/// What the first argument names: a cluster, or a GrpcService message that names one in `envoy_grpc`.
enum Target<'a> {
    Name(&'a [u8]),
    Message(&'a [u8]),
}

fn target(bytes: &[u8]) -> Result<Target<'_>, Refusal> {
    if bytes.is_empty() {
        return Err(Refusal::Trap(wasmtime::Error::msg(
            "Envoy aborts here: an empty GrpcService has no target",
        )));
    }
    let name = field_one(bytes).and_then(field_one);
    Ok(name.map_or(Target::Name(bytes), Target::Message))
}

/// The content of a protobuf message that has nothing but a short field of number 1.
fn field_one(message: &[u8]) -> Option<&[u8]> {
    match message {
        [0x0a, length, content @ ..] if usize::from(*length) == content.len() => Some(content),
        _ => None,
    }
}

fn open(call: &mut Call<'_>, cluster: &[u8], stream: GrpcStream, token_at: u32) -> Answer {
    let kind = call.state().plugin.clusters.get(stream.cluster.as_bytes());
    match kind.copied() {
        Some(Cluster::Healthy) => {
            let token = stream.token;
            call.state().grpc.open.insert(token, stream);
            Ok(call.write_word(token_at, token)?)
        }
        Some(Cluster::NoHost) => fail_in_the_hostcall(call, &stream),
        None => {
            debug_assert!(!cluster.is_empty());
            put_off_close(call.state(), stream.token);
            Err(Status::InternalFailure.into())
        }
    }
}

/// The router answers at once: metadata callbacks of a stream come before the hostcall returns, the close right after
/// the callback that has made it.
fn fail_in_the_hostcall(call: &mut Call<'_>, stream: &GrpcStream) -> Answer {
    if stream.kind == GrpcKind::Stream {
        let root = stream.root;
        let mut driver = call.driver();
        driver.grpc_initial_metadata(root, stream.token, HeaderMap::default());
        driver.grpc_trailing_metadata(root, stream.token, HeaderMap::default());
    }
    put_off_close(call.state(), stream.token);
    Err(Status::InternalFailure.into())
}

fn put_off_close(state: &mut VmState, token: u32) {
    let status = UNAVAILABLE;
    let root = state.root_of(state.context());
    let closed = Deferred::GrpcClosed {
        root,
        token,
        status,
    };
    state.deferred.push_back(closed);
}

/// The kind that a token says, whether or not there is such a callout.
fn kind_of(token: u32) -> Result<GrpcKind, Status> {
    match token % TOKEN_STEP {
        1 => Ok(GrpcKind::Call),
        2 => Ok(GrpcKind::Stream),
        _ => Err(Status::BadArgument),
    }
}

fn find(state: &mut VmState, token: u32) -> Result<&mut GrpcStream, Refusal> {
    let root = state.root_of(state.context());
    let is_being_told = state.grpc.closing == Some(token);
    let stream = state.grpc.open.get_mut(&token);
    let ours = stream.filter(|stream| stream.root == root);
    let stream = ours.ok_or(Status::NotFound)?;
    if stream.is_closed_remotely && !is_being_told {
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
) -> Answer {
    let message = call.read(message, message_size)?;
    if kind_of(token)? != GrpcKind::Stream {
        return Err(Status::BadArgument.into());
    }
    let stream = find(call.state(), token)?;
    stream.sent.push(message);
    stream.is_closed_locally |= end_of_stream != 0;
    Ok(())
}

/// A call is cancelled; a stream is closed on this side, and forgotten once the peer has closed it too.
fn grpc_close(call: &mut Call<'_>, token: u32) -> Answer {
    if kind_of(token)? == GrpcKind::Call {
        return grpc_cancel(call, token);
    }
    let stream = find(call.state(), token)?;
    stream.is_closed_locally = true;
    if stream.is_closed_remotely {
        call.state().grpc.open.remove(&token);
    }
    Ok(())
}

fn grpc_cancel(call: &mut Call<'_>, token: u32) -> Answer {
    kind_of(token)?;
    find(call.state(), token)?;
    call.state().grpc.open.remove(&token);
    Ok(())
}
