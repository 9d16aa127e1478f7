//! Batches of feed messages, as answered by the control plane's long poll (`GET /edge/v1/feed`).
//!
//! Layout of version 2, numbers as unsigned LEB128, texts and messages behind their length:
//!
//! | what | bytes |
//! |---|---|
//! | version, 2 | 1 |
//! | flags: bit 0 gap, the rest reserved | 1 |
//! | generation of the feed | 1 number |
//! | age, and wait: milliseconds | 2 numbers |
//! | next position: milliseconds, sequence | 2 numbers |
//! | number of messages | 1 number |
//! | each message | its length, then its fields: name and value as bytes, each behind its length, up to the end |
//!
//! An unknown or malformed message does not affect the others: an error takes its place.
//!
//! A worker names itself in the header [`POLLER_HEADER`] of each poll. The position after which a poll asks acknowledges everything up
//! to it: the worker has applied it. Older edges send no such header, and older control planes ignore it.

use crate::error::RecordError;
use crate::feed::{FeedMessage, FeedPosition};
use crate::varint;

const VERSION: u8 = 2;
const GAP: u8 = 1;

/// The header in which a worker names itself to acknowledge what it has applied: 32 hexadecimal digits in lower case.
pub const POLLER_HEADER: &str = "x-edgelink-poller";

/// The most messages in one batch.
pub const MAX_MESSAGES: usize = 4096;

/// The size of a batch, in bytes, from which on no further message is added. The last message may exceed it.
pub const MAX_BYTES: usize = 1 << 20;

/// The head of a batch, in front of its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedBatchHead {
    /// The generation of the feed, which changes when the publisher cannot continue where it stopped: positions of two
    /// generations cannot be compared.
    pub generation: u64,
    /// Age of the feed, in milliseconds: every change that was committed longer ago than that when the answer was made is in this
    /// batch, or in an earlier one.
    pub age_millis: u64,
    /// Time that the request waited at the control plane, in milliseconds: a lower bound of the time between request and answer.
    pub waited_millis: u64,
    /// The position to continue from.
    pub next: FeedPosition,
    /// Set if messages between the requested position and the first message are missing: every record that was cached before is
    /// stale. If a flush is known to be among them, it is the first message.
    pub gap: bool,
}

/// The changes behind a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedBatch<'a> {
    /// The head.
    pub head: FeedBatchHead,
    /// The changes, oldest first; a message that cannot be read is an error.
    pub messages: Vec<Result<FeedMessage<'a>, RecordError>>,
}

impl<'a> FeedBatch<'a> {
    /// The media type of an encoded batch.
    pub const MEDIA_TYPE: &'static str = "application/vnd.edgelink.feed";

    /// Encodes a batch of messages.
    #[must_use]
    pub fn encode<'m>(
        head: FeedBatchHead,
        messages: impl ExactSizeIterator<Item = &'m FeedMessage<'m>>,
    ) -> Vec<u8> {
        let mut out = Self::encode_head(head, messages.len());
        for message in messages {
            varint::write_bytes(&encode_message(message), &mut out);
        }
        out
    }

    /// Encodes a batch of messages encoded by [`encode_message`].
    #[must_use]
    pub fn encode_encoded<'m>(
        head: FeedBatchHead,
        messages: impl ExactSizeIterator<Item = &'m [u8]>,
    ) -> Vec<u8> {
        let mut out = Self::encode_head(head, messages.len());
        out.append(&mut Self::encode_messages(messages));
        out
    }

    /// Encodes the head of a batch with this number of messages.
    #[must_use]
    pub fn encode_head(head: FeedBatchHead, messages: usize) -> Vec<u8> {
        let mut out = vec![VERSION, if head.gap { GAP } else { 0 }];
        let numbers = [
            head.generation,
            head.age_millis,
            head.waited_millis,
            head.next.millis,
            head.next.sequence,
            messages as u64,
        ];
        for number in numbers {
            varint::write(number, &mut out);
        }
        out
    }

    /// Encodes the part behind the head: messages encoded by [`encode_message`].
    #[must_use]
    pub fn encode_messages<'m>(messages: impl Iterator<Item = &'m [u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages {
            varint::write_bytes(message, &mut out);
        }
        out
    }

    /// Reads a batch that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong with the batch as a whole.
    pub fn decode(mut bytes: &'a [u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let [flags] = varint::read_array(input)?;
        if flags & !GAP != 0 {
            return Err(RecordError::Flags(flags));
        }
        let head = FeedBatchHead {
            generation: varint::read(input)?,
            age_millis: varint::read(input)?,
            waited_millis: varint::read(input)?,
            next: FeedPosition::new(varint::read(input)?, varint::read(input)?),
            gap: flags & GAP != 0,
        };
        let count = varint::read(input)?;
        if count > MAX_MESSAGES as u64 {
            return Err(RecordError::Field("messages"));
        }
        let messages = (0..count)
            .map(|_| varint::read_bytes(input).map(decode_message))
            .collect::<Result<_, _>>()?;
        varint::expect_end(input)?;
        Ok(Self { head, messages })
    }
}

