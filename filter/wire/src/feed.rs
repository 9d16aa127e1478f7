//! The messages of the feed, which carries changes from the control plane to the edges.
//!
//! A message is a list of fields, as an entry of the Redis stream [`crate::redis::FEED_STREAM`] has them: `op`, and by
//! `op` further ones. Values are bytes; `record` is an encoded [`Record`](crate::Record).
//!
//! | op | fields | meaning |
//! |---|---|---|
//! | `put` | `key`, `record`, `hot` where it is `1` | the link is this now; a hot one is asked for often |
//! | `del` | `key`, `rev` | there is no such link any more |
//! | `changed` | `key` | the link has changed: ask for it again |
//! | `flush` | | forget everything |
//! | `beat` | `bound`, `generation`, `number`, `at`, `age` | the publisher is up to date ([`Beat`]) |
//!
//! A message of an unknown kind, or with a record of an unknown version, is read as `changed` if it names a key: a newer control
//! plane may send messages that an older edge does not understand, and they are never ignored.
//!
//! In the stream each entry also has `prev`, the id of the entry before it ([`PREV_FIELD`]): a reader whose own position differs
//! has missed messages, because the stream was trimmed, flushed or lost, and starts over. `beat` comes about once a second, so
//! that a loss at the end of the stream is noticed too.

use crate::error::RecordError;
use crate::record::RecordBytes;
use std::fmt;
use std::str::FromStr;

/// The field of a stream entry with the id of the entry before it, `0-0` in the first one.
pub const PREV_FIELD: &str = "prev";

/// A position in the feed: the id of an entry of the Redis stream, `milliseconds-sequence`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedPosition {
    /// Unix time in milliseconds on Redis's clock, never going back.
    pub millis: u64,
    /// Orders the entries of one millisecond.
    pub sequence: u64,
}

/// A generation of the feed, and a position in it. Generation 0 is unknown.
pub type FeedPoint = (u64, FeedPosition);

impl FeedPosition {
    /// Before every entry.
    pub const START: Self = Self::new(0, 0);

    /// The position of the entry with the id `millis-sequence`.
    #[must_use]
    pub const fn new(millis: u64, sequence: u64) -> Self {
        Self { millis, sequence }
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.sequence)
    }
}

/// The text is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a position in the feed, two numbers with '-' between them")]
pub struct FeedPositionError;

impl FromStr for FeedPosition {
    type Err = FeedPositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (millis, sequence) = text.split_once('-').ok_or(FeedPositionError)?;
        Ok(Self::new(whole_number(millis)?, whole_number(sequence)?))
    }
}

fn whole_number(text: &str) -> Result<u64, FeedPositionError> {
    // `parse` would accept a leading '+'.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FeedPositionError);
    }
    text.parse().map_err(|_| FeedPositionError)
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMessage<'a> {
    /// The link of `key` is `record` now.
    Put {
        /// `{domain}/{code}`.
        key: &'a str,
        /// The link, or that it is absent.
        record: RecordBytes<&'a [u8]>,
        /// True if the link is one of the most requested ones: all workers of an edge then share it, even before a request for
        /// it. Other changes never evict a link from the shared data.
        hot: bool,
    },
    /// The link of `key` was deleted.
    Del {
        /// `{domain}/{code}`.
        key: &'a str,
        /// The revision of the deletion.
        rev: u64,
    },
    /// The link of `key` has changed in an unspecified or unknown way: it must be fetched again.
    Changed {
        /// `{domain}/{code}`.
        key: &'a str,
    },
    /// Every record in the caches is invalid.
    Flush,
    /// The publisher is up to date.
    Beat(Beat),
}

impl<'a> FeedMessage<'a> {
    /// The key of the link that has changed; `None` for other messages, and for a link that is only hot.
    #[must_use]
    pub fn changed_key(&self) -> Option<&'a str> {
        match *self {
            Self::Put {
                key, hot: false, ..
            }
            | Self::Del { key, .. }
            | Self::Changed { key } => Some(key),
            Self::Put { hot: true, .. } | Self::Flush | Self::Beat(_) => None,
        }
    }
}

/// The message, sent about once a second, with the time up to which every change is on the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The bound for admission: no number at or above it was issued.
    pub bound: u64,
    /// The generation of the feed.
    pub generation: u64,
    /// Sequence number of the beat, across all publishers of a database.
    pub number: u64,
    /// Time before which every committed change is on the feed in front of this beat: unix time in microseconds on the clock of
    /// the database. 0 in the first beat of a generation, where it is not known.
    pub at: u64,
    /// Upper bound of the age of `at` when the beat was sent, in milliseconds, by a monotonic clock: for readers that cannot
    /// compare with the database's clock.
    pub age_millis: u32,
}

