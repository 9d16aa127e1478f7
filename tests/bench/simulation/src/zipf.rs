//! Skewed traffic: the link at position `n` is requested with a probability proportional to 1/n (Zipf's law with exponent
//! 1).

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

/// A sequence of positions in a list of links, determined by the seed.
pub struct Zipf {
    /// Cumulative weights: of the first, the first two, and so on.
    sums: Vec<f64>,
    state: u64,
}

impl Zipf {
    /// Traffic for `count` links.
    #[must_use]
    pub fn new(count: usize, seed: u64) -> Self {
        Self {
            sums: sums(count),
            state: seed,
        }
    }
}

impl Iterator for Zipf {
    type Item = usize;

    /// Never ends, unless there are no links.
    fn next(&mut self) -> Option<usize> {
        let total = *self.sums.last()?;
        self.state = self.state.wrapping_add(STRIDE);
        let share = (mixed(self.state) >> 11) as f64 / (1_u64 << 53) as f64;
        let place = self.sums.partition_point(|sum| *sum <= share * total);
        Some(place.min(self.sums.len() - 1))
    }
}

/// Share of traffic by Zipf's law that goes to the first `links` of `count`.
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
    fn traffic_when_drawn_follows_zipf_and_repeats() {
        let traffic = || Zipf::new(1_000, 7).take(200_000);
        let hits = traffic().filter(|place| *place < 10).count();
        let share = hits as f64 / 200_000.0;
        assert!((share - zipf_weight(10, 1_000)).abs() < 0.01, "{share}");
        assert!(traffic().eq(traffic()));
        assert!(traffic().all(|place| place < 1_000));
    }
}
