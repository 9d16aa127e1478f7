//! Several changes at once, as the control plane's long poll answers them (`GET /edge/v1/feed`).
//!
//! Layout of version 2, numbers as unsigned LEB128, texts and messages behind their length:
//!
//! | what | bytes |
//! |---|---|
//! | version, 2 | 1 |
//! | flags: bit 0 gap, the others reserved | 1 |
//! | generation of the feed | 1 number |
//! | age, and wait: milliseconds | 2 numbers |
//! | next position: milliseconds, sequence | 2 numbers |
//! | how many messages | 1 number |
//! | each message | its length, then its fields: name and value as bytes, each behind its length, up to the end |
//!
//! A message of a newer control plane, or a broken one, does not spoil the others: it is an error in its place.

use crate::error::RecordError;
use crate::feed::{FeedMessage, FeedPosition};
use crate::varint;

const VERSION: u8 = 2;
const GAP: u8 = 1;

/// The most messages in one batch.
pub const MAX_MESSAGES: usize = 4096;

/// The size of a batch, in bytes, at which no further message is put in. One message may reach over it.
pub const MAX_BYTES: usize = 1 << 20;

/// What a batch says besides its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHead {
    /// The generation of the feed, which changes when the publisher cannot continue where it stopped: positions of two
    /// generations cannot be compared.
    pub generation: u64,
    /// How old the feed is, in milliseconds: every change that was committed longer ago than that before the answer is
    /// in it, or in what was read before.
    pub age_millis: u64,
    /// How long, in milliseconds, the question waited for the answer: the answer is that much later than the question, at
    /// least.
    pub waited_millis: u64,
    /// Where to read on.
    pub next: FeedPosition,
    /// Whether something between the position that was asked for and the first message is missing: every record that was
    /// cached before is stale. If a flush is among what is missing, as far as that is known, it is the
    /// first message.
    pub gap: bool,
}

/// The changes behind a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedBatch<'a> {
    /// What is said of the batch as a whole.
    pub head: BatchHead,
    /// The changes, oldest first; an error stands for one that cannot be read.
    pub messages: Vec<Result<FeedMessage<'a>, RecordError>>,
}

impl<'a> FeedBatch<'a> {
    /// The media type of an encoded batch.
    pub const MEDIA_TYPE: &'static str = "application/vnd.edgelink.feed";

    /// Encodes a batch of messages.
    #[must_use]
    pub fn encode<'m>(
        head: BatchHead,
        messages: impl ExactSizeIterator<Item = &'m FeedMessage<'m>>,
    ) -> Vec<u8> {
        let mut out = Self::encode_head(head, messages.len());
        for message in messages {
            varint::write_bytes(&encode_message(message), &mut out);
        }
        out
    }

    /// Encodes a batch of messages that [`encode_message`] has encoded.
    #[must_use]
    pub fn encode_encoded<'m>(
        head: BatchHead,
        messages: impl ExactSizeIterator<Item = &'m [u8]>,
    ) -> Vec<u8> {
        let mut out = Self::encode_head(head, messages.len());
        out.append(&mut Self::encode_messages(messages));
        out
    }

    /// Encodes what stands in front of so many messages.
    #[must_use]
    pub fn encode_head(head: BatchHead, messages: usize) -> Vec<u8> {
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

    /// Encodes what stands behind the head: messages that [`encode_message`] has encoded.
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
        let head = BatchHead {
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

/// One message as it stands in a batch.
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
///
/// # Errors
/// As [`FeedMessage::from_fields`].
pub fn decode_message(mut bytes: &[u8]) -> Result<FeedMessage<'_>, RecordError> {
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
    use crate::record::tests::any_record;
    use proptest::prelude::*;

    #[test]
    fn a_message_that_cannot_be_read_leaves_the_others() {
        let flush = encode_message(&FeedMessage::Flush);
        let messages = [&flush[..], b"\x02op\x06upsert", b"\x07", &flush[..]];
        let bytes = FeedBatch::encode_encoded(BatchHead::default(), messages.into_iter());
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
    fn what_is_no_batch_is_refused() {
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
        fn a_batch_reads_back(
            records in prop::collection::vec((any_record(), any::<bool>()), 0..5),
            millis: u64,
            sequence: u64,
            generation: u64,
            age_millis: u64,
            waited_millis: u64,
            gap: bool,
        ) {
            let messages: Vec<FeedMessage<'_>> = records
                .iter()
                .map(|(record, hot)| FeedMessage::Put { key: "a.example/b", record: record.as_deref(), hot: *hot })
                .collect();
            let head = BatchHead { generation, age_millis, waited_millis, next: FeedPosition::new(millis, sequence), gap };
            let bytes = FeedBatch::encode(head, messages.iter());
            let batch = FeedBatch { head, messages: messages.iter().copied().map(Ok).collect() };
            prop_assert_eq!(FeedBatch::decode(&bytes), Ok(batch));
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = FeedBatch::decode(&bytes);
            let _ = FeedBatch::decode(&[&[VERSION, 0], &bytes[..]].concat());
        }
    }
}
