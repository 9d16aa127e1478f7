//! The limit of requests by address: a token bucket for each, in a table of fixed size.
//!
//! A bucket is one number, the moment at which it will be full again, so that nothing has to be refilled. A full bucket need not be
//! remembered: an address that is not in the table has one. Threads take tokens side by side; an address that comes with another one for
//! the same place at the same moment may get a token more.
//!
//! # When there are more addresses than places
//! An address has a choice of [`WAYS`] places, by a hash that clients cannot know. A new one takes the place of the bucket that is
//! full soonest, which loses the least. So a new address is always admitted, and one that has used up its bucket loses it to others
//! that have used up theirs, not to a crowd that asks now and then.

use crate::settings::LimitSection;
use crate::time::Moment;
use foldhash::fast::SeedableRandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places that an address may have.
const WAYS: usize = 8;

/// Parts of a token: a bucket gains `perSecond` of them each millisecond.
const TOKEN: u64 = 1_000;

/// The networks of some addresses, and the moments at which their buckets are full, in parts of a token since the clock's beginning.
type Places = [[AtomicU64; WAYS]; 2];

/// The buckets of the addresses that were seen last.
pub(crate) struct AddressLimit {
    settings: Option<LimitSection>,
    hasher: SeedableRandomState,
    /// Empty until the first address comes.
    table: OnceLock<Box<[Places]>>,
}

impl AddressLimit {
    /// A limit without addresses.
    pub(crate) fn new(settings: Option<LimitSection>, hasher: SeedableRandomState) -> Self {
        Self {
            settings,
            hasher,
            table: OnceLock::new(),
        }
    }

    /// Changes the settings. With other ones all buckets are full.
    pub(crate) fn configure(&mut self, settings: Option<&LimitSection>) {
        if settings != self.settings.as_ref() {
            (self.settings, self.table) = (settings.cloned(), OnceLock::new());
        }
    }

    /// True if requests are limited.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.settings.is_some()
    }

    /// Takes a token for a request of that address. Returns `false` if there is none.
    pub(crate) fn take(&self, address: IpAddr, now: Moment) -> bool {
        let Some(settings) = &self.settings else {
            return true;
        };
        let now = now.millis().saturating_mul(settings.per_second.into());
        let capacity = u64::from(settings.burst) * TOKEN;
        let table = self
            .table
            .get_or_init(|| empty_table(settings.max_addresses));
        let Some(bucket) = self.bucket(table, network(address)) else {
            return true;
        };
        let mut full_at = bucket.load(Ordering::Relaxed);
        loop {
            let then = full_at.max(now).saturating_add(TOKEN);
            if then - now > capacity {
                return false;
            }
            match bucket.compare_exchange_weak(full_at, then, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(other) => full_at = other,
            }
        }
    }

    /// The bucket of a network, which may be a new one.
    #[inline(always)]
    fn bucket<'t>(&self, table: &'t [Places], network: u64) -> Option<&'t AtomicU64> {
        // The upper half of a hash, scaled to the table.
        let hash = self.hasher.hash_one(network) >> 32;
        let place = ((hash * table.len() as u64) >> 32) as usize;
        let [networks, full_at] = table.get(place)?;
        let is_it = |each: &AtomicU64| each.load(Ordering::Acquire) == network;
        let way = match networks.iter().position(is_it) {
            Some(way) => way,
            None => {
                let (way, first) = (full_at.iter().enumerate())
                    .min_by_key(|(_, full_at)| full_at.load(Ordering::Relaxed))?;
                // First: another thread may find the network at once.
                first.store(0, Ordering::Relaxed);
                networks.get(way)?.store(network, Ordering::Release);
                way
            }
        };
        full_at.get(way)
    }
}

/// A table in which all buckets are full, whose memory the system gives as it is used.
#[cold]
#[inline(never)]
fn empty_table(max_addresses: usize) -> Box<[Places]> {
    let places = max_addresses.div_ceil(WAYS);
    (0..places).map(|_| Places::default()).collect()
}

