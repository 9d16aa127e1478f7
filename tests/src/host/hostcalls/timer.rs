//! `proxy_set_tick_period_milliseconds`.

use crate::host::call::{Call, link_hostcalls};
use crate::host::state::VmState;
use crate::host::status::Answer;
use std::time::Duration;
use wasmtime::Linker;

/// The ticks that a root context has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) period: Duration,
    /// When the next tick is due, since 1970.
    pub(crate) due: Duration,
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_set_tick_period_milliseconds" => set_tick_period_milliseconds(period);
    }
    Ok(())
}

/// It is the root's timer, whatever context asks; 0 stops it.
fn set_tick_period_milliseconds(call: &mut Call<'_>, period: u32) -> Answer {
    let state = call.state();
    let period = Duration::from_millis(u64::from(period));
    let due = state.shared.clock.monotonic() + period;
    if let Some(root) = state.root() {
        root.timer = (!period.is_zero()).then_some(Timer { period, due });
    }
    Ok(())
}