/// Encodes a message for a batch.
#[must_use]
pub fn encode_message(message: &FeedMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in message.to_fields() {
        varint::write_bytes(name.as_bytes(), &mut out);
        varint::write_bytes(&value, &mut out);
    }
    out
}

/// Reads one message of a batch.
fn decode_message(mut bytes: &[u8]) -> Result<FeedMessage<'_>, RecordError> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let name = varint::read_bytes(&mut bytes)?;
        fields.push((name, varint::read_bytes(&mut bytes)?));
    }
    FeedMessage::from_fields(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordBytes;
    use crate::record::tests::any_record;
    use proptest::prelude::*;

    #[test]
    fn feed_batch_when_a_message_is_malformed_keeps_others() {
        let flush = encode_message(&FeedMessage::Flush);
        let messages = [&flush[..], b"\x02op\x06upsert", b"\x07", &flush[..]];
        let bytes = FeedBatch::encode_encoded(FeedBatchHead::default(), messages.into_iter());
        let batch = FeedBatch::decode(&bytes).unwrap();
        let expected = vec![
            Ok(FeedMessage::Flush),
            Err(RecordError::Field("op")),
            Err(RecordError::Truncated),
            Ok(FeedMessage::Flush),
        ];
        assert_eq!(batch.messages, expected);
    }

    #[test]
    fn feed_batch_when_malformed_is_refused() {
        for (bytes, error) in [
            (&b""[..], RecordError::Truncated),
            (b"\x01\x00\x00\x00\x00", RecordError::Version(1)),
            (b"\x02\x02\x00\x00\x00\x00\x00\x00", RecordError::Flags(2)),
            (b"\x02\x00\x00\x00\x00\x00\x00", RecordError::Truncated),
            (b"\x02\x00\x00\x00\x00\x00\x00\x01", RecordError::Truncated),
            (
                b"\x02\x00\x00\x00\x00\x00\x00\x01\x05x",
                RecordError::Truncated,
            ),
            (b"\x02\x00\x00\x00\x00\x00\x00\x00x", RecordError::Trailing),
            (
                b"\x02\x00\x00\x00\x00\x00\x00\x81\x20",
                RecordError::Field("messages"),
            ),
        ] {
            assert_eq!(FeedBatch::decode(bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn feed_batch_when_encoded_and_decoded_is_equal(
            records in prop::collection::vec((any_record(), any::<bool>()), 0..5),
            millis: u64,
            sequence: u64,
            generation: u64,
            age_millis: u64,
            waited_millis: u64,
            gap: bool,
        ) {
            let records: Vec<_> = records.iter().map(|(record, hot)| (RecordBytes::of(&record.as_deref()), *hot)).collect();
            let messages: Vec<FeedMessage<'_>> = records
                .iter()
                .map(|(record, hot)| FeedMessage::Put { key: "a.example/b", record: record.as_deref(), hot: *hot })
                .collect();
            let head = FeedBatchHead { generation, age_millis, waited_millis, next: FeedPosition::new(millis, sequence), gap };
            let bytes = FeedBatch::encode(head, messages.iter());
            let batch = FeedBatch { head, messages: messages.iter().copied().map(Ok).collect() };
            prop_assert_eq!(FeedBatch::decode(&bytes), Ok(batch));
        }

        #[test]
        fn feed_batch_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = FeedBatch::decode(&bytes);
            let _ = FeedBatch::decode(&[&[VERSION, 0], &bytes[..]].concat());
        }
    }
}
