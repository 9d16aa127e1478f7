//! The codes that edges cannot check by their number: a filter that is kept up to date and built once.

use edgelink_wire::{CodeFilter, RecordError};

/// The capacities of the filters. The smallest that has room is sent to the edges; together they take some 18 MiB, and
/// only a scan can fill one later. Beyond the last capacity, false positives rise.
const CAPACITIES: [usize; 6] = [1 << 10, 1 << 13, 1 << 16, 1 << 19, 4_500_000, 14_000_000];

/// Codes that are known individually.
pub(super) struct KnownCodes {
    /// The filters that have room, the smallest first; never empty.
    filters: Vec<(usize, CodeFilter)>,
    count: usize,
    /// Generated codes with a lower number are omitted.
    bound: u64,
}

impl KnownCodes {
    /// No codes yet.
    ///
    /// # Errors
    /// If the system has no source of random numbers.
    pub(super) fn new() -> Result<Self, RecordError> {
        Self::with_capacities(&CAPACITIES)
    }

    fn with_capacities(capacities: &[usize]) -> Result<Self, RecordError> {
        let filter = |items: &usize| Ok((*items, CodeFilter::with_capacity(*items)?));
        Ok(Self {
            filters: capacities.iter().map(filter).collect::<Result<_, _>>()?,
            count: 0,
            bound: 0,
        })
    }

    /// Adds a code, with its number if it has the form of a generated one. Below the bound it needs no entry: edges look those
    /// up anyway.
    pub(super) fn note(&mut self, code: &str, number: Option<u64>) {
        if number.is_some_and(|number| number < self.bound) {
            return;
        }
        // The largest has the fewest false positives.
        let is_new = self
            .filters
            .last()
            .is_none_or(|(_, filter)| !filter.may_contain(code.as_bytes()));
        self.count += usize::from(is_new);
        let is_last = self.filters.len() == 1;
        if !is_last
            && self
                .filters
                .first()
                .is_some_and(|(room, _)| self.count > *room)
        {
            self.filters.remove(0);
        }
        for (_, filter) in &mut self.filters {
            filter.insert(code.as_bytes());
        }
    }

    /// Records a published bound. It goes back only with the database, and then all keys are scanned again.
    pub(super) fn note_bound(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
    }

    /// The filter for the edges, and the bound that goes with it.
    pub(super) fn filter(&self) -> Option<CodeFilter> {
        self.filters.first().map(|(_, filter)| filter.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(capacities: &[usize]) -> KnownCodes {
        KnownCodes::with_capacities(capacities).unwrap()
    }

    #[test]
    fn code_when_generated_below_the_bound_takes_no_room() {
        let mut codes = codes(&CAPACITIES);
        codes.note_bound(100);
        for (code, number) in [
            ("ggggggg", Some(99)),
            ("aliasxx", Some(100)),
            ("other-shape", None),
        ] {
            codes.note(code, number);
        }
        assert_eq!(codes.count, 2);
        let filter = codes.filter().unwrap();
        assert!(filter.may_contain(b"aliasxx") && filter.may_contain(b"other-shape"));
        assert!(!filter.may_contain(b"ggggggg"));
        // A repeated or late bound changes nothing.
        codes.note_bound(50);
        codes.note("ggggggg", Some(99));
        assert_eq!(codes.count, 2);
    }

    #[test]
    fn code_when_noted_repeatedly_takes_room_once() {
        let mut codes = codes(&[1024, 2048]);
        for _ in 0..5000 {
            codes.note("alias", None);
        }
        assert_eq!((codes.count, codes.filters.len()), (1, 2));
    }

    #[test]
    fn filter_when_full_gives_way_to_a_larger_one() {
        let mut codes = codes(&[1024, 8192]);
        let code = |number: usize| format!("alias-{number}");
        let small = codes.filter().unwrap().as_bytes().len();
        for number in 0..1000 {
            codes.note(&code(number), None);
        }
        assert_eq!(codes.filter().unwrap().as_bytes().len(), small);
        for number in 1000..20_000 {
            codes.note(&code(number), None);
        }
        let filter = codes.filter().unwrap();
        assert!(filter.as_bytes().len() > small);
        // The last one stays, however many there are.
        assert!((0..20_000).all(|number| filter.may_contain(code(number).as_bytes())));
        assert_eq!(codes.filters.len(), 1);
    }
}
