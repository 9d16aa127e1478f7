//! The token bucket algorithm. The Redis script `TAKE` has identical arithmetic, in integers only.

/// Units of a token. A bucket that gains one token a second gains one unit a microsecond.
pub const TOKEN: u64 = 1_000_000;

/// Capacity and refill rate of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Most tokens; at least one.
    pub capacity: u32,
    /// Tokens a second; at least one.
    pub per_second: u32,
    /// Tokens taken at once; at least one, and at most the capacity.
    pub cost: u32,
}

/// A bucket and its key.
#[derive(Clone, Debug)]
pub struct KeyedBucket {
    /// Key of the bucket in Redis, or in the memory of this process.
    pub key: String,
    /// Capacity, refill rate and cost.
    pub rate: Rate,
}

/// State of a bucket after the last take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Level, [`TOKEN`] units to the token.
    pub level: u64,
    /// Time of that take, in microseconds of the caller's clock.
    pub at: u64,
}

/// Limits on attempts: by an address, and on a subject over all addresses.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Prefix of its buckets' keys.
    pub name: &'static str,
    /// Rate for each address.
    pub address: Rate,
    /// Rate for each subject, over all addresses.
    pub subject: Rate,
}

impl Budget {
    /// Creates a budget of so many attempts an hour, and as many at once.
    pub fn hourly(name: &'static str, address: u32, subject: u32) -> Self {
        const HOUR_SECONDS: u32 = 3_600;
        let rate = |times: u32| Rate {
            capacity: times.saturating_mul(HOUR_SECONDS),
            per_second: times,
            cost: HOUR_SECONDS,
        };
        Self {
            name,
            address: rate(address),
            subject: rate(subject),
        }
    }
}

impl Rate {
    /// Creates a rate with cost 1; `None` if a value is 0.
    pub fn new(capacity: u32, per_second: u32) -> Option<Self> {
        (capacity > 0 && per_second > 0).then_some(Self {
            capacity,
            per_second,
            cost: 1,
        })
    }

    /// Scales capacity and refill rate.
    pub fn times(self, times: u32) -> Self {
        Self {
            capacity: self.capacity.saturating_mul(times),
            per_second: self.per_second.saturating_mul(times),
            ..self
        }
    }

    /// Units taken at once.
    pub fn price(self) -> u64 {
        u64::from(self.cost) * TOKEN
    }

    /// The level of a full bucket.
    pub fn full(self) -> u64 {
        u64::from(self.capacity) * TOKEN
    }

    /// The level of a bucket at `now`; an unknown one is full. A clock that went back adds nothing.
    pub(crate) fn level(self, bucket: Option<Bucket>, now: u64) -> u64 {
        let Some(bucket) = bucket else {
            return self.full();
        };
        let gained = now
            .saturating_sub(bucket.at)
            .saturating_mul(self.per_second.into());
        bucket.level.saturating_add(gained).min(self.full())
    }

    /// Microseconds until a bucket of this level holds `wanted`, rounded up.
    pub fn micros_until(self, level: u64, wanted: u64) -> u64 {
        wanted
            .saturating_sub(level)
            .div_ceil(self.per_second.into())
    }

    /// Seconds until an empty bucket is full, rounded up.
    pub fn window_seconds(self) -> u64 {
        u64::from(self.capacity).div_ceil(self.per_second.into())
    }
}

/// Takes the cost of a request from each bucket, or nothing if one of them holds less. Returns the resulting levels, and the
/// first bucket that held less.
pub fn take(buckets: &[(Rate, Option<Bucket>)], now: u64) -> Taken {
    let mut levels: Vec<u64> = buckets
        .iter()
        .map(|(rate, bucket)| rate.level(*bucket, now))
        .collect();
    let prices = buckets.iter().map(|(rate, _)| rate.price());
    let refused_by = levels
        .iter()
        .zip(prices.clone())
        .position(|(level, price)| *level < price);
    if refused_by.is_none() {
        for (level, price) in levels.iter_mut().zip(prices) {
            *level -= price;
        }
    }
    Taken { refused_by, levels }
}

/// The level of a bucket at `now` after a request's cost was returned; `None` if it is full then.
pub fn give_back(rate: Rate, bucket: Option<Bucket>, now: u64) -> Option<u64> {
    let level = rate.level(bucket, now).saturating_add(rate.price());
    (level < rate.full()).then_some(level)
}

