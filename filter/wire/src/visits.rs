//! Visits of links that have a limit, as workers lease them (`POST /edge/v1/visits/{domain}/{code}`).
//!
//! A visit is a redirect of a GET, be it wanted yet or not. A worker spends visits of a block that the control plane has leased
//! to it for a short time, and says with its next request how many it has spent; the rest comes back. Each request has a
//! number, greater than all earlier ones of the worker, so that one that is sent again gets the same block, and what was
//! spent of a block counts once.
//!
//! Layout of version 1, numbers as unsigned LEB128. A request: version (1 byte), worker (16 bytes), number, the number by which
//! the block came that is settled (0 if there is none), how many visits of it were spent, and whether a block is wanted (0 or
//! 1). An answer: version (1 byte), the number of the request, how many visits, for how many milliseconds.

use crate::clicks::WorkerId;
use crate::error::RecordError;
use crate::varint;

const VERSION: u8 = 1;

/// The most bytes of an encoded request or answer.
pub const MAX_LENGTH: usize = 1 + 16 + 4 * varint::MOST_BYTES;

/// What a worker asks for, and what it gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitsRequest {
    /// The worker.
    pub worker: WorkerId,
    /// Greater than those of all earlier requests of the worker; a request that is sent again keeps it.
    pub number: u64,
    /// The block that is given back.
    pub settled: Option<SettledBlock>,
    /// Whether a block is wanted; otherwise one is only given back.
    pub wants: bool,
}

/// A block that a worker gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledBlock {
    /// The number of the request that it was the answer to; not 0.
    pub number: u64,
    /// How many visits of it were spent.
    pub spent: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitsAnswer {
    /// The number of the request.
    pub number: u64,
    /// How many visits there are to spend; 0 if none are left.
    pub visits: u64,
    /// Milliseconds from the request on in which they may be spent; or, if there are none, before which the worker need not
    /// ask again unless the link changes.
    pub millis: u64,
}

impl VisitsRequest {
    /// The media type.
    pub const MEDIA_TYPE: &str = "application/vnd.edgelink.visits";

    /// The encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.worker);
        let (settled, spent) = self
            .settled
            .map_or((0, 0), |block| (block.number, block.spent));
        for number in [self.number, settled, spent, u64::from(self.wants)] {
            varint::write(number, &mut out);
        }
        out
    }

    /// Reads a request that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let worker = varint::read_array(input)?;
        let number = varint::read(input)?;
        let settled = match (varint::read(input)?, varint::read(input)?) {
            (0, 0) => None,
            (0, _) => return Err(RecordError::Field("spent")),
            (number, spent) => Some(SettledBlock { number, spent }),
        };
        let wants = match varint::read(input)? {
            0 => false,
            1 => true,
            _ => return Err(RecordError::Field("wants")),
        };
        varint::expect_end(input)?;
        Ok(Self {
            worker,
            number,
            settled,
            wants,
        })
    }
}

impl VisitsAnswer {
    /// The media type.
    pub const MEDIA_TYPE: &str = VisitsRequest::MEDIA_TYPE;

    /// The encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for number in [self.number, self.visits, self.millis] {
            varint::write(number, &mut out);
        }
        out
    }

    /// Reads an answer that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let answer = Self {
            number: varint::read(input)?,
            visits: varint::read(input)?,
            millis: varint::read(input)?,
        };
        varint::expect_end(input)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_request_is_refused() {
        let head = b"\x010123456789abcdef";
        for (tail, error) in [
            (&b""[..], RecordError::Truncated),
            (b"\x01\x00\x01\x01", RecordError::Field("spent")),
            (b"\x01\x00\x00\x02", RecordError::Field("wants")),
            (b"\x01\x00\x00\x01\x00", RecordError::Trailing),
        ] {
            let bytes = [&head[..], tail].concat();
            assert_eq!(VisitsRequest::decode(&bytes), Err(error), "{tail:?}");
        }
        assert_eq!(VisitsRequest::decode(b"\x02"), Err(RecordError::Version(2)));
        assert_eq!(
            VisitsAnswer::decode(b"\x01\x01\x01"),
            Err(RecordError::Truncated)
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            worker: [u8; 16], number: u64, settled in 1..u64::MAX, spent: u64, has_block: bool, wants: bool,
        ) {
            let settled = has_block.then_some(SettledBlock { number: settled, spent });
            let request = VisitsRequest { worker, number, settled, wants };
            prop_assert!(request.to_bytes().len() <= MAX_LENGTH);
            prop_assert_eq!(VisitsRequest::decode(&request.to_bytes()), Ok(request));
            let answer = VisitsAnswer { number, visits: spent, millis: number };
            prop_assert_eq!(VisitsAnswer::decode(&answer.to_bytes()), Ok(answer));
        }
    }
}
