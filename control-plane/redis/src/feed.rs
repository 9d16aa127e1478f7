//! The stream of changes in Redis.

use super::connect::MAX_BLOCK;
use super::error::RedisError;
use super::scripts::{APPEND, ScriptCall};
use super::{Redis, measured, options};
use bytes::Bytes;
use edgelink_model::drawn::Drawn;
use edgelink_wire::feed::{FeedMessage, previous};
use edgelink_wire::redis::{FEED_STREAM, STATE_KEY};
use edgelink_wire::{FeedPosition, RecordError};
use fred::interfaces::{ClientLike, HashesInterface, StreamsInterface};
use fred::types::Value;
use fred::types::streams::{XCapKind, XCapTrim};
use std::collections::HashMap;

/// The publisher that appends, and the conditions.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The newest token of the publisher.
    pub token: u64,
    /// The name of the publisher.
    pub owner: &'a str,
    /// The name of the database.
    pub installation: &'a str,
    /// The generation to append to.
    pub generation: u64,
    /// The last entry of the generation known to be published; the start if none is.
    pub after: FeedPosition,
    /// True if this begins the generation, so that no earlier entry is required.
    pub begins: bool,
    /// The generation of the last flush of all caches; stored if this begins a generation, with which they drop everything.
    pub flushed_in: u64,
    /// Number of an appended beat, and the nodes of Redis; `None` without a beat.
    pub beat: Option<(u64, &'a str)>,
    /// Extent of drawn numbers; merged into the stored one.
    pub drawn: Drawn,
}

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Appended, the last one at this position.
    At(FeedPosition),
    /// Not appended: a publisher with this newer token has written there.
    Fenced(u64),
    /// Not appended: Redis has lost the last write; the word is the evidence.
    GoneBack(String),
    /// Not appended: another installation, of this name, writes there.
    Foreign(String),
}

/// The state that the publisher has written to Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// The name of the database.
    pub installation: String,
    /// The fencing token.
    pub token: u64,
    /// The publisher that held it.
    pub owner: String,
    /// The generation.
    pub generation: u64,
    /// The nodes of Redis at the last beat.
    pub nodes: String,
    /// The generation of the last flush of all caches that was published here.
    pub flushed_in: u64,
    /// Extent of drawn numbers.
    pub drawn: Drawn,
}

impl Append<'_> {
    fn arguments(&self, messages: &[FeedMessage<'_>], length: u64, bytes: u64) -> Vec<Value> {
        let (number, nodes) = self.beat.unzip();
        let number = number.map_or_else(String::new, |number| number.to_string());
        let mut arguments: Vec<Value> = vec![
            self.token.to_string().into(),
            self.owner.into(),
            self.installation.into(),
            self.generation.to_string().into(),
            self.after.to_string().into(),
            (if self.begins { "1" } else { "0" }).into(),
            number.into(),
            nodes.unwrap_or_default().into(),
            length.to_string().into(),
            bytes.to_string().into(),
            self.flushed_in.to_string().into(),
            self.drawn.allocated.to_string().into(),
            self.drawn.sum.to_string().into(),
            self.drawn.counted.to_string().into(),
            self.drawn.counts.to_string().into(),
        ];
        for message in messages {
            let fields = message.to_fields();
            arguments.push((fields.len() * 2).to_string().into());
            for (name, value) in fields {
                arguments.push(name.into());
                arguments.push(Bytes::from(value).into());
            }
        }
        arguments
    }
}

/// An entry of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id.
    pub position: FeedPosition,
    /// Names and values.
    fields: Vec<(Bytes, Bytes)>,
}

