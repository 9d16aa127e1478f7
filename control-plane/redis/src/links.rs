//! Records of links in Redis, and the lock under which one replica looks a link up for all.

use super::error::RedisError;
use super::scripts::{FORGET, ScriptCall, UNLOCK, WRITE};
use super::{Redis, measured};
use bytes::Bytes;
use edgelink_model::clock;
use edgelink_wire::redis::{
    FeedState, LINK_FIELDS, STATE_FIELDS, STATE_KEY, link_key, record_from_values, record_to_fields,
};
use edgelink_wire::{Record, RecordError};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface};
use fred::types::{Expiration, SetOptions, Value};
use rand::{random, random_range};
use std::time::Duration;

/// Result of a lookup in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisLookup {
    /// No record, which says nothing about the link.
    Unknown,
    /// A record, or a known absence.
    Known(Record<String>),
    /// Fields that no version of edgelink wrote.
    Malformed(RecordError),
}

/// Result of a lookup, and the publisher's state in that Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedLink {
    /// The record of the link.
    pub lookup: RedisLookup,
    /// The publisher's progress; `None` if it has not written.
    pub state: Option<FeedState>,
}

/// A lock held until it is released, expires, or is removed by a change of the link.
#[derive(Debug)]
pub struct Lock {
    generation: u64,
    key: String,
    /// Distinguishes the lock from another replica's.
    token: String,
}

impl Redis {
    /// Looks up a link in a generation, and the publisher's progress in the same Redis.
    pub async fn look_up(&self, generation: u64, key: &str) -> Result<CachedLink, RedisError> {
        let client = self.for_lookups();
        let pipeline = client.pipeline().with_options(client.options());
        let call = async {
            pipeline
                .hmget::<(), _, _>(STATE_KEY, STATE_FIELDS.to_vec())
                .await?;
            pipeline
                .hmget::<(), _, _>(link_key(generation, key), LINK_FIELDS.to_vec())
                .await?;
            let missing = || Err(Error::new(ErrorKind::Protocol, "an answer is missing"));
            let mut answers = pipeline.try_all::<Value>().await.into_iter();
            let state = answers.next().unwrap_or_else(missing)?;
            // An error reply to the second command is about that key.
            Ok((state, answers.next().unwrap_or_else(missing)))
        };
        let (state, link) = self.guarded("look_up", call).await?;
        let state = values(state, "the state of the feed")?;
        let lookup = match link.map_err(RedisError::from) {
            Ok(link) => read(&values(link, "the fields of a link")?),
            // The key holds something other than a hash.
            Err(RedisError::Refused(error)) if error.details().starts_with("WRONGTYPE") => {
                RedisLookup::Malformed(RecordError::Field("link"))
            }
            Err(error) => return Err(error),
        };
        let state = FeedState::from_values(&state.each_ref().map(Option::as_deref));
        Ok(CachedLink { lookup, state })
    }

    /// Takes the lock of a link in a generation; `None` if it is taken. It expires after `duration`.
    pub async fn lock(
        &self,
        generation: u64,
        key: &str,
        duration: Duration,
    ) -> Result<Option<Lock>, RedisError> {
        let lock = Lock {
            generation,
            key: key.to_owned(),
            token: format!("{:032x}", random::<u128>()),
        };
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let client = self.for_lookups();
        let call = client.set::<Option<String>, _, _>(
            lock_key(generation, key),
            lock.token.as_str(),
            Some(Expiration::PX(millis)),
            Some(SetOptions::NX),
            false,
        );
        let answer = self.guarded("lock", call).await?;
        Ok(answer.map(|_| lock))
    }

    /// Releases a lock without a record. If that fails, the lock expires.
    pub async fn unlock(&self, lock: Lock) -> Result<(), RedisError> {
        let run = ScriptCall {
            keys: vec![lock_key(lock.generation, &lock.key)],
            arguments: vec![Value::from(lock.token)],
        };
        let client = self.for_lookups();
        self.guarded("unlock", UNLOCK.run(&client, &run))
            .await
            .map(drop)
    }

    /// Writes a record that was looked up under `lock`, and releases the lock; replaces a malformed record if `found`
    /// was one. If it fails, the lock expires.
    pub async fn fill(
        &self,
        record: &Record<String>,
        found: &RedisLookup,
        lock: Lock,
    ) -> Result<(), RedisError> {
        let what = match found {
            RedisLookup::Malformed(_) => "repair",
            RedisLookup::Unknown | RedisLookup::Known(_) => "fill",
        };
        let record = record.as_deref();
        let run = write(what, &lock.token, lock.generation, &lock.key, &record);
        let client = self.for_lookups();
        self.guarded("fill", WRITE.run(&client, &run))
            .await
            .map(drop)
    }

