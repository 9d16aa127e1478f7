//! The stream of changes in Redis.

use super::scripts::Run;
use super::{Redis, RedisError, measured, options};
use bytes::Bytes;
use edgelink_wire::feed::{FeedMessage, previous};
use edgelink_wire::redis::{FEED_STREAM, STATE_KEY};
use edgelink_wire::{FeedPosition, RecordError};
use fred::interfaces::{ClientLike, HashesInterface, StreamsInterface};
use fred::types::Value;
use fred::types::streams::{XCapKind, XCapTrim};
use std::time::Duration;

/// The longest time for which a reader is blocked.
pub(super) const MAX_BLOCK: Duration = Duration::from_secs(1);

/// Who appends, and what has to be true of Redis.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The newest token of the publisher.
    pub token: u64,
    /// The name of the publisher.
    pub owner: &'a str,
    /// The name of the database.
    pub installation: &'a str,
    /// The generation that is published in.
    pub generation: u64,
    /// The last entry of the generation that is known to be published; the start if none is.
    pub after: FeedPosition,
    /// Whether this begins the generation: then nothing has to be there.
    pub begins: bool,
    /// With which generation numbers were skipped last; noted if this begins the generation, as caches are told of it then.
    pub skipped_in: u64,
    /// If a beat is appended: its number, and the nodes that Redis consists of.
    pub beat: Option<(u64, &'a str)>,
}

/// What became of messages that were to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// They are on the stream, the last of them at this position.
    At(FeedPosition),
    /// A publisher with this newer token writes there.
    Fenced(u64),
    /// Redis does not have what was written to it last; what shows it.
    GoneBack(String),
    /// Another installation, of this name, writes there.
    Foreign(String),
}

/// What the publisher has written to Redis last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// The name of the database that it is of.
    pub installation: String,
    /// The fencing token.
    pub token: u64,
    /// The publisher that had it.
    pub owner: String,
    /// The generation.
    pub generation: u64,
    /// The number of the last beat.
    pub number: u64,
    /// The nodes that Redis consisted of at the last beat.
    pub nodes: String,
    /// With which generation numbers were skipped last, as far as those who read the feed here were told.
    pub skipped_in: u64,
}

