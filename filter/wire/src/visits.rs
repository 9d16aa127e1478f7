//! Leases of uses of limited links to workers (`POST /edge/v1/visits/{domain}/{code}`).
//!
//! A use (`visit` in the protocol) is a redirect of a request by [`is_visit`](crate::redirect::is_visit). A worker spends uses of a
//! block that the control plane has leased to it for a short time, and reports with its next request how many it has spent; the
//! rest is returned. Each request has a number, greater than all earlier ones of the worker, so that a retried request gets the
//! same block, and the uses spent of a block count once.
//!
//! Layout of version 1, numbers as unsigned LEB128. A request: version (1 byte), worker (16 bytes), number, the request number of
//! the settled block (0 if there is none), the uses spent of it, and a flag that is set if a block is wanted (0 or 1). An answer:
//! version (1 byte), the number of the request, the number of uses, and their lifetime in milliseconds.
//!
//! Blocks of several links are returned by one request ([`VisitReturns`], `POST /edge/v1/visits`). Layout of its version 1: version
//! (1 byte), worker (16 bytes), the number of returns, and for each the link key (behind its length), its number, the request
//! number of the block (0 if there is none), and the uses spent of it. The answer ([`ReturnOutcome`]): version (1 byte), the
//! number of returns, and for each, in the same order, 0 if it is settled, or 1 if it must be retried.
//!
//! A worker that holds blocks names itself in the header [`WORKER_HEADER`] of all its background requests: while requests of a
//! worker arrive, none of its blocks is leased to others.

use crate::clicks::WorkerId;
use crate::code::MAX_CODE_LENGTH;
use crate::domain::MAX_DOMAIN_LENGTH;
use crate::error::RecordError;
use crate::varint;

const VERSION: u8 = 1;

/// The header in which a worker that holds blocks names itself: 32 hexadecimal digits in lower case.
pub const WORKER_HEADER: &str = "x-edgelink-worker";

/// The path of requests that return blocks of several links.
pub const RETURNS_PATH: &str = "/edge/v1/visits";

/// The media type of [`VisitReturns`], and of their answer.
pub const RETURNS_MEDIA_TYPE: &str = "application/vnd.edgelink.visit-returns";

/// The most returns of a request.
pub const MAX_RETURNS: usize = 256;

/// The most bytes of encoded [`VisitReturns`].
pub const MAX_RETURNS_LENGTH: usize = 1 + 16 + varint::MOST_BYTES + MAX_RETURNS * MAX_RETURN_LENGTH;

const MAX_RETURN_LENGTH: usize = MAX_DOMAIN_LENGTH + 1 + MAX_CODE_LENGTH + 4 * varint::MOST_BYTES;

/// The most bytes of an encoded request or answer.
pub const MAX_LENGTH: usize = 1 + 16 + 4 * varint::MOST_BYTES;

/// A request of a worker for a block, to return one, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitsRequest {
    /// The worker.
    pub worker: WorkerId,
    /// Number of the request, greater than those of all earlier requests of the worker; retries keep it.
    pub number: u64,
    /// The block that is returned.
    pub settled: Option<SettledBlock>,
    /// True if a block is wanted; otherwise one is only returned.
    pub wants: bool,
}

/// A block returned by a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledBlock {
    /// The number of the request that obtained the block; not 0.
    pub number: u64,
    /// Number of uses spent of it.
    pub spent: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitsAnswer {
    /// The number of the request.
    pub number: u64,
    /// Number of uses in the block; 0 if none are left.
    pub visits: u64,
    /// Milliseconds from the request on in which they may be spent; or, if there are none, for which the worker should not ask
    /// again unless the link changes.
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
        let settled = read_settled(input)?;
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

/// The value of [`WORKER_HEADER`], and of [`POLLER_HEADER`](crate::feed_batch::POLLER_HEADER).
#[must_use]
pub fn worker_text(worker: &WorkerId) -> String {
    hex::encode(worker)
}

/// Reads the value of [`WORKER_HEADER`]; `None` if it names no worker.
#[must_use]
pub fn worker_of(text: &[u8]) -> Option<WorkerId> {
    let mut worker = WorkerId::default();
    hex::decode_to_slice(text, &mut worker).ok()?;
    Some(worker)
}

/// Blocks of several links returned by a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitReturns<'a> {
    /// The worker.
    pub worker: WorkerId,
    /// At most [`MAX_RETURNS`].
    pub returns: Vec<VisitReturn<'a>>,
}

/// The return of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitReturn<'a> {
    /// The link key, `{domain}/{code}`.
    pub key: &'a [u8],
    /// The number of the request, see [`VisitsRequest::number`].
    pub number: u64,
    /// The block; `None` if the worker received no answer to its request for one.
    pub settled: Option<SettledBlock>,
}

/// The outcome of a [`VisitReturn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnOutcome {
    /// It is recorded, or was before.
    Settled,
    /// It is not recorded, and must be retried.
    Later,
}

impl<'a> VisitReturns<'a> {
    /// The encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.worker);
        varint::write(self.returns.len() as u64, &mut out);
        for VisitReturn {
            key,
            number,
            settled,
        } in &self.returns
        {
            let (settled, spent) = settled.map_or((0, 0), |block| (block.number, block.spent));
            varint::write_bytes(key, &mut out);
            for number in [*number, settled, spent] {
                varint::write(number, &mut out);
            }
        }
        out
    }

    /// Reads returns that take up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong. More than [`MAX_RETURNS`] are an error.
    pub fn decode(mut bytes: &'a [u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let worker = varint::read_array(input)?;
        let count = read_count(input)?;
        let returns = (0..count)
            .map(|_| {
                let key = varint::read_bytes(input)?;
                let number = varint::read(input)?;
                let settled = read_settled(input)?;
                Ok(VisitReturn {
                    key,
                    number,
                    settled,
                })
            })
            .collect::<Result<_, RecordError>>()?;
        varint::expect_end(input)?;
        Ok(Self { worker, returns })
    }
}

