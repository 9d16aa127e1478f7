//! The log, and the WASI functions, which return WASI's error numbers.

use crate::abi::host::call::{Call, HostcallResult, Status, link_hostcalls};
use crate::abi::host::shared::{Level, LogLine};
use crate::abi::host::state::VmState;
use wasmtime::{Caller, Linker};

const WASI: &str = "wasi_snapshot_preview1";

const SUCCESS: u32 = 0;
const BAD_DESCRIPTOR: u32 = 8;
const FAULT: u32 = 21;
const INVALID: u32 = 28;
const NOT_SUPPORTED: u32 = 58;

/// Most bytes that one `random_get` returns.
const MAX_RANDOM: u32 = 65_536;

/// Links WASI functions, as `link_hostcalls` links Envoy's.
macro_rules! link_wasi {
    ($linker:expr; $($name:literal => $function:ident($($arg:ident $(: $ty:ty)?),*);)*) => {
        $(
            $linker.func_wrap(
                WASI,
                $name,
                |caller: Caller<'_, VmState>, $($arg: link_wasi!(@ $($ty)?)),*| {
                    let mut call = Call::begin(caller, $name)?;
                    Ok($function(&mut call, $($arg),*).map_or_else(|errno| errno, |()| SUCCESS))
                },
            )?;
        )*
    };
    (@) => { u32 };
    (@ $ty:ty) => { $ty };
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_log" => log(level, data, size);
    }
    link_wasi! { linker;
        "fd_write" => write(fd, vectors, count, written_at);
        "environ_sizes_get" => environ_sizes_get(count_at, size_at);
        "environ_get" => environ_get(environ, buffer);
        "clock_time_get" => clock_time_get(clock, precision: u64, time_at);
        "random_get" => random(buffer, size);
    }
    // Envoy logs it and continues; the trap that follows is the module's own.
    linker.func_wrap(WASI, "proc_exit", |caller: Caller<'_, VmState>, _: u32| {
        Call::begin(caller, "proc_exit").map(drop)
    })?;
    Ok(())
}

fn log(call: &mut Call<'_>, level: u32, data: u32, size: u32) -> HostcallResult {
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

/// Appends a line to the log of the process.
fn write_line(state: &VmState, level: Level, message: &[u8]) {
    state.shared.log.borrow_mut().push(LogLine {
        thread: state.thread,
        level,
        message: String::from_utf8_lossy(message).into_owned(),
    });
}

/// Standard output is logged as info, standard error as error.
fn write(
    call: &mut Call<'_>,
    fd: u32,
    vectors: u32,
    count: u32,
    written_at: u32,
) -> Result<(), u32> {
    let level = match fd {
        1 => Level::Info,
        2 => Level::Error,
        _ => return Err(BAD_DESCRIPTOR),
    };
    let mut text = Vec::new();
    for index in 0..count {
        let vector = call
            .read(vectors.wrapping_add(8 * index), 8)
            .map_err(|_| FAULT)?;
        let word = |at: usize| {
            let bytes = vector[at..at + 4].iter().rev();
            bytes.fold(0, |word, byte| word << 8 | u32::from(*byte))
        };
        if word(4) != 0 {
            text.extend(call.read(word(0), word(4)).map_err(|_| FAULT)?);
        }
    }
    if !text.is_empty() {
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        write_line(call.state(), level, line);
    }
    let written = u32::try_from(text.len()).map_err(|_| FAULT)?;
    call.write_word(written_at, written).map_err(|_| FAULT)
}

/// There are no environment variables.
fn environ_sizes_get(call: &mut Call<'_>, count_at: u32, size_at: u32) -> Result<(), u32> {
    let written = call.write_word(count_at, 0);
    let written = written.and_then(|()| call.write_word(size_at, 0));
    written.map_err(|_| FAULT)
}

fn environ_get(_: &mut Call<'_>, _: u32, _: u32) -> Result<(), u32> {
    Ok(())
}

fn clock_time_get(call: &mut Call<'_>, clock: u32, _: u64, time_at: u32) -> Result<(), u32> {
    let clocks = &call.state().shared.clock;
    let now = match clock {
        0 => clocks.now(),
        1 => clocks.monotonic(),
        _ => return Err(NOT_SUPPORTED),
    };
    let now = u64::try_from(now.as_nanos()).expect("a time before the year 2554");
    call.write(time_at, &now.to_le_bytes()).map_err(|_| FAULT)
}

fn random(call: &mut Call<'_>, buffer: u32, size: u32) -> Result<(), u32> {
    match size {
        0 => return Ok(()),
        size if size > MAX_RANDOM => return Err(INVALID),
        _ => {}
    }
    let shared = &call.state().shared;
    let bytes: Vec<u8> = (0..size).map(|_| shared.random_byte()).collect();
    call.write(buffer, &bytes).map_err(|_| FAULT)
}