/// The network that counts as one address: an IPv4 address, or the first 64 bits of an IPv6 address. Among the latter, IPv4 takes the
/// place of multicast, from which nothing comes.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => 0xffff_ffff << 32 | u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::hasher;
    use proptest::prelude::*;

    fn limit(per_second: u32, burst: u32, max_addresses: usize) -> AddressLimit {
        let settings = LimitSection {
            per_second,
            burst,
            max_addresses,
        };
        AddressLimit::new(Some(settings), hasher())
    }

    fn at(millis: u64) -> Moment {
        Moment::from_millis(1_000_000_000 + millis)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Requests that are admitted until one is not.
    fn admitted(limit: &AddressLimit, from: IpAddr, now: Moment) -> usize {
        (0..).take_while(|_| limit.take(from, now)).count()
    }

    #[test]
    fn bucket_when_empty_is_refilled_by_the_millisecond() {
        let (limit, one) = (limit(500, 20, 64), address("192.0.2.1"));
        assert_eq!(admitted(&limit, one, at(0)), 20);
        assert_eq!(admitted(&limit, one, at(1)), 0);
        for (millis, tokens) in [(2, 1), (3, 0), (4, 1), (14, 5), (10_000, 20)] {
            assert_eq!(admitted(&limit, one, at(millis)), tokens, "{millis} ms");
        }
    }

    #[test]
    fn bucket_when_tokens_take_more_than_a_millisecond_loses_no_part() {
        let (limit, one) = (limit(3, 1, 64), address("192.0.2.1"));
        let taken = (0..=3_000).filter(|millis| limit.take(one, at(*millis)));
        assert_eq!(
            taken.collect::<Vec<_>>(),
            [0, 334, 668, 1_002, 1_336, 1_670, 2_004, 2_338, 2_672]
        );
    }

    #[test]
    fn clock_when_it_goes_back_neither_empties_nor_fills_buckets() {
        let (limit, one) = (limit(1_000, 5, 64), address("192.0.2.1"));
        assert!(limit.take(one, at(100)));
        assert_eq!(admitted(&limit, one, at(98)), 2);
        assert_eq!(admitted(&limit, one, at(100)), 2);
    }

    #[test]
    fn addresses_when_of_one_network_share_a_bucket() {
        let limit = limit(1, 1, 64);
        for (from, is_admitted) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", false),
            ("192.0.2.2", true),
            ("2001:db8::1", true),
            ("2001:db8::ffff:1", false),
            ("2001:db8:0:1::1", true),
            ("::c000:201", true),
        ] {
            assert_eq!(limit.take(address(from), at(0)), is_admitted, "{from}");
        }
    }

    #[test]
    fn table_when_full_admits_new_addresses_and_keeps_empty_buckets() {
        let limit = limit(1, 100, 64);
        let scanners: Vec<_> = (1..=8).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        for from in &scanners {
            assert_eq!(admitted(&limit, *from, at(0)), 100);
        }
        let crowd = (0..100_000).map(|n: u32| IpAddr::from(n.to_be_bytes()));
        assert!(crowd.clone().all(|from| limit.take(from, at(0))));
        let bytes = size_of_val(&**limit.table.get().unwrap());
        assert_eq!(bytes, 64 * 16, "it has not grown");
        // Among 64 places, eight of which are of these, others go first.
        assert!(scanners.iter().all(|from| !limit.take(*from, at(0))));
    }

    #[test]
    fn table_when_all_buckets_are_empty_forgets_one_for_a_new_address() {
        let limit = limit(1, 10, WAYS);
        let many: Vec<_> = (1..=9).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        for (from, second) in many.iter().zip(0..) {
            assert_eq!(admitted(&limit, *from, at(second * 1_000)), 10);
        }
        let again = |from: &IpAddr| admitted(&limit, *from, at(8_000));
        let left: Vec<_> = many.iter().rev().take(8).map(again).collect();
        assert_eq!(left, [0, 1, 2, 3, 4, 5, 6, 7], "of those that were kept");
        assert_eq!(admitted(&limit, many[0], at(8_000)), 10, "forgotten");
    }

    #[test]
    fn settings_when_unchanged_keep_the_buckets() {
        let (mut limit, one) = (limit(1, 5, 64), address("192.0.2.1"));
        assert_eq!(admitted(&limit, one, at(0)), 5);
        limit.configure(limit.settings.clone().as_ref());
        assert_eq!(admitted(&limit, one, at(0)), 0);
        let more = LimitSection {
            burst: 7,
            ..limit.settings.clone().unwrap()
        };
        limit.configure(Some(&more));
        assert_eq!(admitted(&limit, one, at(0)), 7);
        limit.configure(None);
        assert!(!limit.is_on() && limit.table.get().is_none());
        assert!((0..100).all(|_| limit.take(one, at(0))));
    }

    proptest! {
        /// Like a bucket with an integer of tokens, which this is in another form.
        #[test]
        fn tokens_when_counted_agree(
            per_second in 1u32..2_000, burst in 1u32..50,
            steps in prop::collection::vec((0u64..100, 0u8..3), 0..200),
        ) {
            let limit = limit(per_second, burst, 64);
            let full = u64::from(burst) * TOKEN;
            let (mut parts, mut now) = ([full; 3], 0);
            for (millis, who) in steps {
                now += millis;
                for parts in &mut parts {
                    *parts = full.min(*parts + millis * u64::from(per_second));
                }
                let parts = &mut parts[usize::from(who)];
                let is_left = *parts >= TOKEN;
                *parts -= if is_left { TOKEN } else { 0 };
                prop_assert_eq!(limit.take(IpAddr::from([10, 0, 0, who]), at(now)), is_left);
            }
        }
    }
}
