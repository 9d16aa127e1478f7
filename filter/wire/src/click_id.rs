//! The id of a click that may become a conversion: the redirect passes it to the target, which reports it to the control plane.

use crate::base62;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the query parameter added to the target.
pub const PARAMETER: &str = "el_click";

/// The length of an id as text.
pub const DIGITS: usize = 22;

/// The id of a click: 16 random bytes.
pub type ClickId = [u8; 16];

/// 62^10, the largest power of 62 that fits 64 bits.
const CHUNK: u128 = 839_299_365_868_340_224;

/// The id as text: its number, most significant byte first, in base62 with leading zeros.
#[must_use]
pub fn to_text(id: ClickId) -> String {
    let mut digits = [b'0'; DIGITS];
    let mut number = u128::from_be_bytes(id);
    for chunk in digits.rchunks_mut(base62::MAX_LENGTH) {
        // The remainder fits the chunk, and the first 2 digits hold the rest of the 128 bits.
        let _ = base62::encode((number % CHUNK) as u64, chunk);
        number /= CHUNK;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Parses an id; `None` if the text is not one.
#[must_use]
pub fn parse(text: &str) -> Option<ClickId> {
    if text.len() != DIGITS {
        return None;
    }
    let chunks = text.as_bytes().rchunks(base62::MAX_LENGTH).rev();
    let number = chunks.into_iter().try_fold(0u128, |number, chunk| {
        let digits = u128::from(base62::decode(chunk).ok()?);
        number.checked_mul(CHUNK)?.checked_add(digits)
    })?;
    Some(number.to_be_bytes())
}

/// Generates ids that are unique across processes and cannot be guessed from one another: the 128-bit SipHash-2-4 of a counter,
/// under a key that does not leave the process.
#[derive(Debug)]
pub struct ClickIds {
    key: [u8; 16],
    given: AtomicU64,
}

impl ClickIds {
    /// A generator with this key, which must be random.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            given: AtomicU64::new(0),
        }
    }

    /// The next id.
    #[must_use]
    pub fn give(&self) -> ClickId {
        let given = self.given.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&given.to_le_bytes());
        hasher.finish128().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn click_id_when_small_has_full_length() {
        for (id, text) in [
            (0u128, "0000000000000000000000"),
            (61, "000000000000000000000Z"),
            (62, "0000000000000000000010"),
            (CHUNK, "0000000000010000000000"),
            (u128::MAX, "7N42dgm5tFLK9N8MT7fHC7"),
        ] {
            assert_eq!(to_text(id.to_be_bytes()), text);
            assert_eq!(parse(text), Some(id.to_be_bytes()));
        }
    }

    #[test]
    fn click_id_when_malformed_is_refused() {
        for text in [
            "",
            "000000000000000000000",
            "00000000000000000000000",
            "000000000000000000000-",
            "00000000000000000000\u{e4}",
            "7N42dgm5tFLK9N8MT7fHC8",
            "ZZZZZZZZZZZZZZZZZZZZZZ",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn click_ids_when_given_by_two_sources_are_unique() {
        let (one, other) = (ClickIds::new([1; 16]), ClickIds::new([2; 16]));
        let ids: HashSet<_> = (0..1_000)
            .flat_map(|_| [one.give(), other.give()])
            .collect();
        assert_eq!(ids.len(), 2_000);
    }

    proptest! {
        #[test]
        fn click_id_when_written_and_parsed_is_equal(id: ClickId) {
            prop_assert_eq!(parse(&to_text(id)), Some(id));
        }
    }
}
