//! Limits on attempts of strangers, such as at passwords: by address, and by subject over all addresses.

use super::local::LocalBuckets;
use super::{PREFIX, networks, report_degraded};
use edgelink_model::token_bucket::{Budget, KeyedBucket, Rate, Taken};
use edgelink_redis::Redis;
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// For an address: 10 attempts at once, then one every 10 seconds.
const ADDRESS: Rate = Rate {
    capacity: 100,
    per_second: 1,
    cost: 10,
};

/// For a link or an account: 60 attempts at once, then one every 2 seconds.
const SUBJECT: Rate = Rate {
    capacity: 120,
    per_second: 1,
    cost: 2,
};

/// Attempts at link passwords.
pub const PASSWORDS: Budget = Budget {
    name: "try",
    address: ADDRESS,
    subject: SUBJECT,
};

/// Logins to the console, separate from attempts at link passwords.
pub const LOGINS: Budget = Budget {
    name: "login",
    ..PASSWORDS
};

/// Logins returning from an OpenID Connect provider, which many people behind one address may do in the morning, and whose secret
/// cannot be guessed: 60 at once, then one a second.
pub const PROVIDER_LOGINS: Budget = Budget {
    name: "oidc",
    address: Rate {
        capacity: 60,
        per_second: 1,
        cost: 1,
    },
    subject: SUBJECT,
};

/// Most buckets in this process.
const MAX_BUCKETS: u64 = 100_000;

/// A counted attempt. A correct password gives it back, so that many people behind one address can enter theirs; it is taken before
/// the password is checked, so that concurrent requests cannot check more.
#[must_use = "a try is given back where the password was right, or stays taken"]
pub struct Try<'a> {
    tries: &'a Tries,
    buckets: Vec<KeyedBucket>,
    place: Place,
}

/// The place where an attempt was counted.
#[derive(Clone, Copy)]
enum Place {
    Redis,
    Here,
}

impl Try<'_> {
    /// Gives the attempt back. If Redis no longer answers, it stays taken.
    pub async fn give_back(self) {
        match (self.place, &self.tries.redis) {
            (Place::Redis, Some(redis)) => {
                if let Err(error) = redis.give_back(&self.buckets).await {
                    report_degraded(&error);
                }
            }
            _ => self.tries.local.give_back(&self.buckets),
        }
    }
}

/// Counts attempts together with all control planes of a Redis. Without Redis, or while it does not answer, each counts alone.
pub struct Tries {
    budget: Budget,
    redis: Option<Arc<Redis>>,
    local: LocalBuckets,
}

impl Tries {
    /// Creates the limit. Its buckets are in Redis, or in this process without one, and are full at first.
    pub fn new(budget: Budget, redis: Option<Arc<Redis>>) -> Self {
        let Budget {
            address, subject, ..
        } = budget;
        let longest = address.window_seconds().max(subject.window_seconds());
        Self {
            budget,
            redis,
            local: LocalBuckets::new(MAX_BUCKETS, Duration::from_secs(longest)),
        }
    }

    /// Takes an attempt at `subject`: the key of a link, or an account. If there is none now, the error is the seconds until there is,
    /// at least 1.
    pub async fn take(&self, subject: impl Display, address: IpAddr) -> Result<Try<'_>, u64> {
        self.take_of(Some(subject), Some(address)).await
    }

    /// Takes an attempt without address or without subject: an API key cannot be guessed, and strangers could otherwise lock out its
    /// holder.
    pub async fn take_of(
        &self,
        subject: Option<impl Display>,
        address: Option<IpAddr>,
    ) -> Result<Try<'_>, u64> {
        let Budget { name, .. } = self.budget;
        let bucket = |key: &dyn Display, rate| KeyedBucket {
            key: format!("{PREFIX}{name}:{key}"),
            rate,
        };
        let address = address.map_or_else(Vec::new, |address| {
            networks::buckets(&format!("{PREFIX}{name}"), address, self.budget.address)
        });
        // Hashed, so that invented subjects of any length take equal memory.
        let digest = subject.map(|subject| hex::encode(Sha256::digest(subject.to_string())));
        let subject = digest.map(|digest| bucket(&digest, self.budget.subject));
        let buckets: Vec<KeyedBucket> = address.into_iter().chain(subject).collect();
        let in_redis = match &self.redis {
            Some(redis) => redis.take(&buckets).await.inspect_err(report_degraded).ok(),
            None => None,
        };
        let (taken, place) = match in_redis {
            Some(taken) => (taken, Place::Redis),
            None => (self.local.take(&buckets), Place::Here),
        };
        match refusal(&buckets, &taken) {
            Some(seconds) => Err(seconds),
            None => Ok(Try {
                tries: self,
                buckets,
                place,
            }),
        }
    }
}

