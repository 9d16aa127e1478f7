//! How long records stay in Redis.

use edgelink_wire::Record;
use rand::random_range;
use std::time::Duration;

const HOUR: u64 = 3_600_000;
const WEEK: u64 = 7 * 24 * HOUR;

/// How long a record may stay, the time being `now` (unix seconds). Random, so that what was cached at once is not looked up
/// again at once: 20 to 25 % of the link's remaining validity, at least an hour and at most 7 days; for a permanent link 7
/// days less up to 10 %; for one that is absent 60 to 180 s.
#[must_use]
pub fn of<U>(record: &Record<U>, now: u64) -> Duration {
    let milliseconds = match record {
        Record::Absent { .. } => random_range(60_000..=180_000),
        Record::Link(link) => match link.valid_until {
            None => random_range(WEEK / 10 * 9..=WEEK),
            Some(until) => {
                let rest = until.saturating_sub(now).saturating_mul(1000);
                random_range(rest / 5..=rest / 4).clamp(HOUR, WEEK)
            }
        },
    };
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::{LinkRecord, LinkState, RedirectStatus};

    const NOW: u64 = 1_767_225_600;
    const DAY: u64 = 24 * HOUR;

    fn until(valid_until: Option<u64>) -> Record<&'static str> {
        Record::Link(LinkRecord {
            url: "https://example.com/",
            redirect: RedirectStatus::Found,
            state: LinkState::Active,
            valid_since: None,
            valid_until,
            forward_query: true,
            rev: 1,
        })
    }

    #[test]
    fn the_time_depends_on_what_is_left_of_the_validity() {
        for (record, low, high) in [
            (Record::Absent { rev: 1 }, 60_000, 180_000),
            (until(None), WEEK / 10 * 9, WEEK),
            (until(Some(NOW + 10 * 86_400)), 2 * DAY, 10 * DAY / 4),
            (until(Some(NOW + 60)), HOUR, HOUR),
            (until(Some(NOW - 60)), HOUR, HOUR),
            (until(Some(NOW + 1000 * 86_400)), WEEK, WEEK),
            (until(Some(u64::MAX)), WEEK, WEEK),
        ] {
            for _ in 0..100 {
                let ttl = u64::try_from(of(&record, NOW).as_millis()).unwrap();
                assert!((low..=high).contains(&ttl), "{record:?}: {ttl}");
            }
        }
    }
}
