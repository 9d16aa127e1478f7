//! Adaptive size of segments, as in Meituan's Leaf: large enough to outlast a short absence of the database, and small
//! enough that a killed process loses little.

use std::time::Duration;

/// Below this, segments grow.
const SHORT: Duration = Duration::from_mins(15);
/// Above this, segments shrink.
const LONG: Duration = Duration::from_mins(30);

/// The size of the next segment, in sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdaptiveStep {
    size: u32,
    min: u32,
    max: u32,
}

impl AdaptiveStep {
    /// Creates a step of the least size.
    pub(super) fn new(min: u32, max: u32) -> Self {
        let min = min.max(1);
        Self {
            size: min,
            min,
            max: max.max(min),
        }
    }

    /// Number of sequences to draw.
    pub(super) fn size(self) -> u32 {
        self.size
    }

    /// Adapts the size to the time since the draw before.
    pub(super) fn lasted(&mut self, time: Duration) {
        if time < SHORT {
            self.size = self.size.saturating_mul(2).min(self.max);
        } else if time > LONG {
            self.shrink();
        }
    }

    /// Shrinks the size: near the bound that the edges know, a smaller segment may fit where a large one is refused.
    pub(super) fn shrink(&mut self) {
        self.size = (self.size / 2).max(self.min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(minutes: &[u64]) -> u32 {
        let mut step = AdaptiveStep::new(1000, 5000);
        for minutes in minutes {
            step.lasted(Duration::from_mins(*minutes));
        }
        step.size()
    }

    #[test]
    fn step_when_segment_lasts_briefly_doubles_up_to_the_most() {
        assert_eq!(after(&[14]), 2000);
        assert_eq!(after(&[0, 0, 0, 0]), 5000);
    }

    #[test]
    fn step_when_segment_lasts_long_halves_down_to_the_least() {
        assert_eq!(after(&[0, 0, 31]), 2000);
        assert_eq!(after(&[0, 31, 31, 31]), 1000);
    }

    #[test]
    fn step_when_segment_lasts_15_to_30_minutes_stays() {
        assert_eq!(after(&[0, 15, 30]), 2000);
    }

    #[test]
    fn step_when_draw_fails_shrinks() {
        let mut step = AdaptiveStep::new(10, 100);
        step.lasted(Duration::ZERO);
        step.shrink();
        step.shrink();
        assert_eq!(step.size(), 10);
    }

    #[test]
    fn step_when_created_with_zero_is_one() {
        assert_eq!(AdaptiveStep::new(0, 0).size(), 1);
    }
}
