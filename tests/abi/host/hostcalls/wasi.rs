//! The few functions of WASI that Envoy provides. What it does not provide is not here: a module that imports it is
//! refused by both. Results are WASI's error numbers.

use super::clock::nanoseconds;
use super::log::write_line;
use crate::abi::host::call::Call;
use crate::abi::host::shared::Level;
use crate::abi::host::state::VmState;
use wasmtime::{Caller, Linker, Result};

const SUCCESS: u32 = 0;
const BAD_DESCRIPTOR: u32 = 8;
const FAULT: u32 = 21;
const INVALID: u32 = 28;
const NO_ENTRY: u32 = 44;
const NO_SYSTEM_CALL: u32 = 52;
const NOT_SUPPORTED: u32 = 58;

/// The most bytes that `random_get` gives at once.
const MAX_RANDOM: u32 = 65_536;

type Wasi<'a> = Caller<'a, VmState>;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    for module in ["wasi_unstable", "wasi_snapshot_preview1"] {
        link_files(linker, module)?;
        link_environment(linker, module)?;
        link_time_and_random(linker, module)?;
    }
    Ok(())
}

fn link_files(linker: &mut Linker<VmState>, module: &str) -> Result<()> {
    linker.func_wrap(
        module,
        "fd_write",
        |wasi: Wasi<'_>, fd: u32, vectors: u32, count: u32, written_at: u32| {
            let mut call = Call::begin(wasi, "fd_write")?;
            Ok(write(&mut call, fd, vectors, count, written_at).unwrap_or_else(|errno| errno))
        },
    )?;
    linker.func_wrap(
        module,
        "fd_read",
        |wasi: Wasi<'_>, _: u32, _: u32, _: u32, _: u32| {
            Call::begin(wasi, "fd_read").map(|_| NO_SYSTEM_CALL)
        },
    )?;
    linker.func_wrap(
        module,
        "fd_seek",
        |wasi: Wasi<'_>, _: u32, _: i64, _: u32, _: u32| {
            Call::begin(wasi, "fd_seek").map(|_| SUCCESS)
        },
    )?;
    linker.func_wrap(module, "fd_close", |wasi: Wasi<'_>, _: u32| {
        Call::begin(wasi, "fd_close").map(|_| SUCCESS)
    })?;
    linker.func_wrap(
        module,
        "fd_fdstat_get",
        |wasi: Wasi<'_>, fd: u32, stat_at: u32| {
            let mut call = Call::begin(wasi, "fd_fdstat_get")?;
            Ok(stat(&mut call, fd, stat_at))
        },
    )?;
    linker.func_wrap(
        module,
        "path_open",
        |wasi: Wasi<'_>, _: u32, _: u32, _: u32, _: u32, _: u32, _: i64, _: i64, _: u32, _: u32| {
            Call::begin(wasi, "path_open").map(|_| NO_ENTRY)
        },
    )?;
    linker.func_wrap(
        module,
        "fd_prestat_get",
        |wasi: Wasi<'_>, _: u32, _: u32| {
            Call::begin(wasi, "fd_prestat_get").map(|_| BAD_DESCRIPTOR)
        },
    )?;
    linker.func_wrap(
        module,
        "fd_prestat_dir_name",
        |wasi: Wasi<'_>, _: u32, _: u32, _: u32| {
            Call::begin(wasi, "fd_prestat_dir_name").map(|_| NO_SYSTEM_CALL)
        },
    )?;
    Ok(())
}

/// Standard output is logged as info, standard error as error.
fn write(
    call: &mut Call<'_>,
    fd: u32,
    vectors: u32,
    count: u32,
    written_at: u32,
) -> Result<u32, u32> {
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
            vector[at..at + 4]
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        };
        if word(4) != 0 {
            text.extend(call.read(word(0), word(4)).map_err(|_| FAULT)?);
        }
    }
    if !text.is_empty() {
        write_line(
            call.state(),
            level,
            text.strip_suffix(b"\n").unwrap_or(&text),
        );
    }
    let written = u32::try_from(text.len()).map_err(|_| FAULT)?;
    call.write_word(written_at, written).map_err(|_| FAULT)?;
    Ok(SUCCESS)
}

