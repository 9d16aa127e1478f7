//! Rate limits: token buckets that all control planes share in Redis, and buckets of this process if there is no Redis or it does
//! not answer.

mod local;
mod networks;
pub mod tries;

use edgelink_model::token_bucket::{KeyedBucket, Rate, TOKEN, Taken};
use edgelink_redis::Redis;
use edgelink_settings::config::LimitsConfig;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::telemetry::prometheus::{LIMITS_DEGRADED, REQUESTS_LIMITED};
use local::LocalBuckets;
use metrics::counter;
use moka::sync::Cache;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Prefix of all bucket keys in Redis. The braces put them into one slot of a cluster, so that one script can take from
/// several buckets at once; every request needs the global bucket anyway.
const PREFIX: &str = "{limits}:";

/// The subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The client's address.
    Address,
    /// The API key.
    Key,
    /// All requests with a key.
    Global,
}

impl Policy {
    /// Its name in headers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Key => "key",
            Self::Global => "global",
        }
    }
}

/// The limits of the API.
pub struct Limiter {
    address: Option<Rate>,
    key: Option<Rate>,
    global: Option<Rate>,
    redis: Option<Arc<Redis>>,
    local: LocalBuckets,
    /// Times until which addresses have no token. Refusing their requests costs nothing.
    refused: Cache<IpAddr, Instant>,
}

/// The parties against which a request counts.
#[derive(Clone, Copy, Debug)]
pub struct LimitSubject<'a> {
    /// The client's address, or its network.
    pub address: IpAddr,
    /// The id of its API key; `None` if it has none that is valid.
    pub key: Option<&'a str>,
}

/// Remainder of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Subject of the limit.
    pub policy: Policy,
    /// Capacity, refill rate and cost of its bucket.
    pub rate: Rate,
    /// Level of the bucket, [`TOKEN`] units to the token.
    level: u64,
}

/// The decision on a request, and the remainders of its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitVerdict {
    /// Remainders of the limits that were checked, one for each subject.
    pub standings: Vec<Standing>,
    /// The limit that is exceeded; `None` if none is.
    pub refused_by: Option<Standing>,
}

impl Limiter {
    /// Creates the limiter; `None` if there is no limit.
    pub fn new(config: &LimitsConfig, redis: Option<Arc<Redis>>) -> Option<Self> {
        let (address, key, global) = (config.address(), config.key(), config.global());
        let rates = [address, key, global].into_iter().flatten();
        let longest = rates.map(Rate::window_seconds).max()?;
        Some(Self {
            address,
            key,
            global,
            redis,
            local: LocalBuckets::new(config.max_buckets, Duration::from_secs(longest)),
            refused: Cache::builder()
                .max_capacity(config.max_buckets)
                // The longest time until there is a token.
                .time_to_live(Duration::from_secs(1))
                .build(),
        })
    }

    /// The refusal of an address that had no token a moment ago, and has none yet; `None` if it may have one.
    pub fn refuse_at_once(&self, address: IpAddr) -> Option<LimitVerdict> {
        let rate = self.address?;
        let until = self.refused.get(&address)?;
        let left = until.checked_duration_since(Instant::now())?;
        let missing = u64::try_from(left.as_micros()).ok()?;
        let missing = missing.saturating_mul(rate.per_second.into());
        let standing = Standing {
            policy: Policy::Address,
            rate,
            level: TOKEN.saturating_sub(missing.max(1)),
        };
        count_refusal(Policy::Address);
        Some(LimitVerdict {
            standings: vec![standing],
            refused_by: Some(standing),
        })
    }

    /// Takes a token of each bucket of the request, or of none if one of them has none.
    pub async fn take(&self, subject: LimitSubject<'_>) -> LimitVerdict {
        let (policies, buckets) = self.buckets(subject);
        if buckets.is_empty() {
            return LimitVerdict {
                standings: Vec::new(),
                refused_by: None,
            };
        }
        let taken = match &self.redis {
            Some(redis) => match redis.take(&buckets).await {
                Ok(taken) => taken,
                Err(error) => {
                    report_degraded(&error);
                    self.local.take(&buckets)
                }
            },
            None => self.local.take(&buckets),
        };
        let verdict = LimitVerdict::new(&policies, &buckets, &taken);
        self.note(subject.address, &verdict);
        verdict
    }

    /// The limits of a request, and their buckets.
    fn buckets(&self, subject: LimitSubject<'_>) -> (Vec<Policy>, Vec<KeyedBucket>) {
        let prefix = |policy: Policy| format!("{PREFIX}{}", policy.name());
        let bucket = |policy: Policy, rate: Rate, whose: &str| {
            let key = format!("{}:{whose}", prefix(policy));
            (policy, KeyedBucket { key, rate })
        };
        let address = self.address.map_or_else(Vec::new, |rate| {
            networks::buckets(&prefix(Policy::Address), subject.address, rate)
        });
        let address = address.into_iter().map(|bucket| (Policy::Address, bucket));
        let key = self.key.zip(subject.key);
        let key = key.map(|(rate, key)| bucket(Policy::Key, rate, key));
        let global = self.global.filter(|_| subject.key.is_some());
        let global = global.map(|rate| bucket(Policy::Global, rate, ""));
        address.chain(key).chain(global).unzip()
    }

    /// Counts a refusal, and caches that of an address.
    fn note(&self, address: IpAddr, verdict: &LimitVerdict) {
        let Some(standing) = &verdict.refused_by else {
            return;
        };
        count_refusal(standing.policy);
        if standing.policy == Policy::Address {
            let wait = Duration::from_micros(standing.rate.micros_until(standing.level, TOKEN));
            self.refused.insert(address, Instant::now() + wait);
        }
    }
}

