//! Errors of decoding the formats of this crate.

/// A failure to decode a record or another format of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end too early.
    #[error("the record is cut off")]
    Truncated,
    /// The first byte is not a known version.
    #[error("version {0} of the record is not known")]
    Version(u8),
    /// Reserved flags are set, or flags that contradict each other.
    #[error("the flags {0:#010b} are not valid")]
    Flags(u8),
    /// A number is over-long or above 64 bits.
    #[error("a number is malformed")]
    Number,
    /// The target is empty, too long or has bytes other than visible ASCII.
    #[error("the target is malformed")]
    Url,
    /// There are bytes behind an absent record.
    #[error("bytes follow the record")]
    Trailing,
    /// A field is missing or malformed.
    #[error("the field '{0}' is missing or malformed")]
    Field(&'static str),
}