/// Outcome of taking from several buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The index of the first bucket that held too little; then nothing was taken from any.
    pub refused_by: Option<usize>,
    /// The level of each bucket.
    pub levels: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(capacity: u32, per_second: u32) -> Rate {
        Rate::new(capacity, per_second).unwrap()
    }

    /// Takes tokens at these times, and counts them.
    fn admitted(rate: Rate, moments: impl IntoIterator<Item = u64>) -> u64 {
        let (mut bucket, mut count) = (None, 0);
        for now in moments {
            let taken = take(&[(rate, bucket)], now);
            if taken.refused_by.is_none() {
                count += 1;
                let level = taken.levels[0];
                bucket = Some(Bucket { level, at: now });
            }
        }
        count
    }

    #[test]
    fn bucket_when_full_admits_its_capacity_then_its_rate() {
        assert_eq!(admitted(rate(100, 10), std::iter::repeat_n(5, 1_000)), 100);
        // A request each millisecond for 30 s.
        assert_eq!(
            admitted(rate(100, 10), (0..=30_000).map(|milli| milli * 1_000)),
            400
        );
        // A rate that does not divide a second evenly loses nothing.
        assert_eq!(
            admitted(rate(2, 3), (0..=10_000).map(|milli| milli * 1_000)),
            32
        );
    }

    #[test]
    fn request_when_it_costs_more_is_admitted_less_often() {
        let tries = Rate {
            cost: 10,
            ..rate(100, 1)
        };
        // One each second for five minutes.
        assert_eq!(
            admitted(tries, (0..=300).map(|second| second * 1_000_000)),
            40
        );
        let empty = Some(Bucket {
            level: 10 * TOKEN - 1,
            at: 0,
        });
        assert_eq!(take(&[(tries, empty)], 0).refused_by, Some(0));
        assert_eq!(tries.micros_until(10 * TOKEN - 1, tries.price()), 1);
    }

    #[test]
    fn bucket_when_another_is_empty_keeps_its_tokens() {
        let empty = Some(Bucket {
            level: TOKEN - 1,
            at: 7,
        });
        let taken = take(
            &[(rate(3, 1), None), (rate(2, 1), empty), (rate(4, 1), empty)],
            7,
        );
        assert_eq!(taken.refused_by, Some(1));
        assert_eq!(taken.levels, [3 * TOKEN, TOKEN - 1, TOKEN - 1]);
    }

    #[test]
    fn tokens_when_given_back_stay_within_capacity() {
        let tries = Rate {
            cost: 10,
            ..rate(100, 1)
        };
        let bucket = |level, at| Some(Bucket { level, at });
        let given_back = |level, now| give_back(tries, bucket(level * TOKEN, 0), now);
        assert_eq!(given_back(0, 0), Some(10 * TOKEN));
        assert_eq!(given_back(5, 3 * TOKEN), Some(18 * TOKEN));
        assert_eq!(given_back(90, 0), None);
        assert_eq!(given_back(95, 0), None);
        assert_eq!(give_back(tries, None, 7), None);
    }

    #[test]
    fn bucket_when_short_of_tokens_knows_its_refill_time() {
        assert_eq!(rate(100, 10).micros_until(TOKEN - 1, TOKEN), 1);
        assert_eq!(rate(100, 10).micros_until(0, TOKEN), 100_000);
        assert_eq!(rate(100, 3).micros_until(0, TOKEN), 333_334);
        assert_eq!(rate(100, 3).micros_until(5 * TOKEN, TOKEN), 0);
        assert_eq!(rate(100, 3).window_seconds(), 34);
        assert_eq!(Rate::new(0, 5), None);
        assert_eq!(Rate::new(5, 0), None);
    }

    /// Counts tokens in fractions of a second by rationals, one microsecond after another.
    fn naive(rate: Rate, moments: &[u64]) -> u64 {
        let (full, mut held, mut count) = (rate.full(), rate.full(), 0);
        let mut moments = moments.iter().peekable();
        let Some(&&first) = moments.peek() else {
            return 0;
        };
        let mut now = first;
        while let Some(&&next) = moments.peek() {
            while now < next {
                now += 1;
                held = (held + u64::from(rate.per_second)).min(full);
            }
            moments.next();
            if held >= TOKEN {
                held -= TOKEN;
                count += 1;
            }
        }
        count
    }

    proptest! {
        #[test]
        fn bucket_when_compared_with_a_naive_count_admits_equally(
            capacity in 1u32..5,
            per_second in 1u32..100_000,
            steps in proptest::collection::vec(0u64..3_000, 0..40),
            start in 0u64..1_000,
        ) {
            let rate = rate(capacity, per_second);
            let mut now = start;
            let moments: Vec<u64> = steps.iter().map(|step| { now += step; now }).collect();
            prop_assert_eq!(admitted(rate, moments.iter().copied()), naive(rate, &moments));
        }

        #[test]
        fn bucket_level_when_clock_jumps_stays_within_capacity(
            capacity in 1u32.., per_second in 1u32.., level: u64, at: u64, now: u64,
        ) {
            let rate = rate(capacity, per_second);
            let level = level % (rate.full() + 1);
            let later = rate.level(Some(Bucket { level, at }), now);
            prop_assert!((level..=rate.full()).contains(&later));
        }
    }
}