fn count_refusal(policy: Policy) {
    counter!(REQUESTS_LIMITED, "policy" => policy.name()).increment(1);
}

fn report_degraded(error: &edgelink_redis::RedisError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    counter!(LIMITS_DEGRADED).increment(1);
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        tracing::warn!(
            %error,
            left_out,
            "Redis does not answer; rate limits count in this process only"
        );
    }
}

impl LimitVerdict {
    fn new(policies: &[Policy], buckets: &[KeyedBucket], taken: &Taken) -> Self {
        let parts = policies.iter().zip(buckets).zip(&taken.levels);
        let all: Vec<Standing> = parts
            .map(|((policy, bucket), level)| Standing {
                policy: *policy,
                rate: bucket.rate,
                level: *level,
            })
            .collect();
        let refused_by = taken.refused_by.and_then(|index| all.get(index).copied());
        // Of the networks of an address, the one with the least left decides.
        let mut standings: Vec<Standing> = Vec::with_capacity(all.len());
        for standing in all {
            match standings.last_mut() {
                Some(last) if last.policy == standing.policy => {
                    if standing.level < last.level {
                        *last = standing;
                    }
                }
                _ => standings.push(standing),
            }
        }
        Self {
            standings,
            refused_by,
        }
    }
}

impl Standing {
    /// Whole tokens that are left.
    pub fn remaining(&self) -> u64 {
        self.level / TOKEN
    }

    /// Seconds until the bucket is full again, or until it has a token if it has none; rounded up, at least 1.
    pub fn window_seconds(&self) -> u64 {
        let wanted = match self.remaining() {
            0 => TOKEN,
            _ => self.rate.full(),
        };
        let micros = self.rate.micros_until(self.level, wanted);
        micros.div_ceil(1_000_000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn limiter(config: &LimitsConfig) -> Limiter {
        Limiter::new(config, None).unwrap()
    }

    fn subject(address: IpAddr, key: Option<&str>) -> LimitSubject<'_> {
        LimitSubject { address, key }
    }

    #[test]
    fn limiter_when_without_limits_is_none() {
        assert!(Limiter::new(&LimitsConfig::default(), None).is_none());
    }

    #[tokio::test]
    async fn request_when_over_a_limit_names_its_policy() {
        let limiter = limiter(&LimitsConfig {
            address_capacity: 3,
            address_per_second: 1,
            key_capacity: 2,
            key_per_second: 1,
            global_capacity: 3,
            global_per_second: 1,
            ..LimitsConfig::default()
        });
        let refused_by = async |address, key| {
            let verdict = limiter.take(subject(address, key)).await;
            verdict.refused_by.map(|standing| standing.policy)
        };
        assert_eq!(refused_by(ONE, Some("a")).await, None);
        assert_eq!(refused_by(ONE, Some("a")).await, None);
        assert_eq!(refused_by(ONE, Some("a")).await, Some(Policy::Key));
        // The refused request took nothing of its address, nor of all.
        assert_eq!(refused_by(ONE, Some("b")).await, None);
        assert_eq!(refused_by(ONE, Some("b")).await, Some(Policy::Address));
        assert_eq!(refused_by(OTHER, Some("b")).await, Some(Policy::Global));
        assert_eq!(
            refused_by(OTHER, None).await,
            None,
            "counts by its address alone"
        );
    }

    #[tokio::test]
    async fn network_when_wide_has_the_tokens_of_some_addresses() {
        let limiter = limiter(&LimitsConfig {
            address_capacity: 2,
            address_per_second: 1,
            ..LimitsConfig::default()
        });
        let mut admitted = 0;
        for network in 0..256_u16 {
            let address: IpAddr = format!("2001:db8:0:{network:x}00::").parse().unwrap();
            for _ in 0..2 {
                let verdict = limiter.take(subject(address, None)).await;
                assert_eq!(verdict.standings.len(), 1, "one of the policy");
                admitted += u32::from(verdict.refused_by.is_none());
            }
        }
        // A /48 has 16 times as much as a /64, and some are refilled meanwhile.
        assert!((32..100).contains(&admitted), "{admitted}");
        let elsewhere = "2001:db8:1::".parse().unwrap();
        let verdict = limiter.take(subject(elsewhere, None)).await;
        assert_eq!(verdict.refused_by, None);
    }

    #[tokio::test]
    async fn address_when_without_tokens_is_refused_at_once() {
        let limiter = limiter(&LimitsConfig {
            address_capacity: 1,
            address_per_second: 1,
            ..LimitsConfig::default()
        });
        assert_eq!(limiter.take(subject(ONE, None)).await.refused_by, None);
        assert_eq!(limiter.refuse_at_once(ONE), None);
        let refused = limiter.take(subject(ONE, None)).await;
        let at_once = limiter.refuse_at_once(ONE).unwrap();
        for verdict in [refused, at_once] {
            let standing = verdict.refused_by.unwrap();
            assert_eq!((standing.remaining(), standing.window_seconds()), (0, 1));
            assert_eq!(verdict.standings, [standing]);
        }
        assert_eq!(limiter.refuse_at_once(OTHER), None);
    }

    #[test]
    fn standing_when_shown_says_its_tokens_and_window() {
        let standing = |level| Standing {
            policy: Policy::Key,
            rate: Rate::new(100, 10).unwrap(),
            level,
        };
        let shown = |level| {
            (
                standing(level).remaining(),
                standing(level).window_seconds(),
            )
        };
        assert_eq!(shown(99 * TOKEN), (99, 1));
        assert_eq!(shown(TOKEN), (1, 10));
        assert_eq!(shown(TOKEN - 1), (0, 1));
    }
}
