//! The numbers of the batches taken from a worker.
//!
//! Workers number their batches from 1 on, send the oldest first, and resend a batch until it is acknowledged or given up. The numbers
//! taken are thus one range, except for batches that were given up, or overtaken by a later report.

use edgelink_database::error::Fault;
use edgelink_wire::{RecordError, varint};

/// The most ranges kept of a worker. With more, the oldest missing numbers count as taken: their batches were given up
/// long ago.
pub(super) const MAX_RANGES: usize = 1024;

/// The numbers taken: ranges in ascending order, with at least one missing number between each two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TakenBatches(Vec<(u64, u64)>);

impl TakenBatches {
    /// Takes a number; `false` if it was taken before.
    pub(super) fn take(&mut self, seq: u64) -> bool {
        self.take_range(seq, seq)
    }

    /// Takes the numbers from `first` to `last`; returns `false` without a change if one of them was taken before.
    pub(super) fn take_range(&mut self, first: u64, last: u64) -> bool {
        let after = self.0.partition_point(|(_, end)| *end < first);
        if self.0.get(after).is_some_and(|(start, _)| *start <= last) {
            return false;
        }
        let joins_next =
            |(start, _): &&mut (u64, u64)| last.checked_add(1).is_some_and(|next| next == *start);
        let first = match after.checked_sub(1).and_then(|before| self.0.get(before)) {
            Some((start, end)) if end.checked_add(1) == Some(first) => {
                let start = *start;
                self.0.remove(after - 1);
                start
            }
            _ => first,
        };
        let after = self.0.partition_point(|(_, end)| *end < first);
        match self.0.get_mut(after).filter(joins_next) {
            Some(next) => next.0 = first,
            None => self.0.insert(after, (first, last)),
        }
        self.keep_bound();
        true
    }

    /// Closes the oldest gaps if there are too many.
    fn keep_bound(&mut self) {
        while self.0.len() > MAX_RANGES
            && let [(first, _), (_, last), ..] = *self.0
        {
            self.0.splice(..2, [(first, last)]);
        }
    }

    /// Encodes the column: for each range, the count of missing numbers in front of it, and of its numbers after the first.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 4);
        let mut next = 0;
        for (first, last) in &self.0 {
            varint::write(first - next, &mut bytes);
            varint::write(last - first, &mut bytes);
            next = last.saturating_add(1);
        }
        bytes
    }

    /// Reads the output of [`Self::encode`].
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, Fault> {
        let corrupt = |error| Fault::corrupt("numbers of batches", &error);
        let mut taken = Self::default();
        let mut next = 0_u64;
        while !bytes.is_empty() {
            let missing = varint::read(&mut bytes).map_err(corrupt)?;
            let further = varint::read(&mut bytes).map_err(corrupt)?;
            let first = next.checked_add(missing);
            let last = first.and_then(|first| first.checked_add(further));
            let (Some(first), Some(last)) = (first, last) else {
                return Err(corrupt(RecordError::Number));
            };
            taken.0.push((first, last));
            next = last.saturating_add(1);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_when_they_come_in_order_are_one_range() {
        let mut taken = TakenBatches::default();
        for seq in 1..=100_000 {
            assert!(taken.take(seq));
        }
        assert!(taken.encode().len() <= 4);
        assert!(!taken.take(1) && !taken.take(100_000) && taken.take(100_001));
    }

    #[test]
    fn gaps_when_there_are_too_many_are_closed_from_the_oldest_on() {
        let mut taken = TakenBatches::default();
        let most = MAX_RANGES as u64;
        for seq in 0..=most {
            assert!(taken.take(seq * 2));
        }
        assert_eq!(taken.0.len(), MAX_RANGES);
        assert!(!taken.take(1), "the oldest one is closed");
        assert!(taken.take(3));
        assert!(taken.take(most * 2 - 1));
        assert!(taken.encode().len() < 8 << 10);
    }

    proptest! {
        #[test]
        fn batch_number_when_in_any_order_is_taken_once(seqs in proptest::collection::vec(0_u64..60, 0..200)) {
            let (mut taken, mut model) = (TakenBatches::default(), BTreeSet::new());
            for seq in seqs {
                prop_assert_eq!(taken.take(seq), model.insert(seq));
                prop_assert_eq!(&TakenBatches::decode(&taken.encode()).unwrap(), &taken);
                prop_assert!(taken.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            }
        }

        #[test]
        fn taken_batches_when_bytes_are_arbitrary_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = TakenBatches::decode(&bytes);
        }
    }
}