impl<'a> FeedMessage<'a> {
    /// The fields and values of the message.
    #[must_use]
    pub fn to_fields(&self) -> Vec<(&'static str, Vec<u8>)> {
        let op = |name: &str| ("op", name.as_bytes().to_vec());
        let key = |key: &str| ("key", key.as_bytes().to_vec());
        match self {
            Self::Put {
                key: k,
                record,
                hot,
            } => {
                let mut fields = vec![op("put"), key(k), ("record", record.bytes.to_vec())];
                fields.extend(hot.then(|| ("hot", b"1".to_vec())));
                fields
            }
            Self::Del { key: k, rev } => {
                vec![op("del"), key(k), ("rev", rev.to_string().into_bytes())]
            }
            Self::Changed { key: k } => vec![op("changed"), key(k)],
            Self::Flush => vec![op("flush")],
            Self::Beat(beat) => {
                let number = |value: u64| value.to_string().into_bytes();
                vec![
                    op("beat"),
                    ("bound", number(beat.bound)),
                    ("generation", number(beat.generation)),
                    ("number", number(beat.number)),
                    ("at", number(beat.at)),
                    ("age", number(beat.age_millis.into())),
                ]
            }
        }
    }

    /// Reads a message from its fields. Unknown fields are ignored, so that a newer control plane may add some. A message that
    /// names a key and cannot be read otherwise is [`Self::Changed`].
    ///
    /// # Errors
    /// [`RecordError::Field`] names the field that is missing or malformed. The change is not known then.
    pub fn from_fields(
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, RecordError> {
        let mut read = MessageFields::default();
        for (name, value) in fields {
            match name {
                b"op" => read.op = Some(value),
                b"key" => read.key = Some(value),
                b"record" => read.record = Some(value),
                b"rev" => read.rev = Some(value),
                b"bound" => read.bound = Some(value),
                b"generation" => read.generation = Some(value),
                b"number" => read.number = Some(value),
                b"at" => read.at = Some(value),
                b"age" => read.age = Some(value),
                b"hot" => read.hot = value == b"1",
                _ => {}
            }
        }
        read.message().or_else(|error| {
            let key = text("key", read.key).map_err(|_| error)?;
            Ok(Self::Changed { key })
        })
    }
}

/// The known fields.
#[derive(Default)]
struct MessageFields<'a> {
    op: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    record: Option<&'a [u8]>,
    rev: Option<&'a [u8]>,
    bound: Option<&'a [u8]>,
    generation: Option<&'a [u8]>,
    number: Option<&'a [u8]>,
    at: Option<&'a [u8]>,
    age: Option<&'a [u8]>,
    hot: bool,
}

impl<'a> MessageFields<'a> {
    fn message(&self) -> Result<FeedMessage<'a>, RecordError> {
        match self.op {
            Some(b"put") => Ok(FeedMessage::Put {
                key: text("key", self.key)?,
                record: RecordBytes::decode(self.record.ok_or(RecordError::Field("record"))?)?,
                hot: self.hot,
            }),
            Some(b"del") => Ok(FeedMessage::Del {
                key: text("key", self.key)?,
                rev: number("rev", self.rev)?,
            }),
            Some(b"changed") => Ok(FeedMessage::Changed {
                key: text("key", self.key)?,
            }),
            Some(b"flush") => Ok(FeedMessage::Flush),
            Some(b"beat") => Ok(FeedMessage::Beat(Beat {
                bound: number("bound", self.bound)?,
                generation: number("generation", self.generation)?,
                number: number("number", self.number)?,
                at: number("at", self.at)?,
                age_millis: number("age", self.age)?,
            })),
            _ => Err(RecordError::Field("op")),
        }
    }
}

/// The position of the entry before an entry of the stream: its [`PREV_FIELD`].
///
/// # Errors
/// [`RecordError::Field`] if it is missing or malformed: a gap cannot be ruled out then.
pub fn previous<'a>(
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<FeedPosition, RecordError> {
    let mut fields = fields.into_iter();
    let value = fields.find(|(name, _)| *name == PREV_FIELD.as_bytes());
    text(PREV_FIELD, value.map(|(_, value)| value))?
        .parse()
        .map_err(|_| RecordError::Field(PREV_FIELD))
}

