//! Taking the numbers of one segment without a lock.

use crate::store::{ISSUERS, Segment};
use std::sync::atomic::{AtomicU64, Ordering};

/// A segment that numbers are taken from, by any number of threads at once.
///
/// The cursor only grows, and a sequence belongs to the thread whose addition has passed over it. No other memory depends
/// on the order of the additions, so they are relaxed.
#[derive(Debug)]
pub(super) struct Run {
    /// The generation with which numbers had been skipped last when the segment was drawn.
    skipped_in: u64,
    issuer: u16,
    end: u64,
    /// The sequence at which a tenth is used. One thread takes it.
    low_at: u64,
    cursor: AtomicU64,
}

/// A number that belongs to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) number: u64,
    /// Whether it is time to draw the next segment. True once for each.
    pub(super) is_low: bool,
}

impl Run {
    /// The numbers of `segment`, which was drawn after the skip of numbers in `skipped_in`.
    pub(super) fn new(segment: Segment, skipped_in: u64) -> Self {
        Self {
            skipped_in,
            issuer: segment.issuer,
            end: segment.end,
            low_at: segment.start + (segment.end - segment.start) / 10,
            cursor: AtomicU64::new(segment.start),
        }
    }

    /// No numbers.
    pub(super) fn empty() -> Self {
        let none = Segment {
            issuer: 0,
            start: 0,
            end: 0,
        };
        Self::new(none, 0)
    }

    /// Whether no numbers were skipped since it was drawn, by the skip that is known as the last one.
    pub(super) fn is_since(&self, skipped_in: u64) -> bool {
        self.skipped_in == skipped_in
    }

    /// The next number; nothing behind the last one.
    pub(super) fn take(&self) -> Option<Taken> {
        let sequence = self.cursor.fetch_add(1, Ordering::Relaxed);
        (sequence < self.end).then(|| Taken {
            number: sequence * u64::from(ISSUERS) + u64::from(self.issuer),
            is_low: sequence == self.low_at,
        })
    }

    /// Ends the run: no thread takes a number from it any more. Answers what nobody has taken.
    pub(super) fn close(&self) -> Option<Segment> {
        let start = self.cursor.fetch_max(self.end, Ordering::Relaxed);
        (start < self.end).then_some(Segment {
            issuer: self.issuer,
            start,
            end: self.end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::thread;

    fn run(start: u64, end: u64) -> Run {
        let segment = Segment {
            issuer: 7,
            start,
            end,
        };
        Run::new(segment, 0)
    }

    #[test]
    fn numbers_are_taken_in_order_and_a_tenth_is_noticed_once() {
        let run = run(100, 120);
        let taken: Vec<Taken> = std::iter::from_fn(|| run.take()).collect();
        let numbers: Vec<u64> = taken.iter().map(|taken| taken.number).collect();
        assert_eq!(
            numbers,
            (100..120).map(|n| n * 1000 + 7).collect::<Vec<_>>()
        );
        let low: Vec<usize> = (0..20).filter(|at| taken[*at].is_low).collect();
        assert_eq!(low, [2]);
        assert_eq!(run.take(), None);
        assert_eq!(run.close(), None);
    }

    #[test]
    fn a_segment_of_one_is_low_at_once_and_an_empty_one_never() {
        assert!(run(5, 6).take().unwrap().is_low);
        assert_eq!(Run::empty().take(), None);
    }

    #[test]
    fn a_closed_run_answers_its_rest_once_and_gives_no_number_any_more() {
        let run = run(0, 10);
        assert!(run.take().is_some());
        let rest = run.close().unwrap();
        assert_eq!((rest.start, rest.end), (1, 10));
        assert_eq!(run.close(), None);
        assert_eq!(run.take(), None);
    }

    #[test]
    fn threads_that_take_while_it_is_closed_share_it_with_the_rest_without_overlap() {
        for _ in 0..50 {
            let run = run(0, 20_000);
            let (taken, rest) = thread::scope(|scope| {
                let takers: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| std::iter::from_fn(|| run.take()).collect::<Vec<_>>()))
                    .collect();
                let rest = run.close();
                let taken = takers.into_iter().flat_map(|taker| taker.join().unwrap());
                (taken.collect::<Vec<_>>(), rest)
            });
            let numbers: HashSet<u64> = taken.iter().map(|taken| taken.number / 1000).collect();
            let left = rest.map_or(0, |rest| rest.end - rest.start);
            assert_eq!(numbers.len(), taken.len());
            assert_eq!(taken.len() as u64 + left, 20_000);
            let first_left = rest.map_or(20_000, |rest| rest.start);
            assert!(numbers.iter().all(|number| *number < first_left));
        }
    }
}
