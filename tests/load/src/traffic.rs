//! Which link is asked for next.

use serde::{Deserialize, Serialize};

/// How links are picked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// One after the other, and again from the first.
    Cycle,
    /// At random, the link at place `n` with a probability in proportion to 1/n (Zipf's law with exponent 1).
    Zipf,
}

const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th number, from 0, of SplitMix64 with the seed 0.
#[must_use]
pub fn random(n: u64) -> u64 {
    mixed(n.wrapping_add(1).wrapping_mul(STRIDE))
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of places in a list of links, the same for the same seed.
pub struct Traffic {
    /// The weights of the first, the first two, and so on; empty where links are taken in turn.
    sums: Vec<f64>,
    count: usize,
    next: usize,
    state: u64,
}

impl Traffic {
    /// Traffic for `count` links.
    #[must_use]
    pub fn new(pick: Pick, count: usize, seed: u64) -> Self {
        let sums = match pick {
            Pick::Cycle => Vec::new(),
            Pick::Zipf => sums(count),
        };
        Self {
            sums,
            count,
            next: 0,
            state: seed,
        }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STRIDE);
        mixed(self.state)
    }
}

impl Iterator for Traffic {
    type Item = usize;

    /// Never ends, unless there are no links.
    fn next(&mut self) -> Option<usize> {
        if let Some(total) = self.sums.last().copied() {
            let share = (self.random() >> 11) as f64 / (1_u64 << 53) as f64;
            let place = self.sums.partition_point(|sum| *sum <= share * total);
            return Some(place.min(self.count - 1));
        }
        let place = self.next;
        self.next = (place + 1) % self.count.max(1);
        (place < self.count).then_some(place)
    }
}

/// The share of traffic by Zipf's law that goes to the first `links` of `count`.
#[must_use]
pub fn zipf_weight(links: usize, count: usize) -> f64 {
    let sums = sums(count);
    let total = sums.last().copied().unwrap_or(1.0);
    let first = links.min(count).checked_sub(1);
    first.map_or(0.0, |last| sums[last] / total)
}

fn sums(count: usize) -> Vec<f64> {
    let weights = (1..=count).map(|place| 1.0 / place as f64);
    let add = |sum: &mut f64, weight| {
        *sum += weight;
        Some(*sum)
    };
    weights.scan(0.0, add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_turn_start_again_behind_the_last() {
        let places: Vec<usize> = Traffic::new(Pick::Cycle, 3, 0).take(7).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn skewed_traffic_follows_the_law_and_repeats_for_a_seed() {
        let traffic = || Traffic::new(Pick::Zipf, 1_000, 7).take(200_000);
        let hits = traffic().filter(|place| *place < 10).count();
        let share = hits as f64 / 200_000.0;
        assert!((share - zipf_weight(10, 1_000)).abs() < 0.01, "{share}");
        assert!(traffic().eq(traffic()));
        assert!(traffic().all(|place| place < 1_000));
    }
}
