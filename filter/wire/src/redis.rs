//! Links in Redis: a hash per link, whose key contains the generation of the feed, and a hash with the state of the feed.
//!
//! An answer of Redis counts only while that Redis is current: the state of the feed in the same Redis has the generation of the
//! feed, and a beat that is not older than the last one on the feed. When Redis may have lost writes (a failover, a restored
//! backup, an empty restart), the publisher begins a new generation, and writes of earlier generations become unreachable.

use crate::error::RecordError;
use crate::record::{LinkRecord, LinkState, Record, RedirectStatus};
use crate::target;

/// The stream that changes travel on.
pub const FEED_STREAM: &str = "feed";

/// The key of the hash with the state of the feed, in the slot of [`FEED_STREAM`].
pub const STATE_KEY: &str = "{feed}:state";

/// The fields of the state that readers ask for, in the order in which [`FeedState::from_values`] takes their values. The
/// publisher keeps its fencing token (`token`) there as well.
pub const STATE_FIELDS: [&str; 2] = ["generation", "number"];

/// The prefix of the key of a link's hash; the generation, a colon and `{domain}/{code}` follow.
pub const LINK_PREFIX: &str = "link:";

/// The fields of a link's hash, in the order in which [`record_from_values`] takes their values. A link with an extension
/// ([`crate::record::Extension`]) has only `rev` and `record`, the encoded record: readers that do not know `record` find the
/// other fields missing, and ask the next tier.
pub const LINK_FIELDS: [&str; 8] = [
    "url",
    "redirect",
    "state",
    "valid_since",
    "valid_until",
    "forward_query",
    "rev",
    "record",
];

const ABSENT: &str = "absent";

/// Numbers of up to this many digits cannot overflow 64 bits.
const SAFE_DIGITS: usize = 19;

/// The Redis key of a link's hash in a generation: `link:{generation}:{domain}/{code}`.
#[must_use]
pub fn link_key(generation: u64, key: &str) -> String {
    format!("{LINK_PREFIX}{generation}:{key}")
}

/// Milliseconds for which answers of a Redis Cluster count after all its masters were seen unchanged: the publisher's progress is
/// stored on one of them only, and another master may have restarted with less data than before. A restarted master refuses
/// commands for 2 s (`CLUSTER_WRITABLE_DELAY` in Redis's `cluster_legacy.c`), and a replica takes over after
/// `cluster-node-timeout`, which must be longer.
pub const CLUSTER_LASTS_MILLIS: u64 = 1_800;

/// Progress of the publisher in a Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// The generation being written.
    pub generation: u64,
    /// The number of the last beat ([`crate::feed::Beat::number`]).
    pub number: u64,
}

impl FeedState {
    /// Reads the answer to `HMGET {feed}:state` with [`STATE_FIELDS`]. `None` if the publisher has written nothing there, or the
    /// values are malformed.
    #[must_use]
    pub fn from_values(values: &[Option<&[u8]>; STATE_FIELDS.len()]) -> Option<Self> {
        let [generation, number] = *values;
        Some(Self {
            generation: decimal(generation?)?,
            number: decimal(number?)?,
        })
    }

    /// True if this Redis has every change on the feed up to the beat `number` of `generation`.
    #[must_use]
    pub fn covers(&self, generation: u64, number: u64) -> bool {
        self.generation == generation && self.number >= number
    }
}

/// The fields and values of a record, without unset ones.
#[must_use]
pub fn record_to_fields<U: AsRef<str>, B: AsRef<[u8]>>(
    record: &Record<U, B>,
) -> Vec<(&'static str, Vec<u8>)> {
    let text = |name: &'static str, value: String| (name, value.into_bytes());
    let rev = text("rev", record.rev().to_string());
    let Record::Link(link) = record else {
        return vec![text("state", ABSENT.to_owned()), rev];
    };
    if !link.extension.as_ref().is_empty() {
        return vec![rev, ("record", record.to_bytes())];
    }
    let mut fields = vec![
        text("url", link.url.as_ref().to_owned()),
        text("redirect", link.redirect.code().to_string()),
        text("state", link.state.as_str().to_owned()),
        text("forward_query", u8::from(link.forward_query).to_string()),
        rev,
    ];
    let times = [
        ("valid_since", link.valid_since),
        ("valid_until", link.valid_until),
    ];
    fields.extend(
        times
            .into_iter()
            .filter_map(|(name, time)| Some(text(name, time?.to_string()))),
    );
    fields
}

/// Reads the answer to `HMGET link:... LINK_FIELDS`. `Ok(None)` if no field is set: the key is not in Redis, and the link may
/// still exist.
///
/// # Errors
/// [`RecordError::Field`] names the field that is missing or malformed.
pub fn record_from_values<'a>(
    values: &[Option<&'a [u8]>; LINK_FIELDS.len()],
) -> Result<Option<Record<&'a str>>, RecordError> {
    let [
        url,
        redirect,
        state,
        valid_since,
        valid_until,
        forward_query,
        rev,
        record,
    ] = *values;
    if values.iter().all(Option::is_none) {
        return Ok(None);
    }
    let rev = number("rev", rev)?.ok_or(RecordError::Field("rev"))?;
    if let Some(record) = record {
        return match Record::decode(record) {
            Ok(record) if record.rev() == rev => Ok(Some(record)),
            _ => Err(RecordError::Field("record")),
        };
    }
    let state = state.ok_or(RecordError::Field("state"))?;
    if state == ABSENT.as_bytes() {
        return Ok(Some(Record::Absent { rev }));
    }
    Ok(Some(Record::Link(LinkRecord {
        url: url
            .and_then(|url| target::decode(url).ok())
            .ok_or(RecordError::Field("url"))?,
        redirect: number("redirect", redirect)?
            .and_then(|code| RedirectStatus::from_code(u16::try_from(code).ok()?))
            .ok_or(RecordError::Field("redirect"))?,
        state: LinkState::named(state).ok_or(RecordError::Field("state"))?,
        valid_since: number("valid_since", valid_since)?,
        valid_until: number("valid_until", valid_until)?,
        forward_query: match forward_query {
            Some(b"0") => false,
            Some(b"1") => true,
            _ => return Err(RecordError::Field("forward_query")),
        },
        rev,
        extension: &[],
    })))
}

