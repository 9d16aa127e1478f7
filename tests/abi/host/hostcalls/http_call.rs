//! `proxy_http_call`.

use crate::abi::host::HeaderMap;
use crate::abi::host::call::{Call, HostcallResult, Status, link_hostcalls};
use crate::abi::host::message::Response;
use crate::abi::host::plugin::Cluster;
use crate::abi::host::state::VmState;
use std::collections::BTreeMap;
use std::time::Duration;
use wasmtime::Linker;

/// Step of token numbers: HTTP callouts have multiples of it; tokens of gRPC calls and of gRPC streams are one and two
/// more.
pub(super) const TOKEN_STEP: u32 = 4;

/// A pending HTTP callout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callout {
    /// Number that identifies it to the module.
    pub token: u32,
    /// The cluster it goes to.
    pub cluster: String,
    /// The request headers.
    pub headers: HeaderMap,
    /// The request body.
    pub body: Vec<u8>,
    /// Timeout set by the module; `None` for none.
    pub timeout: Option<Duration>,
    /// Time at which it times out, since 1970.
    pub deadline: Option<Duration>,
    /// The root context of the caller: it is called back, and the callout ends with it.
    pub(crate) root: u32,
    /// The VM of the worker that made it.
    pub(crate) generation: usize,
}

impl Callout {
    /// The first value of a request header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.text(name)
    }

    /// The path of the request.
    ///
    /// # Panics
    /// Panics if it is not text.
    #[must_use]
    pub fn path(&self) -> &str {
        self.header(":path").expect("a path that is text")
    }
}

/// The callouts of a VM.
#[derive(Debug, Default)]
pub(crate) struct Callouts {
    pub(crate) pending: BTreeMap<u32, Callout>,
    /// The response, while a callback of the module can read it.
    pub(crate) response: Option<Response>,
    last_token: u32,
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_http_call" => http_call(
            cluster, cluster_size, headers, headers_size, body, body_size, trailers, trailers_size, timeout, token_at
        );
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the ABI has as many")]
fn http_call(
    call: &mut Call<'_>,
    cluster: u32,
    cluster_size: u32,
    headers: u32,
    headers_size: u32,
    body: u32,
    body_size: u32,
    trailers: u32,
    trailers_size: u32,
    timeout: u32,
    token_at: u32,
) -> HostcallResult {
    let cluster = call.read(cluster, cluster_size)?;
    let body = call.read(body, body_size)?;
    let headers = HeaderMap::decode(&call.read(headers, headers_size)?);
    call.read(trailers, trailers_size)?;
    call.write_word(token_at, 0)?;
    let timeout = i32::try_from(timeout).map_err(|_| Status::BadArgument)?;
    let token = dispatch(call.state(), &cluster, headers, body, timeout)?;
    Ok(call.write_word(token_at, token)?)
}

fn dispatch(
    state: &mut VmState,
    cluster: &[u8],
    mut headers: HeaderMap,
    body: Vec<u8>,
    timeout: i32,
) -> Result<u32, Status> {
    let kind = *state
        .plugin
        .clusters
        .get(cluster)
        .ok_or(Status::BadArgument)?;
    let required = [":path", ":method", ":authority"];
    if required.iter().any(|name| headers.get(name).is_none()) {
        return Err(Status::BadArgument);
    }
    state.callouts.last_token += TOKEN_STEP;
    if kind == Cluster::NoHost {
        // The router answers before the hostcall returns, and the answer is dropped with the token.
        return Err(Status::InternalFailure);
    }
    if !body.is_empty() {
        headers.set("content-length", body.len().to_string());
    }
    let token = state.callouts.last_token;
    let timeout = u64::try_from(timeout).ok().filter(|millis| *millis > 0);
    let timeout = timeout.map(Duration::from_millis);
    let callout = Callout {
        token,
        cluster: String::from_utf8_lossy(cluster).into_owned(),
        headers,
        body,
        timeout,
        deadline: timeout.map(|timeout| state.shared.clock.monotonic() + timeout),
        root: state.root_of(state.context()),
        generation: state.generation,
    };
    state.callouts.pending.insert(token, callout);
    Ok(token)
}
