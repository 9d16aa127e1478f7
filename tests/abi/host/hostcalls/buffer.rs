//! The buffer hostcalls.

use crate::abi::host::call::{Call, HostcallResult, Refusal, Status, link_hostcalls};
use crate::abi::host::state::{StreamHalf, VmState};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_buffer_bytes" => get_bytes(buffer, start, length, data_at, size_at);
        "proxy_set_buffer_bytes" => set_bytes(buffer, start, length, data, size);
    }
    Ok(())
}

fn direction(buffer: u32) -> Option<StreamHalf> {
    match buffer {
        0 => Some(StreamHalf::Request),
        1 => Some(StreamHalf::Response),
        _ => None,
    }
}

/// Bytes of a buffer. Absent bodies are empty; a callout's response outside of its callback, and the plugin's
/// configuration after configuring, are not found.
fn find(state: &mut VmState, buffer: u32) -> Result<Vec<u8>, Refusal> {
    if let Some(direction) = direction(buffer) {
        let stream = state.stream();
        let body = stream.and_then(|stream| stream.message(direction).buffer.clone());
        return Ok(body.unwrap_or_default());
    }
    let found = match buffer {
        4 => state.callouts.response.as_ref().map(|it| it.body.clone()),
        5 => Some(state.grpc.message.clone().unwrap_or_default()),
        7 if state.is_configuring => {
            let root = state.root();
            Some(root.map_or_else(Vec::new, |root| root.configuration.to_vec()))
        }
        7 => None,
        2 | 3 | 6 | 8 => {
            let text = format!("this host does not know the buffer {buffer}");
            return Err(Refusal::Trap(wasmtime::Error::msg(text)));
        }
        _ => return Err(Status::BadArgument.into()),
    };
    Ok(found.ok_or(Status::NotFound)?)
}

fn get_bytes(
    call: &mut Call<'_>,
    buffer: u32,
    start: u32,
    length: u32,
    data_at: u32,
    size_at: u32,
) -> HostcallResult {
    let bytes = find(call.state(), buffer)?;
    // Lengths are 64 bits wide in Envoy: nothing overflows, and bytes beyond the end are cut off.
    let start = (start as usize).min(bytes.len());
    let end = start.saturating_add(length as usize).min(bytes.len());
    call.give(&bytes[start..end], data_at, size_at)
}

/// The beginning of a body can be replaced, and bytes can be appended; the middle cannot be changed.
fn set_bytes(
    call: &mut Call<'_>,
    buffer: u32,
    start: u32,
    length: u32,
    data: u32,
    size: u32,
) -> HostcallResult {
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