/// A fault is not reported, as in Envoy.
fn stat(call: &mut Call<'_>, fd: u32, stat_at: u32) -> u32 {
    if !matches!(fd, 1 | 2) {
        return BAD_DESCRIPTOR;
    }
    let mut stat = [0; 24];
    stat[8] = 64; // the right to write
    let _ = call.write(stat_at, &stat);
    SUCCESS
}

fn link_environment(linker: &mut Linker<VmState>, module: &str) -> Result<()> {
    linker.func_wrap(
        module,
        "environ_sizes_get",
        |wasi: Wasi<'_>, count_at: u32, size_at: u32| {
            let mut call = Call::begin(wasi, "environ_sizes_get")?;
            let (count, size) = environment(call.state())
                .iter()
                .fold((0, 0), |(count, size), variable| {
                    (count + 1, size + variable.len() as u32)
                });
            Ok(write_both(&mut call, (count_at, count), (size_at, size)))
        },
    )?;
    linker.func_wrap(
        module,
        "environ_get",
        |wasi: Wasi<'_>, environ: u32, buffer: u32| {
            let mut call = Call::begin(wasi, "environ_get")?;
            Ok(give_environment(&mut call, environ, buffer))
        },
    )?;
    linker.func_wrap(
        module,
        "args_sizes_get",
        |wasi: Wasi<'_>, count_at: u32, size_at: u32| {
            let mut call = Call::begin(wasi, "args_sizes_get")?;
            Ok(write_both(&mut call, (count_at, 0), (size_at, 0)))
        },
    )?;
    linker.func_wrap(module, "args_get", |wasi: Wasi<'_>, _: u32, _: u32| {
        Call::begin(wasi, "args_get").map(|_| SUCCESS)
    })?;
    // Envoy notes it and goes on; what comes behind is the module's own trap.
    linker.func_wrap(module, "proc_exit", |wasi: Wasi<'_>, _: u32| {
        Call::begin(wasi, "proc_exit").map(drop)
    })?;
    Ok(())
}

fn environment(state: &VmState) -> Vec<String> {
    let variables = state.plugin.environment.iter();
    variables
        .map(|(name, value)| format!("{name}={value}\0"))
        .collect()
}

fn give_environment(call: &mut Call<'_>, mut environ: u32, mut buffer: u32) -> u32 {
    for variable in environment(call.state()) {
        let written = call
            .write_word(environ, buffer)
            .and_then(|()| call.write(buffer, variable.as_bytes()));
        if written.is_err() {
            return FAULT;
        }
        environ += 4;
        buffer += variable.len() as u32;
    }
    SUCCESS
}

fn write_both(call: &mut Call<'_>, first: (u32, u32), second: (u32, u32)) -> u32 {
    let written = call
        .write_word(first.0, first.1)
        .and_then(|()| call.write_word(second.0, second.1));
    written.map_or(FAULT, |()| SUCCESS)
}

fn link_time_and_random(linker: &mut Linker<VmState>, module: &str) -> Result<()> {
    linker.func_wrap(
        module,
        "clock_time_get",
        |wasi: Wasi<'_>, clock: u32, _precision: u64, time_at: u32| {
            let mut call = Call::begin(wasi, "clock_time_get")?;
            let clocks = &call.state().shared.clock;
            let now = match clock {
                0 => clocks.now(),
                1 => clocks.monotonic(),
                _ => return Ok(NOT_SUPPORTED),
            };
            let now = nanoseconds(now).to_le_bytes();
            Ok(call.write(time_at, &now).map_or(FAULT, |()| SUCCESS))
        },
    )?;
    linker.func_wrap(
        module,
        "random_get",
        |wasi: Wasi<'_>, buffer: u32, size: u32| {
            let mut call = Call::begin(wasi, "random_get")?;
            Ok(random(&mut call, buffer, size))
        },
    )?;
    Ok(())
}

fn random(call: &mut Call<'_>, buffer: u32, size: u32) -> u32 {
    match size {
        0 => return SUCCESS,
        size if size > MAX_RANDOM => return INVALID,
        _ => {}
    }
    let shared = &call.state().shared;
    let bytes: Vec<u8> = (0..size).map(|_| shared.random_byte()).collect();
    call.write(buffer, &bytes).map_or(FAULT, |()| SUCCESS)
}
