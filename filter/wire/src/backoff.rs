//! Exponential backoff: pauses before retries, which double from failure to failure up to a cap.
//!
//! The crate `backon` was tried: its jitter goes beyond its longest delay, and its arithmetic can panic, which traps a worker.

/// The bounds of the pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest pause before the first retry, in milliseconds.
    pub first_millis: u64,
    /// The longest pause of all, in milliseconds. A connection that lasted this long counts as healthy and resets the backoff.
    pub cap_millis: u64,
}

impl Bounds {
    /// The longest pause after this many consecutive failures, at least one.
    #[must_use]
    pub fn longest_millis(self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1).min(63);
        self.first_millis
            .saturating_mul(1 << doublings)
            .min(self.cap_millis)
    }

    /// A pause between none and the longest, chosen by `random`, so that calls that failed together are not retried together
    /// ("full jitter": Brooker, "Exponential Backoff And Jitter", AWS, 2015).
    #[must_use]
    pub fn spread_millis(self, failures: u32, random: u64) -> u64 {
        random % self.longest_millis(failures).saturating_add(1)
    }
}

/// Pauses with jitter: each is between half of the longest and all of it, so that the workers of many Envoys do not retry at the
/// same instant.
#[derive(Clone, Debug)]
pub struct Backoff {
    bounds: Bounds,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Starts without failures. `seed` drives the jitter, and should differ from worker to worker.
    #[must_use]
    pub fn new(bounds: Bounds, seed: u64) -> Self {
        Self {
            bounds,
            failures: 0,
            random: seed,
        }
    }

    /// Counts a failure, and returns the pause after it in milliseconds.
    pub fn next_millis(&mut self) -> u64 {
        self.failures = self.failures.saturating_add(1);
        let longest = self.bounds.longest_millis(self.failures);
        let half = longest / 2;
        half + self.random() % (longest - half).saturating_add(1)
    }

    /// Number of failures since the last reset.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The bounds of the pauses.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Forgets the failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): jitter needs no more.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds {
        first_millis: 50,
        cap_millis: 2000,
    };

    #[test]
    fn backoff_when_failures_repeat_doubles_up_to_cap() {
        let mut backoff = Backoff::new(BOUNDS, 1);
        for due in [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000] {
            let wait = backoff.next_millis();
            assert!((due / 2..=due).contains(&wait), "{wait} of {due}");
        }
        assert_eq!(backoff.failures(), 9);
        backoff.reset();
        assert!(backoff.next_millis() <= 50);
    }

    #[test]
    fn backoff_when_seeds_differ_gives_other_pauses() {
        let waits = |seed| {
            let mut backoff = Backoff::new(BOUNDS, seed);
            [(); 8].map(|()| backoff.next_millis())
        };
        assert_ne!(waits(1), waits(2));
        assert_eq!(waits(1), waits(1));
    }

    #[test]
    fn longest_pause_when_failures_repeat_doubles_up_to_cap() {
        let bounds = Bounds {
            first_millis: 10,
            cap_millis: 100,
        };
        let longest = [1, 2, 3, 4, 5, 1000].map(|failures| bounds.longest_millis(failures));
        assert_eq!(longest, [10, 20, 40, 80, 100, 100]);
    }

    #[test]
    fn full_jitter_when_drawn_often_spreads_up_to_longest() {
        let mut source = Backoff::new(BOUNDS, 1);
        let longest = BOUNDS.longest_millis(4);
        let pauses = [(); 100].map(|()| BOUNDS.spread_millis(4, source.random()));
        assert!(pauses.iter().all(|pause| *pause <= longest));
        assert!(pauses.iter().any(|pause| *pause < longest / 2));
        assert!(pauses.iter().any(|pause| *pause > longest / 2));
    }

    proptest! {
        #[test]
        fn pause_when_bounds_are_arbitrary_stays_within_cap(first_millis in 0..u64::MAX / 2, cap_millis in 0..u64::MAX / 2, seed: u64) {
            let mut backoff = Backoff::new(Bounds { first_millis, cap_millis }, seed);
            for failures in 1..100 {
                prop_assert!(backoff.next_millis() <= cap_millis);
                prop_assert!(backoff.bounds().spread_millis(failures, seed) <= cap_millis);
            }
        }
    }
}
