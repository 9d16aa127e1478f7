//! The token buckets of this process.

use edgelink_model::token_bucket::{self, Bucket, KeyedBucket, Taken};
use moka::sync::Cache;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Token buckets by key, bounded in number.
pub(super) struct LocalBuckets {
    start: Instant,
    /// `None` is a full bucket, from which nothing was taken yet.
    buckets: Cache<String, Arc<Mutex<Option<Bucket>>>>,
}

impl LocalBuckets {
    /// Creates at most `max` buckets, each of which is full after `longest`.
    pub(super) fn new(max: u64, longest: Duration) -> Self {
        Self {
            start: Instant::now(),
            buckets: Cache::builder()
                .max_capacity(max)
                .time_to_idle(longest)
                .build(),
        }
    }

    /// Takes a token from each bucket, or from none if one is empty.
    pub(super) fn take(&self, keyed: &[KeyedBucket]) -> Taken {
        self.take_at(keyed, || self.now())
    }

    /// Returns the tokens of a request.
    pub(super) fn give_back(&self, keyed: &[KeyedBucket]) {
        self.give_back_at(keyed, || self.now());
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn give_back_at(&self, keyed: &[KeyedBucket], now: impl Fn() -> u64) {
        for KeyedBucket { key, rate } in keyed {
            // A bucket that was dropped since is full.
            let Some(entry) = self.buckets.get(key) else {
                continue;
            };
            let mut state = entry.lock().unwrap_or_else(PoisonError::into_inner);
            let at = now();
            *state = token_bucket::give_back(*rate, *state, at).map(|level| Bucket { level, at });
        }
    }

    fn known(&self, key: &str) -> Option<Bucket> {
        let entry = self.buckets.get(key)?;
        *entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the buckets always in the same order, which prevents deadlocks. The clock is read under the locks, so that it goes
    /// back for none of them.
    fn take_at(&self, keyed: &[KeyedBucket], now: impl Fn() -> u64) -> Taken {
        // A refused request creates no buckets: otherwise strangers could fill the table.
        let known: Vec<_> = keyed
            .iter()
            .map(|bucket| (bucket.rate, self.known(&bucket.key)))
            .collect();
        if known.iter().any(|(_, state)| state.is_some()) {
            let taken = token_bucket::take(&known, now());
            if taken.refused_by.is_some() {
                return taken;
            }
        }
        let entries: Vec<_> = keyed
            .iter()
            .map(|bucket| {
                self.buckets
                    .get_with_by_ref(bucket.key.as_str(), Arc::default)
            })
            .collect();
        let mut states: Vec<MutexGuard<'_, Option<Bucket>>> = entries
            .iter()
            .map(|entry| entry.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let buckets = keyed.iter().map(|bucket| bucket.rate);
        let buckets: Vec<_> = buckets.zip(states.iter().map(|state| **state)).collect();
        let now = now();
        let taken = token_bucket::take(&buckets, now);
        if taken.refused_by.is_none() {
            for (state, level) in states.iter_mut().zip(&taken.levels) {
                **state = Some(Bucket {
                    level: *level,
                    at: now,
                });
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_model::token_bucket::Rate;

    fn bucket(key: &str) -> KeyedBucket {
        KeyedBucket {
            key: key.to_owned(),
            rate: Rate::new(2, 1).unwrap(),
        }
    }

    #[test]
    fn bucket_when_time_passes_fills() {
        let local = LocalBuckets::new(100, Duration::from_secs(2));
        let admits = |key, now| local.take_at(&[bucket(key)], || now).refused_by.is_none();
        assert!(admits("a", 0) && admits("a", 0) && !admits("a", 0));
        assert!(admits("b", 0));
        assert!(!admits("a", 999_999) && admits("a", 1_000_000) && !admits("a", 1_000_000));
    }

    #[test]
    fn token_when_given_back_can_be_taken_again() {
        let local = LocalBuckets::new(100, Duration::from_secs(2));
        let admits = || local.take_at(&[bucket("a")], || 0).refused_by.is_none();
        for _ in 0..10 {
            assert!(admits());
            local.give_back_at(&[bucket("a"), bucket("b")], || 0);
        }
        assert!(admits() && admits() && !admits());
    }

    #[test]
    fn request_when_refused_makes_no_buckets() {
        let local = LocalBuckets::new(100, Duration::from_secs(2));
        for number in 0..10 {
            let keyed = [bucket("address"), bucket(&number.to_string())];
            let refused_by = local.take_at(&keyed, || 0).refused_by;
            assert_eq!(refused_by, (number >= 2).then_some(0));
        }
        local.buckets.run_pending_tasks();
        assert_eq!(local.buckets.entry_count(), 3);
    }

    #[test]
    fn buckets_when_too_many_stay_within_their_bound() {
        let local = LocalBuckets::new(100, Duration::from_secs(60));
        for number in 0..1_000 {
            local.take(&[bucket(&number.to_string())]);
        }
        local.buckets.run_pending_tasks();
        assert!(local.buckets.entry_count() <= 100);
    }
}
