//! The header map hostcalls.
//!
//! Access to a map that is absent in this phase is a bad argument, except that the list of its pairs is empty.

use crate::abi::host::HeaderMap;
use crate::abi::host::call::{Call, HostcallResult, Refusal, Status, link_hostcalls};
use crate::abi::host::state::{StreamHalf, VmState};
use std::net::{IpAddr, SocketAddr};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_header_map_value" => get_value(map, key, key_size, value_at, size_at);
        "proxy_replace_header_map_value" => replace_value(map, key, key_size, value, value_size);
        "proxy_get_header_map_pairs" => get_pairs(map, data_at, size_at);
        "proxy_get_property" => get_property(path, path_size, value_at, size_at);
        "proxy_set_property" => set_property(path, path_size, value, value_size);
    }
    Ok(())
}

/// Id of the node, as in `envoy/bootstrap.yaml`.
const NODE_ID: &str = "edgelink-edge";

/// The properties that our modules read.
fn get_property(
    call: &mut Call<'_>,
    path: u32,
    path_size: u32,
    value_at: u32,
    size_at: u32,
) -> HostcallResult {
    let path = call.read(path, path_size)?;
    if path == b"xds\0node\0id" {
        return call.give(NODE_ID.as_bytes(), value_at, size_at);
    }
    if path != b"source\0address" {
        let text = format!(
            "this host does not know the property {:?}",
            path.escape_ascii().to_string()
        );
        return Err(Refusal::Trap(wasmtime::Error::msg(text)));
    }
    let stream = call.stream().ok_or(Status::NotFound)?;
    let address = client_address(stream.message(StreamHalf::Request).headers.as_ref());
    call.give(address.as_bytes(), value_at, size_at)
}

/// Sets filter state of the stream.
fn set_property(
    call: &mut Call<'_>,
    path: u32,
    path_size: u32,
    value: u32,
    value_size: u32,
) -> HostcallResult {
    let (path, value) = (call.read(path, path_size)?, call.read(value, value_size)?);
    let stream = call.stream().ok_or(Status::NotFound)?;
    stream.filter_state.insert(path, value);
    Ok(())
}

/// Address of a client behind one trusted proxy, as in `envoy/bootstrap.yaml` with `EDGELINK_TRUSTED_HOPS=1`: the last
/// one in `x-forwarded-for`, with port 0; without that header, the peer address of the connection.
fn client_address(headers: Option<&HeaderMap>) -> String {
    let forwarded = headers.and_then(|headers| headers.text("x-forwarded-for"));
    let last = forwarded.and_then(|list| list.rsplit(',').next());
    let address: Option<IpAddr> = last.and_then(|address| address.trim().parse().ok());
    match address {
        Some(address) => SocketAddr::new(address, 0).to_string(),
        None => "127.0.0.1:40000".to_owned(),
    }
}

/// The kinds of maps, by the numbers of the ABI.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MapKind {
    Stream(StreamHalf),
    CalloutHeaders,
}

fn kind(map: u32) -> Result<MapKind, Refusal> {
    match map {
        0 => Ok(MapKind::Stream(StreamHalf::Request)),
        2 => Ok(MapKind::Stream(StreamHalf::Response)),
        6 => Ok(MapKind::CalloutHeaders),
        1 | 3 | 4 | 5 | 7 => {
            let text = format!("this host does not know the header map {map}");
            Err(Refusal::Trap(wasmtime::Error::msg(text)))
        }
        _ => Err(Status::BadArgument.into()),
    }
}

/// Finds a map for reading.
fn find(state: &mut VmState, kind: MapKind) -> Option<&HeaderMap> {
    match kind {
        MapKind::Stream(direction) => {
            let message = state.stream()?.message(direction);
            let headers = message.headers.as_ref();
            headers.filter(|_| message.are_headers_visible)
        }
        MapKind::CalloutHeaders => Some(&state.callouts.response.as_ref()?.headers),
    }
}

fn get_value(
    call: &mut Call<'_>,
    map: u32,
    key: u32,
    key_size: u32,
    value_at: u32,
    size_at: u32,
) -> HostcallResult {
    let kind = kind(map)?;
    let key = call.read(key, key_size)?;
    let found = find(call.state(), kind).ok_or(Status::BadArgument)?;
    let value = found.get(&key).ok_or(Status::NotFound)?.to_owned();
    call.give(&value, value_at, size_at)
}

/// Only visible maps of the stream can be written.
fn replace_value(
    call: &mut Call<'_>,
    map: u32,
    key: u32,
    key_size: u32,
    value: u32,
    value_size: u32,
) -> HostcallResult {
    let kind = kind(map)?;
    let (key, value) = (call.read(key, key_size)?, call.read(value, value_size)?);
    let MapKind::Stream(direction) = kind else {
        return Err(Status::BadArgument.into());
    };
    let message = call.stream().ok_or(Status::BadArgument)?.message(direction);
    let is_visible = message.are_headers_visible;
    let headers = message.headers.as_mut().filter(|_| is_visible);
    headers.ok_or(Status::BadArgument)?.set(key, value);
    Ok(())
}

fn get_pairs(call: &mut Call<'_>, map: u32, data_at: u32, size_at: u32) -> HostcallResult {
    let kind = kind(map)?;
    let pairs = find(call.state(), kind).map(HeaderMap::encode);
    call.give(&pairs.unwrap_or_default(), data_at, size_at)
}
