//! The plugin configuration: JSON, strict. A bad field stops the start and is named.

mod background;
mod clicks;
mod pages;
mod redis;

pub use background::{Background, Poll, Snapshot};
pub use clicks::Clicks;
pub use pages::Pages;
pub use redis::Redis;

use crate::cache::freshness::Lifetimes;
use edgelink_wire::Domain;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Checked settings.
#[derive(Debug)]
pub struct Settings {
    /// The domains that short links live on; at least one.
    pub domains: Vec<Domain>,
    /// What becomes of requests for any other host.
    pub unknown_hosts: UnknownHosts,
    /// How the control plane is asked.
    pub control_plane: ControlPlane,
    /// How Redis is asked; nothing without Redis.
    pub redis: Option<Redis>,
    /// What is done with the control plane besides lookups.
    pub background: Background,
    /// How clicks are counted and reported; nothing where they are not.
    pub clicks: Option<Clicks>,
    /// The bound of the LRU in bytes; 0 for none.
    pub lru_max_bytes: usize,
    /// The number of slots in shared data; 0 for none.
    pub slots: u32,
    /// The largest value that is written into a slot, in bytes.
    pub max_value_bytes: usize,
    /// How long records are served.
    pub lives: Lifetimes,
    /// How long a failure is remembered, in milliseconds.
    pub retry_after_millis: u64,
    /// The same in seconds, as `retry-after` has it.
    pub retry_after: String,
    /// Whether answers carry `x-edgelink-tier`.
    pub tier_header: bool,
    /// The period of the tick, in milliseconds.
    pub tick_millis: u32,
    /// The pages for people.
    pub pages: Pages,
}

/// Where changes are learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedSource<'a> {
    /// From the control plane in that cluster, by polls.
    ControlPlane(&'a str),
    /// From Redis, by the bridge in that cluster.
    Redis(&'a str),
}

/// How the control plane is asked.
#[derive(Debug)]
pub struct ControlPlane {
    /// The name of the proxy's cluster.
    pub cluster: String,
    /// The `:authority` of callouts.
    pub authority: String,
    /// The value of `authorization` of callouts.
    pub authorization: String,
    /// Milliseconds after which the proxy gives a callout up.
    pub timeout_millis: u32,
    /// The largest number of lookups in flight.
    pub max_pending: usize,
    /// The largest number of requests that wait for them.
    pub max_waiting: usize,
}

/// What becomes of a request whose host is none of the domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownHosts {
    /// It is for the first domain.
    #[default]
    Default,
    /// It is answered 404.
    NotFound,
    /// It goes on to the next filter, untouched.
    Pass,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It is not JSON, has a field that is not known, lacks one, or has one of the wrong type.
    #[error("field '{field}': {reason}")]
    Json {
        /// The path of the field; `.` for the whole.
        field: String,
        /// What the parser says.
        reason: serde_json::Error,
    },
    /// A field has a value that cannot work.
    #[error("field '{field}': must be {expected}")]
    Value {
        /// The path of the field.
        field: &'static str,
        /// What would be right.
        expected: String,
    },
}

