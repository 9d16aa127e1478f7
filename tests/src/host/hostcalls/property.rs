//! `proxy_get_property` and `proxy_set_property`.

use crate::host::HeaderMap;
use crate::host::call::{Call, link_hostcalls};
use crate::host::state::VmState;
use crate::host::status::{Answer, Refusal, Status};
use wasmtime::Linker;

/// Roots of paths that Envoy knows and this host does not: a test that needs one says what it is.
const NOT_MODELLED: &[&[u8]] = &[
    b"cluster_metadata",
    b"cluster_name",
    b"connection",
    b"connection_id",
    b"destination",
    b"filter_state",
    b"listener_direction",
    b"listener_metadata",
    b"metadata",
    b"node",
    b"route_metadata",
    b"route_name",
    b"source",
    b"upstream",
    b"upstream_filter_state",
    b"upstream_host_metadata",
    b"xds",
];

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_property" => get_property(path, path_size, value_at, size_at);
        "proxy_set_property" => set_property(path, path_size, value, value_size);
    }
    Ok(())
}

fn get_property(
    call: &mut Call<'_>,
    path: u32,
    path_size: u32,
    value_at: u32,
    size_at: u32,
) -> Answer {
    let path = call.read(path, path_size)?;
    let value = find(call.state(), &path)?;
    call.give(&value, value_at, size_at)
}

fn find(state: &mut VmState, path: &[u8]) -> Result<Vec<u8>, Refusal> {
    if let Some(value) = state.plugin.properties.get(path) {
        return Ok(value.clone());
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == 0).collect();
    let Some((&root, rest)) = parts.split_first().filter(|_| !path.is_empty()) else {
        // The value of no path is null, which has no form.
        return Err(Status::SerializationFailure.into());
    };
    let plugin = &state.plugin;
    let value = match (root, rest) {
        (b"plugin_name", []) => Some(plugin.name.clone().into_bytes()),
        (b"plugin_root_id", []) => Some(plugin.root_id.clone().into_bytes()),
        (b"plugin_vm_id", []) => Some(plugin.vm_id.clone().into_bytes()),
        (b"request", rest) => request(state, rest),
        (b"response", rest) => response(state, rest),
        (root, _) if NOT_MODELLED.contains(&root) => return Err(not_modelled(path)),
        (own, []) => state
            .stream()
            .and_then(|stream| stream.properties.get(own).cloned()),
        _ => None,
    };
    value.ok_or_else(|| Status::NotFound.into())
}

fn not_modelled(path: &[u8]) -> Refusal {
    let path = String::from_utf8_lossy(path).replace('\0', ".");
    Refusal::Trap(wasmtime::Error::msg(format!(
        "this host does not know the property '{path}': give it to the fleet's builder"
    )))
}

fn request(state: &mut VmState, path: &[&[u8]]) -> Option<Vec<u8>> {
    let stream = state.stream()?;
    let message = &stream.request;
    let headers = visible(
        message.are_headers_visible || stream.is_logging,
        &message.headers,
    )?;
    let path_header = || headers.get(":path").unwrap_or_default();
    let value = match path {
        [b"path"] => path_header(),
        [b"url_path"] => path_header().split(|byte| *byte == b'?').next()?,
        [b"query"] => path_header().splitn(2, |byte| *byte == b'?').nth(1)?,
        [b"method"] => headers.get(":method")?,
        [b"scheme"] => headers.get(":scheme")?,
        [b"host"] => headers.get(":authority")?,
        [b"referer"] => headers.get("referer")?,
        [b"useragent"] => headers.get("user-agent")?,
        [b"id"] => headers.get("x-request-id")?,
        [b"headers", name] => headers.get(name)?,
        _ => return None,
    };
    Some(value.to_owned())
}

fn response(state: &mut VmState, path: &[&[u8]]) -> Option<Vec<u8>> {
    let stream = state.stream()?;
    let message = &stream.response;
    let headers = visible(
        message.are_headers_visible || stream.is_logging,
        &message.headers,
    )?;
    match path {
        [b"code"] => {
            let code: i64 = headers.text(":status")?.parse().ok()?;
            Some(code.to_le_bytes().to_vec())
        }
        [b"headers", name] => headers.get(name).map(<[u8]>::to_owned),
        _ => None,
    }
}

fn visible(is_visible: bool, headers: &Option<HeaderMap>) -> Option<&HeaderMap> {
    headers.as_ref().filter(|_| is_visible)
}

/// What is set under a path of several parts cannot be read back: reading looks for the first part alone.
fn set_property(
    call: &mut Call<'_>,
    path: u32,
    path_size: u32,
    value: u32,
    value_size: u32,
) -> Answer {
    let path = call.read(path, path_size)?;
    let value = call.read(value, value_size)?;
    let stream = call.stream().ok_or(Status::NotFound)?;
    stream.properties.insert(path, value);
    Ok(())
}
