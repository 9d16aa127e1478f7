//! Secrets of visitor tokens, which the control plane sends to workers in the answer to a report of clicks.
//!
//! Layout of version 1, numbers as unsigned LEB128: version (1 byte), the number of secrets, and each as the start and end of its
//! validity (unix seconds, 2 numbers) and the secret (16 bytes).

use super::{VisitorSecret, bounded};
use crate::error::RecordError;
use crate::varint;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

const VERSION: u8 = 1;

/// The most secrets in an answer: today's and tomorrow's, with room for clock skew.
pub const MAX_KEYS: usize = 4;

/// The secret of visitor tokens within a period. Its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct VisitorKey {
    /// Start of its validity, in unix seconds.
    pub from: u64,
    /// End of its validity, exclusive.
    pub until: u64,
    /// The secret; boxed, because moving it would leave copies behind.
    pub secret: Box<Zeroizing<VisitorSecret>>,
}

/// Omits the secret.
impl fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VisitorKey({}..{})", self.from, self.until)
    }
}

/// The secrets held by a worker; none at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitorKeys(Vec<VisitorKey>);

impl VisitorKeys {
    /// The media type of the encoding.
    pub const MEDIA_TYPE: &str = "application/vnd.edgelink.visitor-keys";

    /// The first [`MAX_KEYS`] of these secrets.
    #[must_use]
    pub fn new(mut keys: Vec<VisitorKey>) -> Self {
        keys.truncate(MAX_KEYS);
        Self(keys)
    }

    /// The secret that is valid at `now`, in unix seconds; `None` if there is none.
    #[must_use]
    pub fn at(&self, now: u64) -> Option<&VisitorKey> {
        let counts = |key: &&VisitorKey| (key.from..key.until).contains(&now);
        self.0.iter().find(counts)
    }

    /// The latest end of validity of any secret; 0 if there are none.
    #[must_use]
    pub fn until(&self) -> u64 {
        self.0.iter().map(|key| key.until).max().unwrap_or(0)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[VisitorKey] {
        &self.0
    }

    /// Adds the secrets of an answer. A secret replaces an earlier one with the same start.
    pub fn add(&mut self, keys: Self) {
        for key in keys.0 {
            self.0.retain(|other| other.from != key.from);
            if self.0.len() < MAX_KEYS {
                self.0.push(key);
            }
        }
    }

    /// Overwrites the secrets that have expired at `now`, in unix seconds, and any copies on the thread's stack.
    pub fn forget(&mut self, now: u64) {
        if self.0.iter().any(|key| key.until <= now) {
            self.0.retain(|key| key.until > now);
            overwrite_stack();
        }
    }

    /// Encodes them. The caller overwrites the bytes once they are sent.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Allocated at its maximum size, because growing would leave copies behind.
        let mut out = Vec::with_capacity(2 + MAX_KEYS * (2 * varint::MOST_BYTES + 16));
        out.push(VERSION);
        varint::write(self.0.len() as u64, &mut out);
        for key in &self.0 {
            varint::write(key.from, &mut out);
            varint::write(key.until, &mut out);
            out.extend_from_slice(&**key.secret);
        }
        Zeroizing::new(out)
    }

    /// Reads secrets that take up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let count = bounded("keys", varint::read(input)?, MAX_KEYS)?;
        // Allocated at its maximum size, because growing would leave copies behind.
        let mut keys = Vec::with_capacity(MAX_KEYS);
        for _ in 0..count {
            let (from, until) = (varint::read(input)?, varint::read(input)?);
            let (bytes, rest) = input
                .split_first_chunk::<16>()
                .ok_or(RecordError::Truncated)?;
            *input = rest;
            let mut secret = Box::<Zeroizing<VisitorSecret>>::default();
            secret.copy_from_slice(bytes);
            keys.push(VisitorKey {
                from,
                until,
                secret,
            });
        }
        varint::expect_end(input)?;
        Ok(Self(keys))
    }
}

/// Overwrites the remains of returned functions on the stack, as deep as hashing goes.
#[inline(never)]
fn overwrite_stack() {
    let mut room = [0u8; 16 << 10];
    room.zeroize();
    std::hint::black_box(&room);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(from: u64, until: u64, byte: u8) -> VisitorKey {
        let secret = Box::new([byte; 16].into());
        VisitorKey {
            from,
            until,
            secret,
        }
    }

    #[test]
    fn visitor_key_when_expired_is_forgotten() {
        let mut keys = VisitorKeys::default();
        assert_eq!((keys.at(5), keys.until()), (None, 0));
        keys.add(VisitorKeys::new(vec![key(10, 20, 1), key(20, 30, 2)]));
        for (now, byte) in [
            (9, None),
            (10, Some(1)),
            (19, Some(1)),
            (20, Some(2)),
            (30, None),
        ] {
            let secret = keys.at(now).map(|key| **key.secret);
            assert_eq!(secret, byte.map(|byte| [byte; 16]), "{now}");
        }
        assert_eq!(keys.until(), 30);
        keys.forget(20);
        assert_eq!(keys.all(), [key(20, 30, 2)]);
        assert_eq!(format!("{keys:?}"), "VisitorKeys([VisitorKey(20..30)])");
    }

    #[test]
    fn visitor_keys_when_added_stay_within_bound() {
        let mut keys = VisitorKeys::new((0..9).map(|from| key(from, 9, 1)).collect());
        assert_eq!(keys.all().len(), MAX_KEYS);
        keys.add(VisitorKeys::new(vec![key(7, 8, 2), key(3, 4, 3)]));
        assert_eq!(keys.all().len(), MAX_KEYS);
        assert_eq!(keys.at(3), Some(&key(0, 9, 1)), "of an earlier one");
        assert_eq!(keys.all().last(), Some(&key(3, 4, 3)));
    }

    #[test]
    fn visitor_keys_when_malformed_are_refused() {
        let too_many = [&[VERSION, 5][..], &[1; 5 * 18]].concat();
        let one = [&[VERSION, 1][..], &[1; 18]].concat();
        for (bytes, error) in [
            (&b""[..], RecordError::Truncated),
            (b"\x02\x00", RecordError::Version(2)),
            (&one[..19], RecordError::Truncated),
            (&too_many, RecordError::Field("keys")),
            (&[&one[..], b"x"].concat(), RecordError::Trailing),
        ] {
            assert_eq!(VisitorKeys::decode(bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn visitor_keys_when_encoded_and_decoded_are_equal(keys in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u8>()), 0..=MAX_KEYS)) {
            let keys = keys.into_iter().map(|(from, until, byte)| key(from, until, byte));
            let keys = VisitorKeys::new(keys.collect());
            prop_assert_eq!(VisitorKeys::decode(&keys.to_bytes()), Ok(keys));
        }

        #[test]
        fn visitor_keys_when_bytes_are_arbitrary_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = VisitorKeys::decode(&bytes);
            let _ = VisitorKeys::decode(&[&[VERSION, 2], &bytes[..]].concat());
        }
    }
}
