//! How long to wait before the next try.

use std::time::Duration;

/// Waits that double from try to try up to a bound, each cut at random so that those who failed together do not come
/// back together ("full jitter": Brooker, "Exponential Backoff And Jitter", AWS, 2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait before the second try.
    pub first: Duration,
    /// The longest wait of all.
    pub most: Duration,
}

impl Backoff {
    /// How long to wait after `failures` tries that failed, at least one.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        self.bound(failures).mul_f64(random_fraction())
    }

    fn bound(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// Between 0 and 1. Without a source of randomness everybody waits as long as possible.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(10),
        most: Duration::from_millis(100),
    };

    #[test]
    fn the_bound_doubles_up_to_the_most() {
        let bounds = [1, 2, 3, 4, 5, 1000].map(|failures| BACKOFF.bound(failures).as_millis());
        assert_eq!(bounds, [10, 20, 40, 80, 100, 100]);
    }

    #[test]
    fn delays_are_spread_below_the_bound() {
        let delays: Vec<_> = (0..100).map(|_| BACKOFF.delay(4)).collect();
        assert!(delays.iter().all(|delay| *delay <= BACKOFF.bound(4)));
        assert!(delays.iter().any(|delay| *delay < BACKOFF.bound(4) / 2));
        assert!(delays.iter().any(|delay| *delay > BACKOFF.bound(4) / 2));
    }
}
