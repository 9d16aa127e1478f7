//! The stream of changes in Redis.

use super::scripts::Run;
use super::{Redis, RedisError, measured, options};
use bytes::Bytes;
use edgelink_wire::feed::{FeedMessage, previous};
use edgelink_wire::redis::FEED_STREAM;
use edgelink_wire::{FeedPosition, RecordError};
use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::Value;
use std::time::Duration;

/// The longest time for which a reader is blocked.
pub(super) const MAX_BLOCK: Duration = Duration::from_secs(1);

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
    /// Appends changes, all of them or none, and answers the position of the last one.
    ///
    /// # Errors
    /// Where Redis does not answer; they may be appended then.
    pub async fn append(&self, messages: &[FeedMessage<'_>]) -> Result<FeedPosition, RedisError> {
        let mut arguments: Vec<Value> = vec![self.feed_length.to_string().into()];
        for message in messages {
            let fields = message.to_fields();
            arguments.push((fields.len() * 2).to_string().into());
            for (name, value) in fields {
                arguments.push(name.into());
                arguments.push(Bytes::from(value).into());
            }
        }
        let run = Run {
            keys: vec![FEED_STREAM.to_owned()],
            arguments,
        };
        let options = self.in_background();
        let call = self.scripts.append.run(&self.commands, &options, run);
        position(&measured("append", call).await?)
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
