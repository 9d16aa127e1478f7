//! The filter of codes that have no number below the bound (aliases), small enough for every edge.
//!
//! Admission recognizes generated codes that exist by their number. All other codes are aliases, of whatever shape, and the
//! filter tells if there may be one: a code that is not in it is answered without a lookup. It is a Bloom filter (Bloom,
//! "Space/time trade-offs in hash coding with allowable errors", 1970) of the crate `bloomfilter`, whose serialised form
//! (version 1) is the format, over the SipHash-2-4 of the code's bytes. The domain is not part of it: an alias of one domain is
//! looked up on the others as well.

use crate::error::RecordError;
use bloomfilter::Bloom;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Seed of the hashes. Fixed, because an attack on the filter gains nothing: a false positive costs a lookup.
const SEED: &[u8; 32] = b"edgelink codes filter, version 2";

/// The rate of false positives, as long as the filter fits into [`MAX_BYTES`].
const FALSE_POSITIVES: f64 = 1.0 / 1000.0;

/// The smallest capacity of a filter, in codes.
const MIN_ITEMS: usize = 1024;

/// The largest bitmap in bytes. Up to about 4.6 million codes fit with one false positive in a thousand; beyond that the rate of
/// false positives grows (one in ten at 14 million).
pub const MAX_BYTES: usize = 8 << 20;

/// The most hash functions accepted when reading; 10 are used when writing.
const MAX_HASHES: u32 = 32;

/// A Bloom filter of codes: it may have false positives, and never has false negatives.
#[derive(Clone, Debug)]
pub struct CodeFilter(Bloom<u64>);

impl CodeFilter {
    /// An empty filter for up to `items` codes. More codes raise the rate of false positives.
    ///
    /// # Errors
    /// [`RecordError::Field`] if the system has no source of random numbers, which the crate requires and we do not use.
    pub fn with_capacity(items: usize) -> Result<Self, RecordError> {
        let items = items.max(MIN_ITEMS);
        let bytes = Bloom::<u64>::compute_bitmap_size(items, FALSE_POSITIVES).min(MAX_BYTES);
        Bloom::new_with_seed(bytes, items, SEED)
            .map(Self)
            .map_err(|_| RecordError::Field("codes"))
    }

    /// Adds a code.
    pub fn insert(&mut self, code: &[u8]) {
        self.0.set(&hash(code));
    }

    /// True if the code may have been added; false only if it was not.
    #[must_use]
    pub fn may_contain(&self, code: &[u8]) -> bool {
        self.0.check(&hash(code))
    }

    /// The serialised filter.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Reads a serialised filter.
    ///
    /// # Errors
    /// [`RecordError::Field`] if it is malformed, or has parameters that edgelink does not use.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let malformed = RecordError::Field("codes");
        if bytes.len() > MAX_BYTES + 64 {
            return Err(malformed);
        }
        let filter = Bloom::from_slice(bytes).map_err(|_| malformed)?;
        // Without bits there would be a division by zero, and many hashes cost time with every lookup.
        if filter.len() < 8 || filter.number_of_hash_functions() > MAX_HASHES {
            return Err(malformed);
        }
        Ok(Self(filter))
    }
}

/// Platform-independent hash of a code; a slice's own `Hash` begins with a `usize`.
fn hash(code: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(code);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(number: u64) -> Vec<u8> {
        format!("alias-{number}").into_bytes()
    }

    fn filled(items: usize, capacity: usize) -> CodeFilter {
        let mut filter = CodeFilter::with_capacity(capacity).unwrap();
        for number in 0..items as u64 {
            filter.insert(&code(number));
        }
        filter
    }

    fn false_positives(filter: &CodeFilter, tries: u64) -> usize {
        let others = (1 << 40)..(1 << 40) + tries;
        others
            .filter(|number| filter.may_contain(&code(*number)))
            .count()
    }

    #[test]
    fn code_filter_when_full_has_few_false_positives() {
        let filter = filled(10_000, 10_000);
        assert!((0..10_000).all(|number| filter.may_contain(&code(number))));
        let wrong = false_positives(&filter, 100_000);
        assert!(wrong < 250, "{wrong} of 100,000");
    }

    #[test]
    fn code_filter_when_made_for_millions_stays_within_bound() {
        let filter = filled(1_000, 14_000_000);
        assert!(filter.as_bytes().len() <= MAX_BYTES + 64);
        assert!(filter.0.number_of_hash_functions() < 5);
        assert!(CodeFilter::from_bytes(filter.as_bytes()).is_ok());
        assert!((0..1_000).all(|number| filter.may_contain(&code(number))));
    }

    #[test]
    fn code_filter_when_malformed_is_refused() {
        let good = CodeFilter::with_capacity(0).unwrap().as_bytes().to_vec();
        assert!(CodeFilter::from_bytes(&good).is_ok());
        let mut no_bits = good[..45].to_vec();
        no_bits[1..9].fill(0);
        let mut many_hashes = good.clone();
        many_hashes[9] = 33;
        let mut other_version = good.clone();
        other_version[0] = 2;
        let cut_off = good[..good.len() - 1].to_vec();
        for bytes in [
            Vec::new(),
            no_bits,
            many_hashes,
            other_version,
            cut_off,
            vec![0; MAX_BYTES + 65],
        ] {
            assert!(CodeFilter::from_bytes(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn code_filter_when_encoded_and_decoded_is_equal(codes in prop::collection::vec("[0-9A-Za-z_-]{1,64}", 0..50)) {
            let mut filter = CodeFilter::with_capacity(codes.len()).unwrap();
            for code in &codes {
                filter.insert(code.as_bytes());
            }
            let read = CodeFilter::from_bytes(filter.as_bytes()).unwrap();
            prop_assert!(codes.iter().all(|code| read.may_contain(code.as_bytes())));
            prop_assert_eq!(read.as_bytes(), filter.as_bytes());
        }

        #[test]
        fn code_filter_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = CodeFilter::from_bytes(&bytes);
        }
    }
}