impl ReturnOutcome {
    /// Encodes the outcomes of returns, in the order of the returns.
    #[must_use]
    pub fn to_bytes(outcomes: &[Self]) -> Vec<u8> {
        let mut out = vec![VERSION];
        varint::write(outcomes.len() as u64, &mut out);
        for outcome in outcomes {
            varint::write(u64::from(*outcome == Self::Later), &mut out);
        }
        out
    }

    /// Reads the outcomes of this number of returns, which take up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong, including a wrong number of outcomes.
    pub fn decode(mut bytes: &[u8], returns: usize) -> Result<Vec<Self>, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        if read_count(input)? != returns {
            return Err(RecordError::Field("returns"));
        }
        let outcomes = (0..returns)
            .map(|_| match varint::read(input)? {
                0 => Ok(Self::Settled),
                1 => Ok(Self::Later),
                _ => Err(RecordError::Field("outcome")),
            })
            .collect::<Result<_, _>>()?;
        varint::expect_end(input)?;
        Ok(outcomes)
    }
}

fn read_count(input: &mut &[u8]) -> Result<usize, RecordError> {
    let count = usize::try_from(varint::read(input)?).ok();
    let count = count.filter(|count| *count <= MAX_RETURNS);
    count.ok_or(RecordError::Field("returns"))
}

fn read_settled(input: &mut &[u8]) -> Result<Option<SettledBlock>, RecordError> {
    match (varint::read(input)?, varint::read(input)?) {
        (0, 0) => Ok(None),
        (0, _) => Err(RecordError::Field("spent")),
        (number, spent) => Ok(Some(SettledBlock { number, spent })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn visits_request_when_malformed_is_refused() {
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

    #[test]
    fn visit_returns_when_malformed_are_refused() {
        let head = b"\x010123456789abcdef";
        for (tail, error) in [
            (&b""[..], RecordError::Truncated),
            (b"\x81\x02", RecordError::Field("returns")),
            (b"\x01\x03d/a\x05\x00\x01", RecordError::Field("spent")),
            (b"\x01\x03d/a\x05\x04", RecordError::Truncated),
            (b"\x00x", RecordError::Trailing),
        ] {
            let bytes = [&head[..], tail].concat();
            assert_eq!(VisitReturns::decode(&bytes), Err(error), "{tail:?}");
        }
        assert_eq!(VisitReturns::decode(b"\x02"), Err(RecordError::Version(2)));
        for (bytes, error) in [
            (&b"\x01\x01\x00"[..], RecordError::Field("returns")),
            (b"\x01\x02\x00\x02", RecordError::Field("outcome")),
            (b"\x01\x02\x00", RecordError::Truncated),
        ] {
            assert_eq!(ReturnOutcome::decode(bytes, 2), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn visit_returns_when_longest_fit_their_bound() {
        let key = vec![b'k'; MAX_DOMAIN_LENGTH + 1 + MAX_CODE_LENGTH];
        let settled = Some(SettledBlock {
            number: u64::MAX,
            spent: u64::MAX,
        });
        let longest = VisitReturn {
            key: &key,
            number: u64::MAX,
            settled,
        };
        let returns = VisitReturns {
            worker: [7; 16],
            returns: vec![longest; MAX_RETURNS],
        };
        let bytes = returns.to_bytes();
        assert!(bytes.len() <= MAX_RETURNS_LENGTH);
        assert_eq!(VisitReturns::decode(&bytes), Ok(returns));
    }

    #[test]
    fn worker_id_when_written_in_hex_is_read() {
        let worker = [0xa7; 16];
        let text = worker_text(&worker);
        assert_eq!(text, "a7".repeat(16));
        assert_eq!(worker_of(text.as_bytes()), Some(worker));
        for wrong in [&text[1..], &text[2..], "", "g7a7"] {
            assert_eq!(worker_of(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn visit_returns_when_encoded_and_decoded_are_equal(
            worker: [u8; 16],
            returns in prop::collection::vec(("[a-z/]{1,9}", any::<u64>(), prop::option::of((1..u64::MAX, any::<u64>())), any::<bool>()), 0..9),
        ) {
            let written = VisitReturns {
                worker,
                returns: returns.iter().map(|(key, number, settled, _)| VisitReturn {
                    key: key.as_bytes(),
                    number: *number,
                    settled: settled.map(|(number, spent)| SettledBlock { number, spent }),
                }).collect(),
            };
            let bytes = written.to_bytes();
            prop_assert_eq!(VisitReturns::decode(&bytes), Ok(written));
            let outcomes: Vec<_> = returns.iter().map(|(.., is_late)| if *is_late { ReturnOutcome::Later } else { ReturnOutcome::Settled }).collect();
            let bytes = ReturnOutcome::to_bytes(&outcomes);
            prop_assert_eq!(ReturnOutcome::decode(&bytes, outcomes.len()), Ok(outcomes));
        }

        #[test]
        fn visit_returns_when_bytes_are_arbitrary_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = VisitReturns::decode(&bytes);
            let _ = VisitReturns::decode(&[b"\x010123456789abcdef", &bytes[..]].concat());
            let _ = ReturnOutcome::decode(&bytes, 3);
        }

        #[test]
        fn visits_request_when_encoded_and_decoded_is_equal(
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
