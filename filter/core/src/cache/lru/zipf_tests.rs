//! Hit rate of the cache for skewed traffic, compared with the ideal cache of that size, which holds as many of the most
//! requested links as fit. The numbers are deterministic.

use super::*;
use foldhash::SharedSeed;

/// Requests for links by Zipf's law with exponent 1.
struct Traffic {
    /// Sums of `1/rank` over all ranks up to each one.
    sums: Vec<f64>,
    state: u64,
}

impl Traffic {
    fn of(links: u32) -> Self {
        let add = |sum: &mut f64, rank: u32| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        };
        Self {
            sums: (1..=links).scan(0.0, add).collect(),
            state: 42,
        }
    }

    /// The share of requests for the first `links` links.
    fn share(&self, links: usize) -> f64 {
        self.sums[links - 1] / self.sums.last().unwrap()
    }

    /// The next requested link.
    fn next(&mut self) -> usize {
        let unit = (self.random() >> 11) as f64 / (1_u64 << 53) as f64;
        let wanted = unit * self.sums.last().unwrap();
        self.sums.partition_point(|sum| *sum < wanted)
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Key and record of a link: targets of 20 to 120 bytes, whatever their rank.
fn link(number: usize) -> (Vec<u8>, Vec<u8>) {
    let key = format!("go.example/{number:07}").into_bytes();
    let length = 20 + number.wrapping_mul(2_654_435_761) % 101;
    (key, vec![b'x'; 3 + length])
}

/// Number of the most requested links that fit.
fn ideal(links: usize, max_bytes: usize) -> usize {
    let costs = (0..links).map(|number| {
        let (key, record) = link(number);
        cost(&key, &record)
    });
    let fits = costs.scan(0, |sum, cost| {
        *sum += cost;
        Some(*sum <= max_bytes)
    });
    fits.take_while(|fits| *fits).count()
}

/// Hit rates of the warm cache and of the ideal one.
fn shares(links: u32, max_bytes: usize) -> (f64, f64) {
    let mut traffic = Traffic::of(links);
    let hasher = SeedableRandomState::with_seed(7, SharedSeed::global_fixed());
    let mut lru = Lru::new(max_bytes, hasher);
    let rounds = 8 * links;
    let mut hits = 0;
    for round in 0..2 * rounds {
        let (key, record) = link(traffic.next());
        if lru.find(&key).is_none() {
            lru.put(&key, &record, Moment::default());
        } else if round >= rounds {
            hits += 1;
        }
    }
    assert!(lru.bytes() <= max_bytes);
    let ideal = ideal(links as usize, max_bytes);
    (f64::from(hits) / f64::from(rounds), traffic.share(ideal))
}

fn check(links: u32, max_bytes: usize) {
    let (share, ideal) = shares(links, max_bytes);
    let ratio = share / ideal;
    println!("{links} links, {max_bytes} bytes: {share:.4} of {ideal:.4}, {ratio:.4} of the ideal");
    assert!(ratio >= 0.96, "{ratio}");
}

#[test]
fn cache_when_traffic_is_skewed_nears_the_ideal() {
    // A 50th of the full size, and a cache for a tenth of that.
    for divisor in [50, 500] {
        check(20_000, (64 << 20) / divisor);
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p edgelink-filter-core zipf -- --ignored --nocapture"]
fn cache_when_a_million_links_share_64_mib_nears_the_ideal() {
    check(1_000_000, 64 << 20);
}
