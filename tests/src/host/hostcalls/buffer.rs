//! The buffer hostcalls.

use crate::host::call::{Call, link_hostcalls};
use crate::host::state::{Direction, VmState};
use crate::host::status::{Answer, Status};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_buffer_bytes" => get_bytes(buffer, start, length, data_at, size_at);
        "proxy_get_buffer_status" => get_status(buffer, length_at, flags_at);
        "proxy_set_buffer_bytes" => set_bytes(buffer, start, length, data, size);
    }
    Ok(())
}

fn direction(buffer: u32) -> Option<Direction> {
    match buffer {
        0 => Some(Direction::Request),
        1 => Some(Direction::Response),
        _ => None,
    }
}

/// The bytes of a buffer. Bodies and network data that are not there are empty; a callout's response, and the plugin's
/// configuration outside of its configuring, are not found.
fn find(state: &mut VmState, buffer: u32) -> Result<Vec<u8>, Status> {
    let bytes = match buffer {
        0 | 1 => {
            let direction = direction(buffer).ok_or(Status::BadArgument)?;
            let body = state
                .stream()
                .and_then(|stream| stream.message(direction).buffer.clone());
            body.unwrap_or_default()
        }
        2 | 3 => Vec::new(),
        4 => {
            let response = state.callouts.response.as_ref();
            response.ok_or(Status::NotFound)?.body.clone()
        }
        5 => state.grpc.message.clone().unwrap_or_default(),
        6 => state.plugin.vm_configuration.clone(),
        7 if state.is_configuring => state
            .root()
            .map_or_else(Vec::new, |root| root.configuration.to_vec()),
        7 => return Err(Status::NotFound),
        8 => return Ok(state.call_data.clone()),
        _ => return Err(Status::BadArgument),
    };
    state.call_data.clone_from(&bytes);
    Ok(bytes)
}

fn get_bytes(
    call: &mut Call<'_>,
    buffer: u32,
    start: u32,
    length: u32,
    data_at: u32,
    size_at: u32,
) -> Answer {
    let bytes = find(call.state(), buffer)?;
    // Lengths are 64 bits wide in Envoy: nothing overflows, and what lies beyond the end is cut off.
    let start = (start as usize).min(bytes.len());
    let end = start.saturating_add(length as usize).min(bytes.len());
    call.give(&bytes[start..end], data_at, size_at)
}

fn get_status(call: &mut Call<'_>, buffer: u32, length_at: u32, flags_at: u32) -> Answer {
    let length = find(call.state(), buffer)?.len();
    let length = u32::try_from(length).map_err(|_| Status::BadArgument)?;
    call.write_word(length_at, length)?;
    Ok(call.write_word(flags_at, 0)?)
}

/// The beginning of a body can be replaced, and something appended; what is in between cannot be touched.
fn set_bytes(
    call: &mut Call<'_>,
    buffer: u32,
    start: u32,
    length: u32,
    data: u32,
    size: u32,
) -> Answer {
    find(call.state(), buffer)?;
    let data = call.read(data, size)?;
    let direction = direction(buffer).ok_or(Status::BadArgument)?;
    let stream = call.stream().ok_or(Status::BadArgument)?;
    let body = stream.message(direction).buffer.as_mut();
    let body = body.ok_or(Status::BadArgument)?;
    let (start, length) = (start as usize, length as usize);
    if start == 0 {
        let end = length.min(body.len());
        body.splice(..end, data);
    } else if start >= body.len() {
        body.extend(data);
    } else {
        return Err(Status::BadArgument.into());
    }
    Ok(())
}