impl StreamEntry {
    /// The change.
    ///
    /// # Errors
    /// If the entry is not one of ours.
    pub fn message(&self) -> Result<FeedMessage<'_>, RecordError> {
        FeedMessage::from_fields(self.fields())
    }

    /// The entry that it follows.
    ///
    /// # Errors
    /// If the entry is not one of ours.
    pub fn previous(&self) -> Result<FeedPosition, RecordError> {
        previous(self.fields())
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

impl Redis {
    /// Appends messages, all or none, unless the fence or a loss in Redis forbids it. If Redis is full, the older half of the
    /// stream is dropped once to make room.
    pub async fn append(
        &self,
        order: &Append<'_>,
        messages: &[FeedMessage<'_>],
    ) -> Result<Appended, RedisError> {
        let run = ScriptCall {
            keys: vec![FEED_STREAM.to_owned(), STATE_KEY.to_owned()],
            arguments: order.arguments(messages, self.feed_length, self.feed_bytes),
        };
        let client = self.in_background();
        match measured("append", APPEND.run(&client, &run)).await {
            Err(error) if error.is_full() => {
                self.trim_to_half().await?;
                appended(measured("append", APPEND.run(&client, &run)).await?)
            }
            result => appended(result?),
        }
    }

    /// Drops the older half of the stream.
    pub(super) async fn trim_to_half(&self) -> Result<(), RedisError> {
        let client = self.in_background();
        let length: i64 = measured("trim", client.xlen(FEED_STREAM)).await?;
        let cap = (XCapKind::MaxLen, XCapTrim::Exact, length / 2, None);
        tracing::warn!(length, "Redis is full; dropping the older half of the feed");
        measured("trim", client.xtrim::<(), _, _>(FEED_STREAM, cap)).await
    }

    /// The state that the publisher has written to Redis; `None` if there is none.
    pub async fn stored_state(&self) -> Result<Option<StoredState>, RedisError> {
        let client = self.in_background();
        let call = client.hgetall::<HashMap<String, String>, _>(STATE_KEY);
        let mut fields = measured("state", call).await?;
        let Some(installation) = fields.remove("installation") else {
            return Ok(None);
        };
        let number = |name| fields.get(name).and_then(|text| text.parse().ok());
        Ok(Some(StoredState {
            installation,
            token: number("token").unwrap_or(0),
            generation: number("generation").unwrap_or(0),
            // The name is from the time when caches dropped everything for skipped numbers only.
            flushed_in: number("skipped_in").unwrap_or(0),
            drawn: Drawn {
                allocated: number("allocated").unwrap_or(0),
                sum: number("sum").unwrap_or(0),
                counted: number("counted").unwrap_or(0),
                counts: number("counts").unwrap_or(0),
            },
            owner: fields.remove("owner").unwrap_or_default(),
            nodes: fields.remove("nodes").unwrap_or_default(),
        }))
    }

    /// The position of the newest entry; the start if there is none.
    pub async fn newest(&self) -> Result<FeedPosition, RedisError> {
        let client = self.in_background();
        let call = client.xrevrange::<Value, _, _, _>(FEED_STREAM, "+", "-", Some(1));
        let newest = entries(measured("newest", call).await?)?.pop();
        Ok(newest.map_or(FeedPosition::START, |entry| entry.position))
    }

    /// The entries after `after`; waits for one for up to [`MAX_BLOCK`]. One caller at a time.
    pub async fn read_feed(
        &self,
        after: FeedPosition,
        limit: u64,
    ) -> Result<Vec<StreamEntry>, RedisError> {
        let block = u64::try_from(MAX_BLOCK.as_millis()).ok();
        let client = self.reader.with_options(&options(MAX_BLOCK * 2));
        let call = client.xread::<Value, _, _>(Some(limit), block, FEED_STREAM, after.to_string());
        let streams = measured("read_feed", call).await?;
        let streams: Vec<(String, Value)> = streams.convert().map_err(|_| MALFORMED)?;
        let stream = streams.into_iter().next();
        stream.map_or(Ok(Vec::new()), |(_, stream)| entries(stream))
    }
}

const MALFORMED: RedisError = RedisError::Malformed("the entries of the feed");

fn appended(value: Value) -> Result<Appended, RedisError> {
    const MALFORMED: RedisError = RedisError::Malformed("an append");
    let (word, about): (String, String) = value.convert().map_err(|_| MALFORMED)?;
    match word.as_str() {
        "appended" => Ok(Appended::At(about.parse().map_err(|_| MALFORMED)?)),
        "fenced" => Ok(Appended::Fenced(about.parse().map_err(|_| MALFORMED)?)),
        "gone back" => Ok(Appended::GoneBack(about)),
        "foreign" => Ok(Appended::Foreign(about)),
        _ => Err(MALFORMED),
    }
}

/// Parses entries, each an id followed by alternating names and values.
fn entries(value: Value) -> Result<Vec<StreamEntry>, RedisError> {
    let entries: Vec<(String, Vec<(Bytes, Bytes)>)> = value.convert().map_err(|_| MALFORMED)?;
    let entry = |(id, fields): (String, _)| match id.parse() {
        Ok(position) => Ok(StreamEntry { position, fields }),
        Err(_) => Err(MALFORMED),
    };
    entries.into_iter().map(entry).collect()
}
