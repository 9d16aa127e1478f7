//! Records of links in Redis.

use super::scripts::Run;
use super::{Lock, Redis, RedisError, measured, ttl};
use crate::clock;
use bytes::Bytes;
use edgelink_wire::redis::{LINK_FIELDS, link_key, record_from_values, record_to_fields};
use edgelink_wire::{Record, RecordError};
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface};
use fred::types::Value;

/// What Redis knows of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing, which says nothing about the link.
    Unknown,
    /// The link, or that there is none.
    Known(Record<String>),
    /// Something that no version of ours wrote.
    Malformed(RecordError),
}

/// Why a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Fill,
    Repair,
    Publish,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Repair => "repair",
            Self::Publish => "publish",
        }
    }
}

impl Redis {
    /// Looks a link up.
    ///
    /// # Errors
    /// Where Redis does not answer, or not what it should.
    pub async fn look_up(&self, key: &str) -> Result<Lookup, RedisError> {
        let fields = LINK_FIELDS.to_vec();
        let client = self.commands.with_options(&self.in_lookup());
        let call = client.hmget::<Value, _, _>(link_key(key), fields);
        match self.look("look_up", Box::pin(call)).await {
            Ok(values) => read(values),
            // The key holds something else than a hash.
            Err(RedisError::Refused(error)) if error.details().starts_with("WRONGTYPE") => {
                Ok(Lookup::Malformed(RecordError::Field("link")))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a record that was looked up elsewhere under `lock`, and releases the lock; over one that is not readable where
    /// `found` was that.
    ///
    /// # Errors
    /// Where Redis does not answer. The lock then ends by itself.
    pub async fn fill(
        &self,
        key: &str,
        record: &Record<String>,
        found: &Lookup,
        lock: Lock,
    ) -> Result<(), RedisError> {
        let reason = match found {
            Lookup::Malformed(_) => Reason::Repair,
            Lookup::Unknown | Lookup::Known(_) => Reason::Fill,
        };
        let run = write(reason, key, &record.as_deref(), lock.token());
        let options = self.in_lookup();
        let call = self.scripts.write.run(&self.commands, &options, run);
        self.look("fill", Box::pin(call)).await.map(drop)
    }

    /// Replaces what Redis has of these links, by revision, and takes away the locks of those who are looking them up.
    ///
    /// # Errors
    /// Where Redis does not answer; some of them may be replaced then.
    pub async fn publish(&self, changes: &[(&str, Record<&str>)]) -> Result<(), RedisError> {
        let runs = changes
            .iter()
            .map(|(key, record)| write(Reason::Publish, key, record, ""))
            .collect();
        let options = self.in_background();
        let call = self.scripts.write.run_all(&self.commands, &options, runs);
        measured("publish", call).await
    }

    /// Removes what Redis has of a link.
    ///
    /// # Errors
    /// Where Redis does not answer.
    pub async fn forget(&self, key: &str) -> Result<(), RedisError> {
        let client = self.commands.with_options(&self.in_background());
        measured("forget", client.del::<(), _>(link_key(key))).await
    }
}

fn read(values: Value) -> Result<Lookup, RedisError> {
    let values: Vec<Option<Bytes>> = values.convert()?;
    let values: [Option<Bytes>; LINK_FIELDS.len()] = values
        .try_into()
        .map_err(|_| RedisError::Malformed("the fields of a link"))?;
    let borrowed = values.each_ref().map(|value| value.as_deref());
    Ok(match record_from_values(&borrowed) {
        Ok(None) => Lookup::Unknown,
        Ok(Some(record)) => Lookup::Known(record.to_owned_record()),
        Err(error) => Lookup::Malformed(error),
    })
}

fn write(reason: Reason, key: &str, record: &Record<&str>, token: &str) -> Run {
    let ttl = ttl::of(record, clock::unix_seconds()).as_millis();
    let mut arguments: Vec<Value> = vec![
        reason.as_str().into(),
        token.into(),
        ttl.to_string().into(),
        record.rev().to_string().into(),
    ];
    for (name, value) in record_to_fields(record) {
        arguments.push(name.into());
        arguments.push(value.into());
    }
    Run {
        keys: vec![link_key(key), super::lock::lock_key(key)],
        arguments,
    }
}
