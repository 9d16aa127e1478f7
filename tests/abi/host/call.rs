//! A hostcall's access to the calling VM, and its result.

use super::driver::Driver;
use super::state::{HttpStream, Restriction, VM_CONTEXT, VmState};
use wasmtime::{AsContextMut, Caller, Memory};

/// Hostcalls that a starting module may make, by proxy-wasm-cpp-host's `WasmBase::startVm`.
const AT_START: &[&str] = &[
    "proxy_log",
    "fd_write",
    "environ_sizes_get",
    "environ_get",
    "clock_time_get",
    "random_get",
];

/// Hostcalls that an allocator may make, by `WasmBase::allocMemory`.
const IN_ALLOCATION: &[&str] = &["proxy_log", "fd_write", "clock_time_get"];

/// Status of a refused hostcall. The numbers are the ABI's; 0, which is Ok, is `Ok(())` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    NotFound = 1,
    BadArgument = 2,
    ParseFailure = 4,
    InvalidMemoryAccess = 6,
    CasMismatch = 8,
    InternalFailure = 10,
}

/// Failure of a hostcall.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The module receives that status.
    Status(Status),
    /// The module traps.
    Trap(wasmtime::Error),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<wasmtime::Error> for Refusal {
    fn from(error: wasmtime::Error) -> Self {
        Self::Trap(error)
    }
}

/// Result of a hostcall.
pub(crate) type HostcallResult = Result<(), Refusal>;

/// A hostcall in progress.
pub(crate) struct Call<'a> {
    caller: Caller<'a, VmState>,
    memory: Memory,
}

impl<'a> Call<'a> {
    /// Counts the hostcall, and traps the module if it may not make it now.
    pub(crate) fn begin(
        mut caller: Caller<'a, VmState>,
        name: &'static str,
    ) -> wasmtime::Result<Self> {
        let state = caller.data_mut();
        *state.usage.hostcalls.entry(name).or_default() += 1;
        let is_allowed = match state.restriction {
            Restriction::None => true,
            Restriction::Start => AT_START.contains(&name),
            Restriction::Allocation => IN_ALLOCATION.contains(&name),
        };
        if !is_allowed {
            return Err(wasmtime::Error::msg(format!("restricted_callback: {name}")));
        }
        // A module that makes hostcalls while it is instantiated has no memory known to the host yet.
        let memory = match state.memory {
            Some(memory) => memory,
            None => caller
                .get_export("memory")
                .and_then(wasmtime::Extern::into_memory)
                .ok_or_else(|| wasmtime::Error::msg("the module exports no memory"))?,
        };
        Ok(Self { caller, memory })
    }

    pub(crate) fn state(&mut self) -> &mut VmState {
        self.caller.data_mut()
    }

    /// The stream that the hostcall applies to, if any.
    pub(crate) fn stream(&mut self) -> Option<&mut HttpStream> {
        self.state().stream()
    }

    /// Driver for calls back into the module before the hostcall returns.
    pub(crate) fn driver(&mut self) -> Driver<'_> {
        Driver {
            store: self.caller.as_context_mut(),
        }
    }

    /// Copies bytes out of the module's memory.
    pub(crate) fn read(&mut self, at: u32, size: u32) -> Result<Vec<u8>, Status> {
        let data = self.memory.data(&self.caller);
        let bytes = (at as usize)
            .checked_add(size as usize)
            .and_then(|end| data.get(at as usize..end))
            .map(<[u8]>::to_vec)
            .ok_or(Status::InvalidMemoryAccess)?;
        self.state().usage.bytes_taken += u64::from(size);
        Ok(bytes)
    }

    /// Copies bytes into the module's memory.
    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Status> {
        self.memory
            .write(&mut self.caller, at as usize, bytes)
            .map_err(|_| Status::InvalidMemoryAccess)?;
        self.state().usage.bytes_given += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn write_word(&mut self, at: u32, word: u32) -> Result<(), Status> {
        self.write(at, &word.to_le_bytes())
    }

    /// Returns bytes to the module: in memory that the module allocates, with address and size stored at the given
    /// places.
    pub(crate) fn give(&mut self, bytes: &[u8], at: u32, size_at: u32) -> HostcallResult {
        let size = u32::try_from(bytes.len()).map_err(|_| Status::InvalidMemoryAccess)?;
        let address = match size {
            0 => 0,
            _ => self.allocate(size)?,
        };
        self.write(address, bytes)?;
        self.write_word(at, address)?;
        self.write_word(size_at, size)?;
        Ok(())
    }

    fn allocate(&mut self, size: u32) -> Result<u32, Refusal> {
        let exports = self.driver().exports();
        let malloc = exports.as_ref().and_then(|exports| {
            let malloc = exports.malloc.func.as_ref();
            malloc.or(exports.memory_allocate.func.as_ref())
        });
        let malloc = malloc.ok_or(Status::InvalidMemoryAccess)?;
        let state = self.state();
        state.usage.allocations += 1;
        let saved = (state.current, state.effective, state.restriction);
        (state.current, state.effective) = (Some(VM_CONTEXT), VM_CONTEXT);
        state.restriction = Restriction::Allocation;
        let address = malloc.call(&mut self.caller, (size,));
        let state = self.state();
        (state.current, state.effective, state.restriction) = saved;
        match address? {
            0 => Err(Status::InvalidMemoryAccess.into()),
            address => Ok(address),
        }
    }
}

/// Number returned to the module, or the trap.
pub(crate) fn finish(answer: HostcallResult) -> wasmtime::Result<u32> {
    match answer {
        Ok(()) => Ok(0),
        Err(Refusal::Status(status)) => Ok(status as u32),
        Err(Refusal::Trap(error)) => Err(error),
    }
}

/// Links hostcalls of the module `env`: each is a function of a [`Call`] and of numbers; these are `u32` unless given
/// another type.
macro_rules! link_hostcalls {
    ($linker:expr; $($name:literal => $function:ident($($arg:ident $(: $ty:ty)?),*);)*) => {
        $(
            $linker.func_wrap(
                "env",
                $name,
                |caller: wasmtime::Caller<'_, $crate::abi::host::state::VmState>,
                 $($arg: link_hostcalls!(@ $($ty)?)),*| {
                    let mut call = $crate::abi::host::call::Call::begin(caller, $name)?;
                    $crate::abi::host::call::finish($function(&mut call, $($arg),*))
                },
            )?;
        )*
    };
    (@) => { u32 };
    (@ $ty:ty) => { $ty };
}
pub(crate) use link_hostcalls;
