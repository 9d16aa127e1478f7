//! `proxy_get_current_time_nanoseconds`.

use crate::host::call::{Call, link_hostcalls};
use crate::host::state::VmState;
use crate::host::status::Answer;
use std::time::Duration;
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_current_time_nanoseconds" => get_current_time_nanoseconds(time_at);
    }
    Ok(())
}

fn get_current_time_nanoseconds(call: &mut Call<'_>, time_at: u32) -> Answer {
    let now = nanoseconds(call.state().shared.clock.now());
    Ok(call.write(time_at, &now.to_le_bytes())?)
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a time before the year 2554")
}
