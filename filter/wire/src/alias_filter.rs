//! The aliases that look like generated codes, small enough to be sent to every edge.
//!
//! Admission knows which generated codes exist by their number; an alias of the same shape decodes to a number as well,
//! mostly one that was never issued. The filter says of such a number whether an alias may have it. It is a Bloom filter
//! over numbers (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970) of the crate `bloomfilter`,
//! whose serialised form (version 1) is the format. The domain plays no part: where one domain has an alias, the others
//! are looked up as well.

use crate::record::RecordError;
use bloomfilter::Bloom;

/// Seeds the hashes. Fixed, because nothing is gained by attacking a filter whose false positives cost a lookup.
const SEED: &[u8; 32] = b"edgelink alias filter, version 1";

/// Out of how many numbers without an alias one may be taken for an alias.
const FALSE_POSITIVES: f64 = 1.0 / 1000.0;

/// The fewest aliases that a filter is made for.
const MIN_ITEMS: usize = 1024;

/// The largest serialised filter that is read, in bytes: that of about 4.6 million aliases.
pub const MAX_BYTES: usize = 8 << 20;

/// The most hash functions that are read; made are 10.
const MAX_HASHES: u32 = 32;

/// Numbers that aliases may have.
#[derive(Clone, Debug)]
pub struct AliasFilter(Bloom<u64>);

impl AliasFilter {
    /// An empty filter for up to `items` numbers. With more in it, more numbers are taken for those of aliases.
    ///
    /// # Errors
    /// [`RecordError::Field`] where it would be larger than [`MAX_BYTES`].
    pub fn with_capacity(items: usize) -> Result<Self, RecordError> {
        let too_large = RecordError::Field("aliases");
        let items = items.max(MIN_ITEMS);
        let bytes = Bloom::<u64>::compute_bitmap_size(items, FALSE_POSITIVES);
        if bytes > MAX_BYTES {
            return Err(too_large);
        }
        Bloom::new_with_seed(bytes, items, SEED)
            .map(Self)
            .map_err(|_| too_large)
    }

    /// Adds the number of an alias ([`crate::CodeSpace::number`]).
    pub fn insert(&mut self, number: u64) {
        self.0.set(&number);
    }

    /// Whether an alias may have that number. False only where none has.
    #[must_use]
    pub fn may_contain(&self, number: u64) -> bool {
        self.0.check(&number)
    }

    /// The serialised filter.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Reads a serialised filter.
    ///
    /// # Errors
    /// [`RecordError::Field`] where it is none, or one that nobody of us makes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let malformed = RecordError::Field("aliases");
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_filter_with_as_many_numbers_as_it_is_made_for_takes_few_others_for_its_own() {
        let mut filter = AliasFilter::with_capacity(10_000).unwrap();
        for number in 0..10_000 {
            filter.insert(number * 7919);
        }
        assert!((0..10_000).all(|number| filter.may_contain(number * 7919)));
        let wrong = (0..100_000u64)
            .filter(|number| filter.may_contain((1 << 40) + number))
            .count();
        assert!(wrong < 250, "{wrong} of 100,000");
    }

    #[test]
    fn a_filter_has_a_bound() {
        assert!(AliasFilter::with_capacity(4_000_000).is_ok());
        assert!(AliasFilter::with_capacity(100_000_000).is_err());
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let good = AliasFilter::with_capacity(0).unwrap().as_bytes().to_vec();
        assert!(AliasFilter::from_bytes(&good).is_ok());
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
            assert!(AliasFilter::from_bytes(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_filter_reads_back(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut filter = AliasFilter::with_capacity(numbers.len()).unwrap();
            for number in &numbers {
                filter.insert(*number);
            }
            let read = AliasFilter::from_bytes(filter.as_bytes()).unwrap();
            prop_assert!(numbers.iter().all(|number| read.may_contain(*number)));
            prop_assert_eq!(read.as_bytes(), filter.as_bytes());
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = AliasFilter::from_bytes(&bytes);
        }
    }
}