fn text<'a>(name: &'static str, value: Option<&'a [u8]>) -> Result<&'a str, RecordError> {
    value
        .and_then(|value| std::str::from_utf8(value).ok())
        .ok_or(RecordError::Field(name))
}

fn number<T: FromStr>(name: &'static str, value: Option<&[u8]>) -> Result<T, RecordError> {
    text(name, value)?
        .parse()
        .map_err(|_| RecordError::Field(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::any_record;
    use proptest::prelude::*;

    fn read<'a>(fields: &'a [(&'a str, &'a [u8])]) -> Result<FeedMessage<'a>, RecordError> {
        FeedMessage::from_fields(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
    }

    fn reads_back(message: FeedMessage<'_>) {
        let fields = message.to_fields();
        let borrowed = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()));
        assert_eq!(FeedMessage::from_fields(borrowed), Ok(message));
    }

    const BEAT: &[(&str, &[u8])] = &[
        ("op", b"beat"),
        ("bound", b"1"),
        ("generation", b"2"),
        ("number", b"3"),
        ("at", b"4"),
    ];

    #[test]
    fn feed_position_when_parsed_keeps_order_of_feed() {
        let texts = [
            "0-0",
            "0-1",
            "5-0",
            "5-10",
            "18446744073709551615-18446744073709551615",
        ];
        let positions: Vec<FeedPosition> = texts.iter().map(|text| text.parse().unwrap()).collect();
        assert!(positions.is_sorted());
        for (position, text) in positions.iter().zip(texts) {
            assert_eq!(position.to_string(), text);
        }
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            " 1-2",
            "18446744073709551616-0",
        ] {
            assert_eq!(
                text.parse::<FeedPosition>(),
                Err(FeedPositionError),
                "{text:?}"
            );
        }
    }

    #[test]
    fn feed_message_when_malformed_names_field() {
        for (fields, field) in [
            (&[][..], "op"),
            (&[("op", &b"upsert"[..])], "op"),
            (&[("op", b"del"), ("rev", b"1")], "key"),
            (&[("op", b"del"), ("key", b"\xff"), ("rev", b"1")], "key"),
            (&[("op", b"changed")], "key"),
            (&[("op", b"beat")], "bound"),
            (&[("op", b"beat"), ("bound", b"1")], "generation"),
            (&[BEAT, &[("age", b"4294967296")]].concat(), "age"),
            (BEAT, "age"),
        ] {
            assert_eq!(read(fields), Err(RecordError::Field(field)), "{fields:?}");
        }
    }

    #[test]
    fn feed_message_when_not_understood_marks_link_changed() {
        for fields in [
            &[("op", &b"upsert"[..]), ("key", b"a/b")][..],
            &[("key", b"a/b")],
            &[("op", b"del"), ("key", b"a/b"), ("rev", b"x")],
            &[("op", b"put"), ("key", b"a/b")],
            &[("op", b"put"), ("key", b"a/b"), ("record", b"\x09")],
        ] {
            let changed = FeedMessage::Changed { key: "a/b" };
            assert_eq!(read(fields), Ok(changed), "{fields:?}");
        }
    }

    #[test]
    fn feed_message_when_field_is_unknown_ignores_it() {
        let fields = [("op", &b"flush"[..]), ("why", b"because")];
        assert_eq!(read(&fields), Ok(FeedMessage::Flush));
    }

    #[test]
    fn feed_entry_when_read_names_previous_position() {
        let fields = [(&b"op"[..], &b"flush"[..]), (b"prev", b"17-3")];
        assert_eq!(previous(fields), Ok(FeedPosition::new(17, 3)));
        for value in [&b""[..], b"17", b"17-", b"x-1", b"1-\xff"] {
            let fields = [(&b"prev"[..], value)];
            assert_eq!(previous(fields), Err(RecordError::Field("prev")));
        }
        assert_eq!(previous([]), Err(RecordError::Field("prev")));
    }

    proptest! {
        #[test]
        fn feed_message_when_encoded_and_decoded_is_equal(record in any_record(), key in "[a-z.]{1,20}/[0-9A-Za-z]{7}", number: u64, age_millis: u32, hot: bool) {
            let record = RecordBytes::of(&record.as_deref());
            reads_back(FeedMessage::Put { key: &key, record: record.as_deref(), hot });
            reads_back(FeedMessage::Del { key: &key, rev: number });
            reads_back(FeedMessage::Changed { key: &key });
            reads_back(FeedMessage::Beat(Beat { bound: number, generation: !number, number: 1, at: number / 2, age_millis }));
            reads_back(FeedMessage::Flush);
        }
    }
}