/// The configuration as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    /// Hosts, with port where it is not the default; required. The first is the default. The ports 80 and 443 and a trailing
    /// dot in the host of a request make no difference.
    domains: Vec<String>,
    /// What becomes of requests for other hosts: `default` (they are for the first domain; with one domain the host is never
    /// looked at), `notFound` (404) or `pass` (the next filter gets them); default `default`.
    #[serde(default)]
    unknown_hosts: UnknownHosts,
    /// Required.
    control_plane: RawControlPlane,
    /// Without it, Redis is not asked; nor without a feed (`poll` or `redis.feed`), which tells whether Redis is current.
    redis: Option<redis::Raw>,
    /// Whether and how hot links, the bound and aliases are fetched at the start; default not at all. `{}` is enough.
    snapshot: Option<background::RawSnapshot>,
    /// Whether and how the feed is read from the control plane, by long polls; default not at all. `{}` is enough. For
    /// edges that do not reach Redis, or only through a pool; not together with `redis.feed`.
    poll: Option<background::RawPoll>,
    /// Whether codes that were never issued are answered 404 without a lookup; default not. `{}` is enough. Needs
    /// `snapshot`, and `poll` or `redis.feed`.
    admission: Option<background::RawAdmission>,
    /// Whether and how redirects are counted by link and reported; default not at all. `{}` is enough.
    clicks: Option<clicks::Raw>,
    #[serde(default)]
    lru: RawLru,
    #[serde(default)]
    shared_data: RawSharedData,
    /// Seconds for which a link is served without asking again, 0 to 86400; default 5. Changes are seen that much
    /// later where no feed tells of them. At least 3 with `redis.feed`, or neither that nor Redis would ever count.
    #[serde(default = "five")]
    fresh_seconds: u64,
    /// The same for links that there are none of; default 5. A new alias may be 404 for that long.
    #[serde(default = "five")]
    absent_fresh_seconds: u64,
    /// Seconds for which a record is served without asking again while a feed tells of changes, 0 to 86400; default
    /// 3600. When the feed falls silent, records are asked for again as if they had been fetched when it was last heard.
    #[serde(default = "one_hour")]
    fresh_with_feed_seconds: u64,
    /// Seconds after which a record is no longer served even while the control plane fails, 1 to 31536000, not below
    /// the other two; default 86400.
    #[serde(default = "one_day")]
    stale_seconds: u64,
    /// Seconds for which a failed lookup is remembered where there is a stale record to serve, and the `retry-after` of
    /// 503; 1 to 3600, default 1.
    #[serde(default = "one")]
    retry_after_seconds: u64,
    /// Whether answers say in `x-edgelink-tier` where they come from; default false.
    #[serde(default)]
    tier_header: bool,
    /// Milliseconds between two ticks, 10 to 1000; default 100. Timeouts are exact to this, and metrics are that much
    /// behind.
    #[serde(default = "one_hundred")]
    tick_ms: u64,
    #[serde(default)]
    pages: pages::Raw,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawControlPlane {
    /// The name of the proxy's cluster; required.
    cluster: String,
    /// The host that callouts name; default `control-plane`.
    #[serde(default = "control_plane")]
    authority: String,
    /// The token of the edge API; required.
    token: String,
    /// Milliseconds that a callout may take, 1 to 60000; default 800. A visitor of an unknown link waits for that long
    /// at most.
    #[serde(default = "eight_hundred")]
    timeout_ms: u64,
    /// Lookups in flight a worker, 1 to 100000; default 1024. Further ones are answered stale or 503. A quarter is for links
    /// that the caches hold, so that requests for what nobody has leave it.
    #[serde(default = "max_pending")]
    max_pending: u64,
    /// Requests that wait a worker, 1 to 1000000; default 10000. Further ones are answered stale or 503.
    #[serde(default = "max_waiting")]
    max_waiting: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawLru {
    /// Bytes a worker, 0 (no LRU) to 1073741824; default 67108864. The worker's memory grows up to this and never
    /// shrinks.
    max_bytes: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawSharedData {
    /// Slots of the proxy, 0 (none) to 1048576; default 65536.
    slots: u64,
    /// Bytes of the largest value that is shared, 64 to 65536; default 2048. All of a value is copied under a lock of
    /// the whole process at every read.
    max_value_bytes: u64,
}

impl Default for RawLru {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
        }
    }
}

impl Default for RawSharedData {
    fn default() -> Self {
        Self {
            slots: 65_536,
            max_value_bytes: 2_048,
        }
    }
}

fn one() -> u64 {
    1
}

fn five() -> u64 {
    5
}

fn one_hundred() -> u64 {
    100
}

fn eight_hundred() -> u64 {
    800
}

fn max_pending() -> u64 {
    1_024
}

fn max_waiting() -> u64 {
    10_000
}

fn one_hour() -> u64 {
    3_600
}

fn one_day() -> u64 {
    86_400
}

fn control_plane() -> String {
    "control-plane".to_owned()
}

impl Settings {
    /// Reads the plugin configuration.
    ///
    /// # Errors
    /// [`SettingsError`] names the first field that is wrong.
    pub fn parse(json: &[u8]) -> Result<Self, SettingsError> {
        let raw = read(json)?;
        let lives = raw.lives()?;
        let tick_millis = within("tickMs", raw.tick_ms, 10..=1_000)?;
        let control_plane = raw.control_plane.check()?;
        let redis = raw.redis.as_ref().map(|redis| redis.check()).transpose()?;
        if let Some(redis) = &redis {
            redis.check_feed(&lives, raw.lru.max_bytes)?;
        }
        let background = Background::check(&raw, &lives, &control_plane, redis.as_ref())?;
        let retry_after: u32 = within("retryAfterSeconds", raw.retry_after_seconds, 1..=3_600)?;
        let shared = raw.shared_data;
        Ok(Self {
            domains: domains(&raw.domains)?,
            unknown_hosts: raw.unknown_hosts,
            control_plane,
            redis,
            background,
            clicks: raw.clicks.as_ref().map(clicks::Raw::check).transpose()?,
            lru_max_bytes: within("lru.maxBytes", raw.lru.max_bytes, 0..=1 << 30)?,
            slots: within("sharedData.slots", shared.slots, 0..=1 << 20)?,
            max_value_bytes: within(
                "sharedData.maxValueBytes",
                shared.max_value_bytes,
                64..=65_536,
            )?,
            lives,
            retry_after_millis: u64::from(retry_after) * 1_000,
            retry_after: retry_after.to_string(),
            tier_header: raw.tier_header,
            tick_millis,
            pages: raw.pages.check()?,
        })
    }
}

