//! The header map hostcalls.
//!
//! A map that is absent in this phase is a bad argument, except that all its pairs are none at all.

use crate::host::HeaderMap;
use crate::host::call::{Call, link_hostcalls};
use crate::host::state::{Direction, VmState};
use crate::host::status::{Answer, Status};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_header_map_value" => get_value(map, key, key_size, value_at, size_at);
        "proxy_add_header_map_value" => add_value(map, key, key_size, value, value_size);
        "proxy_replace_header_map_value" => replace_value(map, key, key_size, value, value_size);
        "proxy_remove_header_map_value" => remove_value(map, key, key_size);
        "proxy_get_header_map_pairs" => get_pairs(map, data_at, size_at);
        "proxy_set_header_map_pairs" => set_pairs(map, data, size);
        "proxy_get_header_map_size" => get_size(map, size_at);
    }
    Ok(())
}

/// The kinds of maps, by the numbers of the ABI.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stream(Direction),
    Trailers,
    GrpcInitialMetadata,
    GrpcTrailingMetadata,
    CalloutHeaders,
    CalloutTrailers,
}

fn kind(map: u32) -> Result<Kind, Status> {
    match map {
        0 => Ok(Kind::Stream(Direction::Request)),
        2 => Ok(Kind::Stream(Direction::Response)),
        1 | 3 => Ok(Kind::Trailers),
        4 => Ok(Kind::GrpcInitialMetadata),
        5 => Ok(Kind::GrpcTrailingMetadata),
        6 => Ok(Kind::CalloutHeaders),
        7 => Ok(Kind::CalloutTrailers),
        _ => Err(Status::BadArgument),
    }
}

/// The map, for reading.
fn find(state: &mut VmState, kind: Kind) -> Option<&HeaderMap> {
    match kind {
        Kind::Stream(direction) => {
            let stream = state.stream()?;
            let is_logging = stream.is_logging;
            let message = stream.message(direction);
            let headers = message.headers.as_ref();
            headers.filter(|_| is_logging || message.are_headers_visible)
        }
        Kind::Trailers => None,
        Kind::GrpcInitialMetadata => state.grpc.initial_metadata.as_ref(),
        Kind::GrpcTrailingMetadata => state.grpc.trailing_metadata.as_ref(),
        Kind::CalloutHeaders => Some(&state.callouts.response.as_ref()?.headers),
        Kind::CalloutTrailers => {
            let trailers = &state.callouts.response.as_ref()?.trailers;
            (!trailers.is_empty()).then_some(trailers)
        }
    }
}

/// The map, for writing: only those of the stream can be written, and only where they are visible.
fn find_mut<'a>(call: &'a mut Call<'_>, map: u32) -> Result<&'a mut HeaderMap, Status> {
    let Kind::Stream(direction) = kind(map)? else {
        return Err(Status::BadArgument);
    };
    let stream = call.stream().ok_or(Status::BadArgument)?;
    let message = stream.message(direction);
    let is_visible = message.are_headers_visible;
    let headers = message.headers.as_mut().filter(|_| is_visible);
    headers.ok_or(Status::BadArgument)
}

fn get_value(
    call: &mut Call<'_>,
    map: u32,
    key: u32,
    key_size: u32,
    value_at: u32,
    size_at: u32,
) -> Answer {
    let kind = kind(map)?;
    let key = call.read(key, key_size)?;
    let Some(found) = find(call.state(), kind) else {
        let is_logging = call.stream().is_some_and(|stream| stream.is_logging);
        return Err(if is_logging {
            Status::NotFound.into()
        } else {
            Status::BadArgument.into()
        });
    };
    let value = found.get(&key).ok_or(Status::NotFound)?.to_owned();
    call.give(&value, value_at, size_at)
}

fn add_value(
    call: &mut Call<'_>,
    map: u32,
    key: u32,
    key_size: u32,
    value: u32,
    value_size: u32,
) -> Answer {
    kind(map)?;
    let (key, value) = (call.read(key, key_size)?, call.read(value, value_size)?);
    find_mut(call, map)?.add(key, value);
    Ok(())
}

fn replace_value(
    call: &mut Call<'_>,
    map: u32,
    key: u32,
    key_size: u32,
    value: u32,
    value_size: u32,
) -> Answer {
    kind(map)?;
    let (key, value) = (call.read(key, key_size)?, call.read(value, value_size)?);
    find_mut(call, map)?.set(key, value);
    Ok(())
}

fn remove_value(call: &mut Call<'_>, map: u32, key: u32, key_size: u32) -> Answer {
    kind(map)?;
    let key = call.read(key, key_size)?;
    find_mut(call, map)?.remove(key);
    Ok(())
}

fn get_pairs(call: &mut Call<'_>, map: u32, data_at: u32, size_at: u32) -> Answer {
    let kind = kind(map)?;
    let pairs = find(call.state(), kind).map(HeaderMap::encode);
    call.give(&pairs.unwrap_or_default(), data_at, size_at)
}

fn set_pairs(call: &mut Call<'_>, map: u32, data: u32, size: u32) -> Answer {
    kind(map)?;
    let data = call.read(data, size)?;
    *find_mut(call, map)? = HeaderMap::decode(&data);
    Ok(())
}

fn get_size(call: &mut Call<'_>, map: u32, size_at: u32) -> Answer {
    let size = find_mut(call, map)?.byte_size();
    let size = u32::try_from(size).map_err(|_| Status::BadArgument)?;
    Ok(call.write_word(size_at, size)?)
}
