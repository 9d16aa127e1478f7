//! `proxy_log` and `proxy_get_log_level`.

use crate::host::call::{Call, link_hostcalls};
use crate::host::shared::{Level, LogLine};
use crate::host::state::VmState;
use crate::host::status::{Answer, Status};
use wasmtime::Linker;

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_log" => log(level, data, size);
        "proxy_get_log_level" => get_log_level(level_at);
    }
    Ok(())
}

fn log(call: &mut Call<'_>, level: u32, data: u32, size: u32) -> Answer {
    let level = match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        3 => Level::Warn,
        4 => Level::Error,
        5 => Level::Critical,
        _ => return Err(Status::BadArgument.into()),
    };
    let message = call.read(data, size)?;
    write_line(call.state(), level, &message);
    Ok(())
}

/// Notes a line in the log of the process.
pub(super) fn write_line(state: &VmState, level: Level, message: &[u8]) {
    state.shared.log.borrow_mut().push(LogLine {
        thread: state.thread,
        level,
        message: String::from_utf8_lossy(message).into_owned(),
    });
}

/// Everything is logged here.
fn get_log_level(call: &mut Call<'_>, level_at: u32) -> Answer {
    Ok(call.write_word(level_at, Level::Trace as u32)?)
}
