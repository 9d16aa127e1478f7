//! Click counts of the last minutes, to find the most clicked links.

use super::chunk::Chunk;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most links that are counted in a minute. Beyond it, the ones with fewest clicks in that minute are dropped.
const MAX_LINKS: usize = 100_000;

const MINUTE_SECONDS: u64 = 60;

/// Clicks by minute and link.
pub(super) struct HotCounts {
    window_minutes: u64,
    minutes: BTreeMap<u64, HashMap<Arc<str>, u64>>,
}

impl HotCounts {
    /// Creates empty counts over a window of so many minutes.
    pub(super) fn new(window_minutes: u64) -> Self {
        Self {
            window_minutes,
            minutes: BTreeMap::new(),
        }
    }

    /// Replaces all counts by these, which another process has counted, as of `now`.
    pub(super) fn start_again(&mut self, links: Vec<(String, u64)>, now: u64) {
        self.minutes.clear();
        let links = links.into_iter().map(|(key, clicks)| (key.into(), clicks));
        self.minutes.insert(now / MINUTE_SECONDS, links.collect());
    }

    /// Adds the clicks of links, except those too old at `now` (unix seconds).
    pub(super) fn add(&mut self, chunk: &Chunk, now: u64) {
        let first = (now / MINUTE_SECONDS).saturating_sub(self.window_minutes);
        let mut sums: HashMap<(u64, u32), u64, RandomState> = HashMap::default();
        let clicks = &chunk.clicks;
        for ((at, link), count) in clicks.at.iter().zip(&clicks.link).zip(&clicks.count) {
            let minute = (at / MINUTE_SECONDS).min(now / MINUTE_SECONDS);
            if minute >= first {
                let sum = sums.entry((minute, *link)).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        for ((minute, link), count) in sums {
            let link = &chunk.links[link as usize];
            if link.is_known() {
                let links = self.minutes.entry(minute).or_default();
                let sum = links.entry(chunk.texts.shared(link.key)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        self.minutes.retain(|minute, _| *minute >= first);
        for links in self.minutes.values_mut() {
            forget_few(links);
        }
    }

    /// The most clicked links, at most `limit`, the hottest first.
    pub(super) fn hottest(&self, limit: usize, now: u64) -> Vec<(String, u64)> {
        let first = (now / MINUTE_SECONDS).saturating_sub(self.window_minutes);
        let mut sums: HashMap<&Arc<str>, u64> = HashMap::new();
        for links in self.minutes.range(first..).map(|(_, links)| links) {
            for (key, clicks) in links {
                *sums.entry(key).or_default() += clicks;
            }
        }
        let mut links: Vec<(&Arc<str>, u64)> = sums.into_iter().collect();
        let order = |one: &(&Arc<str>, u64), two: &(&Arc<str>, u64)| {
            two.1.cmp(&one.1).then_with(|| one.0.cmp(two.0))
        };
        if links.len() > limit && limit > 0 {
            links.select_nth_unstable_by(limit - 1, order);
        }
        links.truncate(limit);
        links.sort_unstable_by(order);
        let owned = |(key, clicks): (&Arc<str>, u64)| (key.to_string(), clicks);
        links.into_iter().map(owned).collect()
    }
}

/// Keeps the more clicked half of the links if there are too many.
fn forget_few(links: &mut HashMap<Arc<str>, u64>) {
    if links.len() <= MAX_LINKS {
        return;
    }
    let mut counts: Vec<u64> = links.values().copied().collect();
    let half = counts.len() / 2;
    let (_, middle, _) = counts.select_nth_unstable(half);
    let (middle, mut room) = (*middle, MAX_LINKS);
    links.retain(|_, clicks| {
        let stays = *clicks >= middle && room > 0;
        room -= usize::from(stays);
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::Click;

    const NOW: u64 = 1_000 * MINUTE_SECONDS;

    fn click(key: &str, at: u64, count: u64) -> Click {
        Click {
            at,
            count,
            link_id: 1,
            tenant_id: 1,
            domain_id: 1,
            key: key.into(),
            tags: Arc::default(),
            described: None,
        }
    }

    fn chunk(clicks: &[Click]) -> Chunk {
        Chunk::of(Vec::new(), clicks, Vec::new())
    }

    fn hottest(counts: &HotCounts, now: u64) -> Vec<String> {
        let hottest = counts.hottest(2, now).into_iter();
        hottest.map(|(key, _)| key).collect()
    }

    #[test]
    fn hot_links_when_clicked_most_lately_come_first() {
        let mut counts = HotCounts::new(5);
        let unknown = Click {
            tenant_id: 0,
            ..click("unknown", NOW, 99)
        };
        let clicks = [
            click("old", NOW - 6 * MINUTE_SECONDS, 100),
            click("x", NOW - 60, 3),
            click("y", NOW - 300, 4),
            click("x", NOW + 60, 3),
            click("z", NOW, 5),
            unknown,
        ];
        counts.add(&chunk(&clicks), NOW);
        assert_eq!(hottest(&counts, NOW), ["x", "z"]);
        counts.add(&chunk(&[click("y", NOW + 120, 2)]), NOW + 60);
        assert_eq!(hottest(&counts, NOW + 60), ["x", "z"]);
        assert_eq!(hottest(&counts, NOW + 6 * MINUTE_SECONDS), ["y"]);
        counts.start_again(vec![("w".to_owned(), 1)], NOW);
        assert_eq!(hottest(&counts, NOW), ["w"]);
        assert_eq!(counts.hottest(0, NOW), []);
    }

    #[test]
    fn hot_links_when_too_many_lose_the_least_clicked() {
        let mut counts = HotCounts::new(5);
        let clicks: Vec<Click> = (0..=MAX_LINKS as u64)
            .map(|n| click(&n.to_string(), NOW, n + 1))
            .collect();
        counts.add(&chunk(&clicks), NOW);
        let left = counts.minutes.values().next().unwrap();
        assert!(left.len() <= MAX_LINKS / 2 + 1, "{}", left.len());
        assert_eq!(hottest(&counts, NOW), ["100000", "99999"]);
        let same: Vec<Click> = (0..2 * MAX_LINKS as u64)
            .map(|n| click(&n.to_string(), NOW + 60, 1))
            .collect();
        counts.add(&chunk(&same), NOW + 60);
        let most = counts.minutes.values().map(HashMap::len).max();
        assert_eq!(most, Some(MAX_LINKS));
    }
}