impl Settings {
    /// Whether changes are learned from a feed.
    #[must_use]
    pub fn has_feed(&self) -> bool {
        self.feed_source().is_some()
    }

    /// Where changes are learned from; `None` without a feed.
    pub(crate) fn feed_source(&self) -> Option<FeedSource<'_>> {
        let redis = self.redis.as_ref().filter(|redis| redis.feed.is_some());
        let polled = self.background.poll.as_ref();
        redis
            .map(|redis| FeedSource::Redis(&redis.cluster))
            .or_else(|| polled.map(|_| FeedSource::ControlPlane(&self.control_plane.cluster)))
    }
}

impl Raw {
    fn lives(&self) -> Result<Lifetimes, SettingsError> {
        let day = 0..=86_400;
        let lives = Lifetimes {
            fresh: millis("freshSeconds", self.fresh_seconds, day.clone())?,
            absent_fresh: millis("absentFreshSeconds", self.absent_fresh_seconds, day.clone())?,
            with_feed: millis("freshWithFeedSeconds", self.fresh_with_feed_seconds, day)?,
            stale: millis("staleSeconds", self.stale_seconds, 1..=31_536_000)?,
        };
        if lives.stale < lives.fresh.max(lives.absent_fresh) {
            return Err(wrong(
                "staleSeconds",
                "at least freshSeconds and absentFreshSeconds",
            ));
        }
        Ok(lives)
    }
}

fn read(json: &[u8]) -> Result<Raw, SettingsError> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let raw = serde_path_to_error::deserialize(&mut json).map_err(|error| SettingsError::Json {
        field: error.path().to_string(),
        reason: error.into_inner(),
    })?;
    json.end().map_err(|reason| SettingsError::Json {
        field: ".".to_owned(),
        reason,
    })?;
    Ok(raw)
}

fn wrong(field: &'static str, expected: &str) -> SettingsError {
    SettingsError::Value {
        field,
        expected: expected.to_owned(),
    }
}

fn within<N: TryFrom<u64>>(
    field: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
) -> Result<N, SettingsError> {
    let expected = || {
        let (first, last) = (range.start(), range.end());
        wrong(field, &format!("{first} to {last}, not {value}"))
    };
    let value = range.contains(&value).then_some(value);
    let value = value.and_then(|value| N::try_from(value).ok());
    value.ok_or_else(expected)
}

/// The same for seconds, as milliseconds.
fn millis(
    field: &'static str,
    seconds: u64,
    range: RangeInclusive<u64>,
) -> Result<u64, SettingsError> {
    let seconds: u64 = within(field, seconds, range)?;
    Ok(seconds * 1_000)
}

fn domains(texts: &[String]) -> Result<Vec<Domain>, SettingsError> {
    const FIELD: &str = "domains";
    if texts.is_empty() || texts.len() > 1_000 {
        return Err(wrong(FIELD, "a list of 1 to 1000 hosts"));
    }
    let mut domains = Vec::with_capacity(texts.len());
    for text in texts {
        let domain = Domain::parse(text)
            .map_err(|error| wrong(FIELD, &format!("a list of hosts; '{text}' {error}")))?;
        if domains.contains(&domain) {
            return Err(wrong(
                FIELD,
                &format!("without duplicates; '{text}' is one"),
            ));
        }
        domains.push(domain);
    }
    Ok(domains)
}

impl RawControlPlane {
    fn check(&self) -> Result<ControlPlane, SettingsError> {
        let token = header_value("controlPlane.token", &self.token)?;
        Ok(ControlPlane {
            cluster: header_value("controlPlane.cluster", &self.cluster)?,
            authority: header_value("controlPlane.authority", &self.authority)?,
            authorization: format!("Bearer {token}"),
            timeout_millis: within("controlPlane.timeoutMs", self.timeout_ms, 1..=60_000)?,
            max_pending: within("controlPlane.maxPending", self.max_pending, 1..=100_000)?,
            max_waiting: within("controlPlane.maxWaiting", self.max_waiting, 1..=1_000_000)?,
        })
    }
}

/// What goes into a header of a callout. The value is not repeated in the error: it may be the token.
fn header_value(field: &'static str, value: &str) -> Result<String, SettingsError> {
    let is_one =
        (1..=1_024).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic());
    if is_one {
        return Ok(value.to_owned());
    }
    Err(wrong(
        field,
        "1 to 1024 visible ASCII characters without spaces",
    ))
}

#[cfg(test)]
mod tests;
