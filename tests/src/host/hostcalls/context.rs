//! The hostcalls that choose, continue, close and end contexts.

use crate::host::call::{Call, link_hostcalls};
use crate::host::state::{Deferred, Direction, VmState};
use crate::host::status::{Answer, Status};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_set_effective_context" => set_effective_context(context);
        "proxy_continue_stream" => continue_stream(stream_type);
        "proxy_close_stream" => close_stream(stream_type);
        "proxy_done" => done();
    }
    Ok(())
}

fn set_effective_context(call: &mut Call<'_>, context: u32) -> Answer {
    let state = call.state();
    if !state.contexts.contains_key(&context) {
        return Err(Status::BadArgument.into());
    }
    state.effective = context;
    Ok(())
}

/// The kinds of streams, by the numbers of the ABI.
enum Kind {
    Http(Direction),
    Downstream,
    Upstream,
}

fn kind(stream_type: u32) -> Result<Kind, Status> {
    match stream_type {
        0 => Ok(Kind::Http(Direction::Request)),
        1 => Ok(Kind::Http(Direction::Response)),
        2 => Ok(Kind::Downstream),
        3 => Ok(Kind::Upstream),
        _ => Err(Status::BadArgument),
    }
}

/// The request is out of the module's sight at once, even where the stream was not paused, or there is none.
fn continue_stream(call: &mut Call<'_>, stream_type: u32) -> Answer {
    let direction = match kind(stream_type)? {
        Kind::Http(direction) => direction,
        Kind::Downstream => return Ok(()),
        Kind::Upstream => return Err(Status::Unimplemented.into()),
    };
    let state = call.state();
    let context = state.context();
    if let Some(stream) = state.streams.get_mut(&context) {
        stream.request.hide();
        state.deferred.push_back(Deferred::Continue {
            stream: context,
            direction,
        });
    }
    Ok(())
}

fn close_stream(call: &mut Call<'_>, stream_type: u32) -> Answer {
    let Kind::Http(_) = kind(stream_type)? else {
        return Ok(());
    };
    let state = call.state();
    let stream = state.context();
    if state.streams.contains_key(&stream) {
        state.deferred.push_back(Deferred::Reset { stream });
    }
    Ok(())
}

/// Only a root context that has put off its end has something to be done with, and this host ends none.
fn done(_call: &mut Call<'_>) -> Answer {
    Err(Status::NotFound.into())
}
