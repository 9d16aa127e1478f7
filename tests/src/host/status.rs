//! What a hostcall answers.

/// Why a hostcall refuses. The numbers are the ABI's; 0, which is Ok, is `Ok(())` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    NotFound = 1,
    BadArgument = 2,
    SerializationFailure = 3,
    ParseFailure = 4,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

/// How a hostcall ends that does not end well.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The module gets that status.
    Status(Status),
    /// The module is trapped.
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

/// What a hostcall answers.
pub(crate) type Answer = Result<(), Refusal>;

/// The status of an HTTP callout that was reset, in `proxy_get_status`.
pub(crate) const BROKEN_CONNECTION: u32 = 11;