fn refusal(buckets: &[KeyedBucket], taken: &Taken) -> Option<u64> {
    let index = taken.refused_by?;
    let (bucket, level) = buckets.get(index).zip(taken.levels.get(index))?;
    let micros = bucket.rate.micros_until(*level, bucket.rate.price());
    Some(micros.div_ceil(1_000_000).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::{Code, Domain, LinkKey};

    fn key(code: &str) -> LinkKey {
        LinkKey::new(
            Domain::parse("go.example").unwrap(),
            Code::parse(code).unwrap(),
        )
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[tokio::test]
    async fn tries_when_of_one_address_are_limited_over_all_links() {
        let tries = Tries::new(PASSWORDS, None);
        for index in 0..10 {
            let code = format!("a{}", index % 3);
            assert_eq!(tries.take(key(&code), address(1)).await.map(drop), Ok(()));
        }
        let seconds = tries
            .take(key("b"), address(1))
            .await
            .map(drop)
            .unwrap_err();
        assert!((1..=10).contains(&seconds), "{seconds}");
        assert_eq!(tries.take(key("b"), address(2)).await.map(drop), Ok(()));
    }

    /// A /48 is one customer, with 65,536 networks of a /64.
    #[tokio::test]
    async fn network_when_wide_has_the_tries_of_some_addresses() {
        let tries = Tries::new(LOGINS, None);
        let mut made = 0;
        for network in 0..256_u16 {
            let address = IpAddr::from([0x2001, 0xdb8, 0, network << 8, 0, 0, 0, 1]);
            made += usize::from(tries.take_of(None::<&str>, Some(address)).await.is_ok());
        }
        assert!((160..200).contains(&made), "{made}");
    }

    #[tokio::test]
    async fn api_key_when_tried_counts_by_address_alone() {
        let tries = Tries::new(LOGINS, None);
        let by_key = async |address| tries.take_of(None::<&str>, Some(address)).await;
        for _ in 0..10 {
            assert_eq!(by_key(address(1)).await.map(drop), Ok(()));
        }
        assert!(by_key(address(1)).await.is_err());
        assert!(tries.take("a", address(1)).await.is_err());
        assert_eq!(tries.take("a", address(2)).await.map(drop), Ok(()));
    }

    #[tokio::test]
    async fn subject_when_its_address_is_unknown_is_counted() {
        let tries = Tries::new(LOGINS, None);
        for _ in 0..60 {
            assert_eq!(tries.take_of(Some("a"), None).await.map(drop), Ok(()));
        }
        assert!(tries.take_of(Some("a"), None).await.is_err());
        assert_eq!(tries.take_of(Some("b"), None).await.map(drop), Ok(()));
    }

    #[tokio::test]
    async fn tries_when_of_one_link_are_limited_over_all_addresses() {
        let tries = Tries::new(PASSWORDS, None);
        for index in 0..60 {
            assert_eq!(tries.take(key("a"), address(index)).await.map(drop), Ok(()));
        }
        let seconds = tries
            .take(key("a"), address(99))
            .await
            .map(drop)
            .unwrap_err();
        assert!((1..=2).contains(&seconds), "{seconds}");
        assert_eq!(tries.take(key("b"), address(99)).await.map(drop), Ok(()));
    }

    #[tokio::test]
    async fn password_when_right_costs_no_try() {
        let tries = Tries::new(PASSWORDS, None);
        for _ in 0..200 {
            let taken = tries.take(key("a"), address(1)).await;
            taken.expect("a try").give_back().await;
        }
        let mut held = Vec::new();
        while let Ok(taken) = tries.take(key("a"), address(1)).await {
            held.push(taken);
        }
        assert_eq!(held.len(), 10);
        // A wrong one stays taken.
        held.pop();
        for right in held {
            right.give_back().await;
        }
        for _ in 0..9 {
            assert_eq!(tries.take(key("a"), address(1)).await.map(drop), Ok(()));
        }
        assert!(tries.take(key("a"), address(1)).await.is_err());
    }

    #[tokio::test]
    async fn tries_when_hourly_come_back_within_the_hour() {
        let tries = Tries::new(Budget::hourly("x", 2, 3), None);
        for (last, expected) in [(1, true), (1, true), (1, false), (2, true), (3, false)] {
            let taken = tries.take("all", address(last)).await;
            assert_eq!(taken.is_ok(), expected, "{last}");
            if let Err(seconds) = taken {
                assert!((1_100..=1_800).contains(&seconds), "{seconds}");
            }
        }
        let most = Tries::new(Budget::hourly("x", 1_000_000, 1_000_000), None);
        assert_eq!(most.take("all", address(1)).await.map(drop), Ok(()));
    }
}