    /// Replaces the records of these links in a generation, by revision, and removes their locks. If Redis is full, the older
    /// half of the feed is dropped once to make room. If it fails, some may be replaced.
    pub async fn publish(
        &self,
        generation: u64,
        changes: &[(&str, Record<&str>)],
    ) -> Result<(), RedisError> {
        let run =
            |(key, record): &(&str, Record<&str>)| write("publish", "", generation, key, record);
        let runs: Vec<ScriptCall> = changes.iter().map(run).collect();
        let client = self.in_background();
        // Boxed, because futures of pipelines are large.
        let call = || Box::pin(measured("publish", WRITE.run_all(&client, &runs)));
        match call().await {
            Err(error) if error.is_full() => {
                self.trim_to_half().await?;
                call().await
            }
            result => result,
        }
    }

    /// Removes the records of links in a generation, and their locks. If it fails, some may be removed.
    pub async fn forget(&self, generation: u64, links: &[String]) -> Result<(), RedisError> {
        let run = |key: &String| ScriptCall {
            keys: keys(generation, key),
            arguments: Vec::new(),
        };
        let runs: Vec<ScriptCall> = links.iter().map(run).collect();
        let client = self.in_background();
        Box::pin(measured("forget", FORGET.run_all(&client, &runs))).await
    }
}

/// The key of a lock. Keys of links have no braces, so both are in the slot of the link's key.
fn lock_key(generation: u64, key: &str) -> String {
    format!("lock:{{{}}}", link_key(generation, key))
}

fn keys(generation: u64, key: &str) -> Vec<String> {
    vec![link_key(generation, key), lock_key(generation, key)]
}

fn values<const N: usize>(
    values: Value,
    what: &'static str,
) -> Result<[Option<Bytes>; N], RedisError> {
    let values: Vec<Option<Bytes>> = values.convert()?;
    values.try_into().map_err(|_| RedisError::Malformed(what))
}

fn read(values: &[Option<Bytes>; LINK_FIELDS.len()]) -> RedisLookup {
    match record_from_values(&values.each_ref().map(Option::as_deref)) {
        Ok(None) => RedisLookup::Unknown,
        Ok(Some(record)) => RedisLookup::Known(record.to_owned_record()),
        Err(error) => RedisLookup::Malformed(error),
    }
}

/// Builds a call of [`WRITE`] for the purpose `what`.
fn write(
    what: &'static str,
    token: &str,
    generation: u64,
    key: &str,
    record: &Record<&str>,
) -> ScriptCall {
    let time_to_live = time_to_live(record, clock::unix_seconds()).as_millis();
    let mut arguments: Vec<Value> = vec![
        what.into(),
        token.into(),
        time_to_live.to_string().into(),
        record.rev().to_string().into(),
    ];
    for (name, value) in record_to_fields(record) {
        arguments.push(name.into());
        arguments.push(Value::Bytes(value.into()));
    }
    ScriptCall {
        keys: keys(generation, key),
        arguments,
    }
}

const HOUR: u64 = 3_600_000;
const WEEK: u64 = 7 * 24 * HOUR;

/// TTL of a record at `now` (unix seconds). Random, so that records cached together do not expire together:
/// 20 to 25 % of the link's remaining validity, at least an hour and at most 7 days; for a permanent link 7 days less
/// up to 10 %; for an absence 60 to 180 s.
fn time_to_live<U, B>(record: &Record<U, B>, now: u64) -> Duration {
    let millis = match record {
        Record::Absent { .. } => random_range(60_000..=180_000),
        Record::Link(link) => match link.valid_until {
            None => random_range(WEEK / 10 * 9..=WEEK),
            Some(until) => {
                let rest = until.saturating_sub(now).saturating_mul(1000);
                random_range(rest / 5..=rest / 4).clamp(HOUR, WEEK)
            }
        },
    };
    Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::LinkRecord;

    const NOW: u64 = 1_767_225_600;
    const DAY: u64 = 24 * HOUR;

    fn until(valid_until: Option<u64>) -> Record<&'static str> {
        Record::Link(LinkRecord {
            valid_until,
            ..LinkRecord::ordinary("https://example.com/", 1)
        })
    }

    #[test]
    fn time_to_live_when_link_expires_soon_is_short() {
        for (record, low, high) in [
            (Record::Absent { rev: 1 }, 60_000, 180_000),
            (until(None), WEEK / 10 * 9, WEEK),
            (until(Some(NOW + 10 * 86_400)), 2 * DAY, 10 * DAY / 4),
            (until(Some(NOW + 60)), HOUR, HOUR),
            (until(Some(NOW - 60)), HOUR, HOUR),
            (until(Some(NOW + 1000 * 86_400)), WEEK, WEEK),
            (until(Some(u64::MAX)), WEEK, WEEK),
        ] {
            for _ in 0..100 {
                let ttl = u64::try_from(time_to_live(&record, NOW).as_millis()).unwrap();
                assert!((low..=high).contains(&ttl), "{record:?}: {ttl}");
            }
        }
    }
}
