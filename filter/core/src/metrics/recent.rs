//! Requests of the last minute by tier, which a worker reports to the control plane.

use super::Counts;
use crate::metrics::Tier;
use crate::time::Moment;
use edgelink_wire::health::{RequestsByTier, WINDOW_MILLIS};

/// Number of parts of the minute. The oldest is dropped as a whole.
const PARTS: usize = 6;

const PART_MILLIS: u64 = WINDOW_MILLIS / PARTS as u64;

/// Requests by tier in parts of the last minute. Counts are taken from [`Counts`] at each flush, so that a request pays nothing
/// for it.
#[derive(Debug, Default)]
pub(crate) struct RecentRequests {
    parts: [WindowPart; PARTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowPart {
    /// Number of parts before it.
    number: u64,
    requests: RequestsByTier,
}

impl RecentRequests {
    /// Adds the requests that are about to be flushed.
    pub(crate) fn add(&mut self, counts: &Counts, now: Moment) {
        let number = number(now);
        let place = number as usize % PARTS;
        if let Some(part) = self.parts.get_mut(place) {
            if part.number != number {
                *part = WindowPart {
                    number,
                    ..WindowPart::default()
                };
            }
            part.requests.add(by_tier(counts));
        }
    }

    /// Requests of the last minute, and those waiting for the next flush.
    pub(crate) fn sum(&self, counts: &Counts, now: Moment) -> RequestsByTier {
        let mut sum = by_tier(counts);
        let (now, parts) = (number(now), self.parts.iter());
        for part in parts.filter(|part| now < part.number + PARTS as u64) {
            sum.add(part.requests);
        }
        sum
    }
}

fn number(now: Moment) -> u64 {
    now.millis() / PART_MILLIS
}

fn by_tier(counts: &Counts) -> RequestsByTier {
    RequestsByTier {
        lru: counts.requests(Tier::Lru),
        shared_data: counts.requests(Tier::SharedData),
        admission: counts.requests(Tier::Admission),
        redis: counts.requests(Tier::Redis),
        control_plane: counts.requests(Tier::ControlPlane),
        stale: counts.requests(Tier::Stale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;
    use edgelink_wire::Outcome;

    fn counted(tier: Tier, times: u32) -> Counts {
        let mut counts = Counts::default();
        counts.count_more(Metric::Requests(tier, Outcome::Redirect), times);
        counts
    }

    #[test]
    fn requests_when_a_minute_old_are_forgotten() {
        let mut recent = RecentRequests::default();
        let at = |seconds: u64| Moment::from_millis(1_000_000_000 + seconds * 1_000);
        recent.add(&counted(Tier::Lru, 5), at(0));
        recent.add(&counted(Tier::Redis, 2), at(9));
        recent.add(&counted(Tier::Lru, 1), at(10));
        let lru = |recent: &RecentRequests, seconds| recent.sum(&Counts::default(), at(seconds));
        for (seconds, requests) in [
            (10, (6, 2)),
            (59, (6, 2)),
            (60, (1, 0)),
            (69, (1, 0)),
            (70, (0, 0)),
        ] {
            let sum = lru(&recent, seconds);
            assert_eq!((sum.lru, sum.redis), requests, "{seconds}");
        }
        recent.add(&counted(Tier::Lru, 3), at(60));
        assert_eq!(
            lru(&recent, 60).lru,
            4,
            "the place of those of a minute ago"
        );
    }

    #[test]
    fn requests_when_not_yet_added_are_summed_by_tier() {
        let recent = RecentRequests::default();
        let sum = |tier| recent.sum(&counted(tier, 2), Moment::from_millis(0));
        let of = |requests: RequestsByTier| {
            let RequestsByTier {
                lru,
                shared_data,
                admission,
                redis,
                control_plane,
                stale,
            } = requests;
            [lru, shared_data, admission, redis, control_plane, stale]
        };
        let tiers = [
            Tier::Lru,
            Tier::SharedData,
            Tier::Admission,
            Tier::Redis,
            Tier::ControlPlane,
            Tier::Stale,
        ];
        for (place, tier) in tiers.into_iter().enumerate() {
            let mut expected = [0; 6];
            expected[place] = 2;
            assert_eq!(of(sum(tier)), expected, "{tier:?}");
        }
        for tier in [Tier::UnknownHost, Tier::Domain] {
            assert_eq!(of(sum(tier)), [0; 6], "{tier:?}");
        }
    }
}
