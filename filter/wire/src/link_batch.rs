//! Batched lookups: several keys looked up at the control plane by one request (`POST /edge/v1/links`).
//!
//! The request has a line for each key: the part of the path of a single lookup behind `/edge/v1/links/`, separated by line
//! feeds. The answer has for each key, in the same order, the answer to a single lookup: the status as an unsigned LEB128 number,
//! then the body behind its length, which is an encoded [`LinkAnswer`](crate::LinkAnswer) for a link (200) and for an absent one
//! (404). Any other status is a failure without a body, and means nothing for the link or the other keys. 504 stands for a
//! key that took too long, and should be looked up alone.

use crate::code::MAX_CODE_LENGTH;
use crate::domain::MAX_DOMAIN_LENGTH;
use crate::error::RecordError;
use crate::varint;

/// The path of the request.
pub const PATH: &str = "/edge/v1/links";

/// The media type of request and answer.
pub const MEDIA_TYPE: &str = "application/vnd.edgelink.answers";

/// The status of a key that should be looked up alone.
pub const LATE: u16 = 504;

/// The most keys of a request.
pub const MAX_KEYS: usize = 64;

/// The most bytes of a line: the brackets of an IPv6 address are percent-encoded, with three bytes each.
const MAX_LINE_LENGTH: usize = MAX_DOMAIN_LENGTH + 4 + 1 + MAX_CODE_LENGTH;

/// The most bytes of a request.
pub const MAX_LENGTH: usize = MAX_KEYS * (MAX_LINE_LENGTH + 1);

/// The most bytes of the answer to a key besides its body.
pub const OVERHEAD: usize = 2 * varint::MOST_BYTES;

/// Appends the answer to a key.
pub fn write(status: u16, body: &[u8], out: &mut Vec<u8>) {
    varint::write(status.into(), out);
    varint::write_bytes(body, out);
}

/// Reads the statuses and bodies of an answer for this number of keys.
///
/// # Errors
/// The [`RecordError`] that says what is wrong, including a wrong number of keys.
pub fn read(mut bytes: &[u8], keys: usize) -> Result<Vec<(u16, &[u8])>, RecordError> {
    let input = &mut bytes;
    let mut answers = Vec::with_capacity(keys);
    for _ in 0..keys {
        let status = varint::read(input)?;
        let status = u16::try_from(status).map_err(|_| RecordError::Number)?;
        answers.push((status, varint::read_bytes(input)?));
    }
    if input.is_empty() {
        Ok(answers)
    } else {
        Err(RecordError::Trailing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn link_batch_when_written_is_read_unless_cut_off(
            answers in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        ) {
            let mut bytes = Vec::new();
            for (status, body) in &answers {
                write(*status, body, &mut bytes);
            }
            let expected: Vec<_> = answers.iter().map(|(status, body)| (*status, &body[..])).collect();
            prop_assert_eq!(read(&bytes, answers.len()), Ok(expected));
            prop_assert!(read(&bytes, answers.len() + 1).is_err());
            for end in 0..bytes.len() {
                prop_assert!(read(&bytes[..end], answers.len()).is_err());
            }
        }

        #[test]
        fn link_batch_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes, 3);
        }
    }
}
