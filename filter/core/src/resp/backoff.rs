//! How long to wait before the next attempt to connect.

/// The bounds of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest wait before the first attempt, in milliseconds.
    pub first_ms: u64,
    /// The longest wait before any attempt, in milliseconds. A connection that stood for this long is taken for sound,
    /// and the next wait is a first one again.
    pub cap_ms: u64,
}

/// Waits that double up to a cap, with jitter: each is between half of what is due and all of it, so that the workers
/// of many Envoys do not come back in one instant.
#[derive(Clone, Debug)]
pub struct Backoff {
    bounds: Bounds,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Starts with a first wait. `seed` drives the jitter, and should differ from worker to worker.
    #[must_use]
    pub fn new(bounds: Bounds, seed: u64) -> Self {
        Self {
            bounds,
            failures: 0,
            random: seed,
        }
    }

    /// Counts a failure, and returns the wait after it in milliseconds.
    pub fn next_ms(&mut self) -> u64 {
        let doubled = self.bounds.first_ms.checked_shl(self.failures.min(63));
        let ceiling = match doubled {
            Some(due) if due >> self.failures.min(63) == self.bounds.first_ms => {
                due.min(self.bounds.cap_ms)
            }
            _ => self.bounds.cap_ms,
        };
        self.failures = self.failures.saturating_add(1);
        let half = ceiling / 2;
        half + self.random() % (ceiling - half + 1)
    }

    /// The failures since the last reset.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The bounds it keeps to.
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
        first_ms: 50,
        cap_ms: 2000,
    };

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::new(BOUNDS, 1);
        for due in [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000] {
            let wait = backoff.next_ms();
            assert!((due / 2..=due).contains(&wait), "{wait} of {due}");
        }
        assert_eq!(backoff.failures(), 9);
        backoff.reset();
        assert!(backoff.next_ms() <= 50);
    }

    #[test]
    fn seeds_part_the_workers() {
        let waits = |seed| {
            let mut backoff = Backoff::new(BOUNDS, seed);
            [(); 8].map(|()| backoff.next_ms())
        };
        assert_ne!(waits(1), waits(2));
        assert_eq!(waits(1), waits(1));
    }

    proptest! {
        #[test]
        fn no_wait_is_above_the_cap(first_ms in 0..u64::MAX / 2, cap_ms in 0..u64::MAX / 2, seed: u64) {
            let mut backoff = Backoff::new(Bounds { first_ms, cap_ms }, seed);
            for _ in 0..100 {
                prop_assert!(backoff.next_ms() <= cap_ms);
            }
        }
    }
}