impl Append<'_> {
    fn arguments(&self, messages: &[FeedMessage<'_>], length: u64, bytes: u64) -> Vec<Value> {
        let (number, nodes) = self.beat.map_or((String::new(), ""), |(number, nodes)| {
            (number.to_string(), nodes)
        });
        let mut arguments: Vec<Value> = vec![
            self.token.to_string().into(),
            self.owner.into(),
            self.installation.into(),
            self.generation.to_string().into(),
            self.after.to_string().into(),
            (if self.begins { "1" } else { "0" }).into(),
            number.into(),
            nodes.into(),
            length.to_string().into(),
            bytes.to_string().into(),
            self.skipped_in.to_string().into(),
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
    /// Where the entry is not one of ours.
    pub fn message(&self) -> Result<FeedMessage<'_>, RecordError> {
        FeedMessage::from_fields(self.fields())
    }

    /// The entry that it follows.
    ///
    /// # Errors
    /// Where the entry is not one of ours.
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
    /// Appends messages, all of them or none, unless the fence, or what Redis has lost, forbids it. A Redis that is full is
    /// given room once, by dropping the older half of the stream.
    ///
    /// # Errors
    /// If Redis does not answer, and then they may be appended; or if it refuses to.
    pub async fn append(
        &self,
        order: &Append<'_>,
        messages: &[FeedMessage<'_>],
    ) -> Result<Appended, RedisError> {
        match self.try_append(order, messages).await {
            Err(RedisError::Refused(error)) if is_full(&error) => {
                self.trim_to_half().await?;
                self.try_append(order, messages).await
            }
            result => result,
        }
    }

    async fn try_append(
        &self,
        order: &Append<'_>,
        messages: &[FeedMessage<'_>],
    ) -> Result<Appended, RedisError> {
        let run = Run {
            keys: vec![FEED_STREAM.to_owned(), STATE_KEY.to_owned()],
            arguments: order.arguments(messages, self.feed_length, self.feed_bytes),
        };
        let options = self.in_background();
        let call = self.scripts.append.run(&self.commands, &options, run);
        appended(measured("append", call).await?)
    }

    /// Drops the older half of the stream.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn trim_to_half(&self) -> Result<(), RedisError> {
        let client = self.commands.with_options(&self.in_background());
        let length: i64 = measured("trim", client.xlen(FEED_STREAM)).await?;
        let cap = (XCapKind::MaxLen, XCapTrim::Exact, length / 2, None);
        tracing::warn!(
            length,
            "Redis is full: the older half of the feed is dropped"
        );
        measured("trim", client.xtrim::<(), _, _>(FEED_STREAM, cap)).await
    }

    /// What the publisher has written to Redis last; `None` if nothing.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn stored_state(&self) -> Result<Option<StoredState>, RedisError> {
        const FIELDS: [&str; 7] = [
            "installation",
            "token",
            "owner",
            "generation",
            "number",
            "nodes",
            "skipped_in",
        ];
        let client = self.commands.with_options(&self.in_background());
        let call = client.hmget::<Vec<Option<String>>, _, _>(STATE_KEY, FIELDS.to_vec());
        let values = measured("state", call).await?;
        let [
            installation,
            token,
            owner,
            generation,
            number,
            nodes,
            skipped_in,
        ] = <[Option<String>; FIELDS.len()]>::try_from(values)
            .map_err(|_| RedisError::Malformed("the state of the feed"))?;
        let number_of = |text: Option<String>| text.and_then(|text| text.parse().ok());
        Ok(installation.map(|installation| StoredState {
            installation,
            token: number_of(token).unwrap_or(0),
            owner: owner.unwrap_or_default(),
            generation: number_of(generation).unwrap_or(0),
            number: number_of(number).unwrap_or(0),
            nodes: nodes.unwrap_or_default(),
            skipped_in: number_of(skipped_in).unwrap_or(0),
        }))
    }

    /// The position of the newest entry; the start where there is none.
    ///
    /// # Errors
    /// Where Redis does not answer.
    pub async fn newest(&self) -> Result<FeedPosition, RedisError> {
        let client = self.commands.with_options(&self.in_background());
        let call = client.xrevrange::<Value, _, _, _>(FEED_STREAM, "+", "-", Some(1));
        let entries = entries(measured("newest", call).await?)?;
        Ok(entries
            .first()
            .map_or(FeedPosition::START, |entry| entry.position))
    }

    /// The entries behind `after`; waits for one for up to [`MAX_BLOCK`]. Only one caller at a time.
    ///
    /// # Errors
    /// Where Redis does not answer.
    pub async fn read_feed(
        &self,
        after: FeedPosition,
        limit: u64,
    ) -> Result<Vec<StreamEntry>, RedisError> {
        let block = u64::try_from(MAX_BLOCK.as_millis()).ok();
        let client = self.reader.with_options(&options(MAX_BLOCK * 2));
        let call = client.xread::<Value, _, _>(Some(limit), block, FEED_STREAM, after.to_string());
        let Value::Array(streams) = measured("read_feed", call).await? else {
            return Ok(Vec::new());
        };
        let Some(Value::Array(mut stream)) = streams.into_iter().next() else {
            return Err(MALFORMED);
        };
        stream.pop().map_or(Err(MALFORMED), entries)
    }
}

const MALFORMED: RedisError = RedisError::Malformed("the entries of the feed");

/// Whether Redis has no memory left, by itself or as a script was told.
pub(crate) fn is_full(error: &fred::error::Error) -> bool {
    error.details().contains("OOM ")
}

fn appended(value: Value) -> Result<Appended, RedisError> {
    const MALFORMED: RedisError = RedisError::Malformed("an append");
    let words: Vec<String> = value.convert().map_err(|_| MALFORMED)?;
    let [word, about] = <[String; 2]>::try_from(words).map_err(|_| MALFORMED)?;
    match word.as_str() {
        "appended" => Ok(Appended::At(about.parse().map_err(|_| MALFORMED)?)),
        "fenced" => Ok(Appended::Fenced(about.parse().map_err(|_| MALFORMED)?)),
        "gone back" => Ok(Appended::GoneBack(about)),
        "foreign" => Ok(Appended::Foreign(about)),
        _ => Err(MALFORMED),
    }
}

fn entries(value: Value) -> Result<Vec<StreamEntry>, RedisError> {
    let Value::Array(entries) = value else {
        return Err(MALFORMED);
    };
    entries.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Result<StreamEntry, RedisError> {
    let Value::Array(parts) = value else {
        return Err(MALFORMED);
    };
    let [id, fields] = <[Value; 2]>::try_from(parts).map_err(|_| MALFORMED)?;
    let flat: Vec<Bytes> = fields.convert().map_err(|_| MALFORMED)?;
    let pair = |pair: &[Bytes]| match pair {
        [name, value] => Some((name.clone(), value.clone())),
        _ => None,
    };
    Ok(StreamEntry {
        position: position(&id)?,
        fields: flat
            .chunks(2)
            .map(pair)
            .collect::<Option<_>>()
            .ok_or(MALFORMED)?,
    })
}

fn position(value: &Value) -> Result<FeedPosition, RedisError> {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or(MALFORMED)
}
