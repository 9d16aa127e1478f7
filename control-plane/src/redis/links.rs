//! Records of links in Redis.

use super::scripts::Run;
use super::{Lock, Redis, RedisError, measured, ttl};
use crate::clock;
use bytes::Bytes;
use edgelink_wire::redis::{
    FeedState, LINK_FIELDS, STATE_FIELDS, STATE_KEY, link_key, record_from_values, record_to_fields,
};
use edgelink_wire::{Record, RecordError};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, HashesInterface};
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
    /// Looks a link up in a generation, and with it how far the publisher has written to this very Redis.
    ///
    /// # Errors
    /// If Redis does not answer, or not what it should.
    pub async fn look_up(&self, generation: u64, key: &str) -> Result<Found, RedisError> {
        let pipeline = self.commands.pipeline().with_options(&self.in_lookup());
        let call = async {
            pipeline
                .hmget::<(), _, _>(STATE_KEY, STATE_FIELDS.to_vec())
                .await?;
            pipeline
                .hmget::<(), _, _>(link_key(generation, key), LINK_FIELDS.to_vec())
                .await?;
            let mut answers = pipeline.try_all::<Value>().await.into_iter();
            let state = answers.next().unwrap_or_else(|| Err(missing()))?;
            // An error of the second one that Redis has answered says something about that key.
            Ok((state, answers.next().unwrap_or_else(|| Err(missing()))))
        };
        let (state, link) = self.look("look_up", Box::pin(call)).await?;
        let lookup = match link.map_err(RedisError::from) {
            Ok(values) => read(values)?,
            // The key holds something else than a hash.
            Err(RedisError::Refused(error)) if error.details().starts_with("WRONGTYPE") => {
                Lookup::Malformed(RecordError::Field("link"))
            }
            Err(error) => return Err(error),
        };
        Ok(Found {
            lookup,
            state: read_state(state)?,
        })
    }

    /// Writes a record that was looked up elsewhere under `lock`, and releases the lock; over one that is not readable where
    /// `found` was that.
    ///
    /// # Errors
    /// Where Redis does not answer. The lock then ends by itself.
    pub async fn fill(
        &self,
        record: &Record<String>,
        found: &Lookup,
        lock: Lock,
    ) -> Result<(), RedisError> {
        let reason = match found {
            Lookup::Malformed(_) => Reason::Repair,
            Lookup::Unknown | Lookup::Known(_) => Reason::Fill,
        };
        let (generation, key) = lock.place();
        let run = write(reason, generation, key, &record.as_deref(), lock.token());
        let options = self.in_lookup();
        let call = self.scripts.write.run(&self.commands, &options, run);
        self.look("fill", Box::pin(call)).await.map(drop)
    }

    /// Replaces what Redis has of these links in a generation, by revision, and takes away the locks of those who are looking
    /// them up.
    ///
    /// # Errors
    /// If Redis does not answer; some of them may be replaced then.
    pub async fn publish(
        &self,
        generation: u64,
        changes: &[(&str, Record<&str>)],
    ) -> Result<(), RedisError> {
        let runs = changes
            .iter()
            .map(|(key, record)| write(Reason::Publish, generation, key, record, ""))
            .collect();
        let options = self.in_background();
        let call = self.scripts.write.run_all(&self.commands, &options, runs);
        measured("publish", call).await
    }

    /// Removes what Redis has of links in a generation, and the locks of those who are looking them up.
    ///
    /// # Errors
    /// If Redis does not answer; some of them may be removed then.
    pub async fn forget(&self, generation: u64, links: &[String]) -> Result<(), RedisError> {
        let run = |key: &String| Run {
            keys: keys(generation, key),
            arguments: Vec::new(),
        };
        let options = self.in_background();
        let runs = links.iter().map(run).collect();
        let call = self.scripts.forget.run_all(&self.commands, &options, runs);
        // Boxed, since futures of pipelines are large.
        measured("forget", Box::pin(call)).await
    }
}

/// What Redis knows of a link, and how far the publisher has written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it knows of the link.
    pub lookup: Lookup,
    /// How far the publisher has written; `None` if it has not.
    pub state: Option<FeedState>,
}

fn missing() -> Error {
    Error::new(ErrorKind::Protocol, "an answer is missing")
}

fn keys(generation: u64, key: &str) -> Vec<String> {
    vec![
        link_key(generation, key),
        super::lock::lock_key(generation, key),
    ]
}

fn read_state(values: Value) -> Result<Option<FeedState>, RedisError> {
    let values: Vec<Option<Bytes>> = values.convert()?;
    let values: [Option<Bytes>; STATE_FIELDS.len()] = values
        .try_into()
        .map_err(|_| RedisError::Malformed("the state of the feed"))?;
    let borrowed = values.each_ref().map(|value| value.as_deref());
    Ok(FeedState::from_values(&borrowed))
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

fn write(reason: Reason, generation: u64, key: &str, record: &Record<&str>, token: &str) -> Run {
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
        keys: keys(generation, key),
        arguments,
    }
}
