//! How often a password may be tried: by the client's address, and for each link or account from all addresses.

use super::bucket::{KeyedBucket, Rate, Taken};
use super::local::LocalBuckets;
use super::{PREFIX, report_degraded};
use crate::redis::Redis;
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Of an address: 10 tries at once, and then one every 10 seconds.
const ADDRESS: Rate = Rate {
    capacity: 100,
    per_second: 1,
    cost: 10,
};

/// Of a link or an account: 60 tries at once, and then one every 2 seconds.
const SUBJECT: Rate = Rate {
    capacity: 120,
    per_second: 1,
    cost: 2,
};

/// Buckets in this process.
const MAX_BUCKETS: u64 = 100_000;

/// The tries of passwords, which all control planes of a Redis count together. Without Redis, and while it does not answer, each
/// counts by itself.
pub(crate) struct Tries {
    redis: Option<Arc<Redis>>,
    local: LocalBuckets,
}

impl Tries {
    pub(crate) fn new(redis: Option<Arc<Redis>>) -> Self {
        let longest = ADDRESS.window_seconds().max(SUBJECT.window_seconds());
        Self {
            redis,
            local: LocalBuckets::new(MAX_BUCKETS, Duration::from_secs(longest)),
        }
    }

    /// Takes a try of the password of `subject`: the key of a link, or an account. The seconds until there is one, at least 1, if there
    /// is none now.
    pub(crate) async fn take(&self, subject: impl Display, address: IpAddr) -> Result<(), u64> {
        self.take_each(&[of_address("", address), of_subject(subject)])
            .await
    }

    /// Takes a try to log in to the console, as [`Self::take`] does. The account is `None` for an API key: it cannot be guessed, and
    /// strangers could keep its holder out. Visitors who try passwords of links keep none out either, so addresses are counted apart.
    pub(crate) async fn take_login(
        &self,
        account: Option<impl Display>,
        address: IpAddr,
    ) -> Result<(), u64> {
        let address = of_address("login:", address);
        match account {
            Some(account) => self.take_each(&[address, of_account(account)]).await,
            None => self.take_each(&[address]).await,
        }
    }

    async fn take_each(&self, buckets: &[KeyedBucket]) -> Result<(), u64> {
        let taken = match &self.redis {
            Some(redis) => redis.take(buckets).await.unwrap_or_else(|error| {
                report_degraded(&error);
                self.local.take(buckets)
            }),
            None => self.local.take(buckets),
        };
        refusal(buckets, &taken).map_or(Ok(()), Err)
    }
}

fn of_address(kind: &str, address: IpAddr) -> KeyedBucket {
    KeyedBucket {
        key: format!("{PREFIX}try:{kind}{address}"),
        rate: ADDRESS,
    }
}

fn of_subject(subject: impl Display) -> KeyedBucket {
    KeyedBucket {
        key: format!("{PREFIX}try:{subject}"),
        rate: SUBJECT,
    }
}

/// A stranger may have made the name of an account up: of any length it takes the same memory.
fn of_account(account: impl Display) -> KeyedBucket {
    of_subject(hex::encode(Sha256::digest(account.to_string())))
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
    async fn tries_are_limited_by_address_over_all_links() {
        let tries = Tries::new(None);
        for index in 0..10 {
            let code = format!("a{}", index % 3);
            assert_eq!(tries.take(key(&code), address(1)).await, Ok(()));
        }
        let seconds = tries.take(key("b"), address(1)).await.unwrap_err();
        assert!((1..=10).contains(&seconds), "{seconds}");
        assert_eq!(tries.take(key("b"), address(2)).await, Ok(()));
    }

    #[tokio::test]
    async fn an_api_key_is_counted_by_the_address_alone_and_apart_from_links() {
        let tries = Tries::new(None);
        let by_key = async |address| tries.take_login(None::<&str>, address).await;
        for _ in 0..10 {
            assert_eq!(by_key(address(1)).await, Ok(()));
        }
        assert!(by_key(address(1)).await.is_err());
        assert!(tries.take_login(Some("a"), address(1)).await.is_err());
        assert_eq!(tries.take(key("a"), address(1)).await, Ok(()));
    }

    #[test]
    fn an_account_with_a_long_name_takes_no_more_memory() {
        let lengths = ["a", &"a".repeat(65_536)].map(|text| of_account(text).key.len());
        assert_eq!(lengths[0], lengths[1]);
    }

    #[tokio::test]
    async fn tries_are_limited_by_link_over_all_addresses() {
        let tries = Tries::new(None);
        for index in 0..60 {
            assert_eq!(tries.take(key("a"), address(index)).await, Ok(()));
        }
        let seconds = tries.take(key("a"), address(99)).await.unwrap_err();
        assert!((1..=2).contains(&seconds), "{seconds}");
        assert_eq!(tries.take(key("b"), address(99)).await, Ok(()));
    }
}