fn number(name: &'static str, value: Option<&[u8]>) -> Result<Option<u64>, RecordError> {
    value
        .map(|digits| decimal(digits).ok_or(RecordError::Field(name)))
        .transpose()
}

/// Parses digits and nothing else; `parse` would scan them twice and accept a leading '+', which is never written. Steps that
/// cannot overflow are not checked, because checks are slow on wasm.
fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.checked_sub(b'0').filter(|digit| *digit < 10);
    let (safe, rest) = digits
        .split_at_checked(SAFE_DIGITS)
        .unwrap_or((digits, &[]));
    let mut value = 0;
    for byte in safe {
        value = value * 10 + u64::from(digit(byte)?);
    }
    for byte in rest {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit(byte)?))?;
    }
    (!digits.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::any_record;
    use proptest::prelude::*;

    fn values<'a>(fields: &'a [(&str, Vec<u8>)]) -> [Option<&'a [u8]>; LINK_FIELDS.len()] {
        LINK_FIELDS.map(|name| {
            let (_, value) = fields.iter().find(|(field, _)| *field == name)?;
            Some(value.as_slice())
        })
    }

    fn a_link() -> Vec<(&'static str, Vec<u8>)> {
        record_to_fields(&Record::Link(LinkRecord {
            valid_since: Some(1),
            valid_until: Some(2),
            ..LinkRecord::ordinary("https://example.com/", 3)
        }))
    }

    #[test]
    fn record_when_not_in_redis_is_none() {
        assert_eq!(record_from_values(&[None; 8]), Ok(None));
    }

    #[test]
    fn feed_state_when_beat_is_reached_covers_it() {
        let state = FeedState::from_values(&[Some(b"5"), Some(b"7")]).unwrap();
        assert!(state.covers(5, 7) && state.covers(5, 6));
        assert!(!state.covers(5, 8) && !state.covers(4, 7) && !state.covers(6, 1));
        for values in [
            [None, None],
            [Some(&b"5"[..]), None],
            [None, Some(&b"7"[..])],
            [Some(&b"5"[..]), Some(&b""[..])],
            [Some(&b"-1"[..]), Some(&b"7"[..])],
        ] {
            assert_eq!(FeedState::from_values(&values), None, "{values:?}");
        }
        assert_eq!(link_key(5, "a.example/x"), "link:5:a.example/x");
    }

    #[test]
    fn record_when_field_is_malformed_names_it() {
        for (name, value) in [
            ("url", "no url"),
            ("url", ""),
            ("redirect", "200"),
            ("redirect", "65838"),
            ("state", "deleted"),
            ("valid_since", "-1"),
            ("valid_until", "+1"),
            ("valid_until", "18446744073709551616"),
            ("valid_until", "000000000000000000000000000x"),
            ("forward_query", "yes"),
            ("rev", ""),
        ] {
            let mut fields = a_link();
            fields
                .iter_mut()
                .find(|(field, _)| *field == name)
                .unwrap()
                .1 = value.as_bytes().to_owned();
            let read = record_from_values(&values(&fields));
            assert_eq!(read, Err(RecordError::Field(name)), "{name}={value}");
        }
    }

    #[test]
    fn record_when_bytes_are_of_another_revision_is_refused() {
        let record = |bytes: &[u8]| {
            let bytes = bytes.to_owned();
            let fields = [("rev", b"3".to_vec()), ("record", bytes)];
            record_from_values(&values(&fields)).map(|record| record.map(|record| record.rev()))
        };
        let bytes = |rev| Record::<&str>::Absent { rev }.to_bytes();
        assert_eq!(record(&bytes(3)), Ok(Some(3)));
        for malformed in [&bytes(4)[..], b"", b"x"] {
            assert_eq!(record(malformed), Err(RecordError::Field("record")));
        }
    }

    #[test]
    fn record_when_field_is_missing_names_it() {
        for name in ["url", "redirect", "state", "forward_query", "rev"] {
            let fields: Vec<_> = a_link()
                .into_iter()
                .filter(|(field, _)| *field != name)
                .collect();
            assert_eq!(
                record_from_values(&values(&fields)),
                Err(RecordError::Field(name))
            );
        }
    }

    proptest! {
        #[test]
        fn record_when_written_and_read_is_equal(record in any_record()) {
            let fields = record_to_fields(&record);
            let read = record_from_values(&values(&fields)).unwrap().unwrap();
            prop_assert_eq!(read.to_owned_record(), record);
        }
    }
}
