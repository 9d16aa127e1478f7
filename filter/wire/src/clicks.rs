//! Batches of clicks, as workers report them (`POST /edge/v1/clicks`).
//!
//! A batch names the worker that counted it and has a sequence number, which grows by one with every batch of that worker, so
//! that it counts once however often it is sent.
//!
//! Layout, numbers as unsigned LEB128, texts behind their length: version (1 byte), the number of batches, and each batch as
//!
//! | what | bytes |
//! |---|---|
//! | worker | 16 |
//! | seq, at, total, dropped | 4 numbers |
//! | number of links | 1 number |
//! | each link: key, clicks | text, 1 number |
//! | from version 2 on: undescribed | 1 number |
//! | from version 2 on: [`events`] | behind their length |
//!
//! Batches without events and without undescribed clicks are written as version 1.
//!
//! The clicks of a batch are the counts of its links plus its events other than orphan visits. The losses of a worker are known
//! exactly: once all of its batches are accepted, with `total` and `dropped` from the one with the highest seq,
//!
//! - the sum of the clicks of all accepted batches is `total - dropped`;
//! - the number of events among them is that sum less the sum of `undescribed`, and less the clicks that have no attributes on
//!   purpose: because the visitor opted out, or because none are configured.

pub mod attributes;
pub mod events;
pub mod visitor_keys;

use crate::error::RecordError;
use crate::varint;
use events::{Events, Kind, MAX_EVENTS};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
pub use visitor_keys::{VisitorKey, VisitorKeys};

/// The version of batches without events.
const COUNTS: u8 = 1;

/// The version of batches with events.
const EVENTS: u8 = 2;

/// The most batches in one request.
pub const MAX_BATCHES: usize = 64;

/// The most links in a batch when it is closed. A batch whose events were turned into counts may have [`MAX_EVENTS`] more.
pub const MAX_LINKS: usize = 2048;

/// The media type of encoded batches.
pub const MEDIA_TYPE: &str = "application/vnd.edgelink.clicks";

/// The header of a report in which an edge gives its [name](edge_name).
pub const EDGE_HEADER: &str = "x-edgelink-edge";

/// The header of a report with the time at which it is sent, by the clock of the batches: unix time in seconds.
pub const SENT_AT_HEADER: &str = "x-edgelink-sent-at";

/// The longest name of an edge in bytes.
pub const MAX_EDGE_NAME: usize = 64;

/// Parses the name of an edge: 1 to [`MAX_EDGE_NAME`] printable ASCII characters; `None` if the bytes are not one.
#[must_use]
pub fn edge_name(bytes: &[u8]) -> Option<&str> {
    let is_short = (1..=MAX_EDGE_NAME).contains(&bytes.len());
    let is_printable = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let name = std::str::from_utf8(bytes).ok()?;
    (is_short && is_printable).then_some(name)
}

/// The id of a worker: random, drawn by every VM.
pub type WorkerId = [u8; 16];

/// The clicks that a worker counted since its last batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClickBatch<'a> {
    /// The worker that counted.
    pub worker: WorkerId,
    /// 1 for the first batch of the worker, one more for each further one.
    pub seq: u64,
    /// Time at which the batch was closed: unix time in seconds on the worker's clock.
    pub at: u64,
    /// All clicks counted by the worker so far, including this batch and the dropped ones.
    pub total: u64,
    /// All clicks dropped by the worker so far, because they were not accepted in time.
    pub dropped: u64,
    /// The links, `{domain}/{code}`, each once, with the number of their clicks, without the events.
    pub clicks: Vec<(&'a str, u64)>,
    /// Number of clicks of the links that lost their attributes because there were too many. It counts this batch only, and is
    /// lost with a dropped batch.
    pub undescribed: u64,
    /// Clicks one by one, each of which counts once, and orphan visits.
    pub events: BatchEvents<'a>,
}

/// The encoded events of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchEvents<'a> {
    /// The bytes, for [`Events::decode`]; empty for none.
    pub bytes: &'a [u8],
    /// Number of events that are clicks, and not orphan visits.
    pub clicks: u64,
}

impl<'a> BatchEvents<'a> {
    /// The events in these bytes, which are read in full to count the clicks.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub fn of(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut clicks = 0;
        let mut events = Events::decode(bytes)?;
        while let Some(event) = events.next_numbered() {
            clicks += u64::from(matches!(event?.kind, Kind::Redirect(_)));
        }
        Ok(Self { bytes, clicks })
    }
}

impl<'a> ClickBatch<'a> {
    /// Number of clicks in this batch; saturates at `u64::MAX`.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.clicks
            .iter()
            .fold(self.events.clicks, |sum, (_, clicks)| {
                sum.saturating_add(*clicks)
            })
    }

    fn has_events(&self) -> bool {
        self.undescribed > 0 || !self.events.bytes.is_empty()
    }

    fn encode(&self, version: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.worker);
        for number in [self.seq, self.at, self.total, self.dropped] {
            varint::write(number, out);
        }
        varint::write(self.clicks.len() as u64, out);
        for (key, clicks) in &self.clicks {
            varint::write_bytes(key.as_bytes(), out);
            varint::write(*clicks, out);
        }
        if version == EVENTS {
            varint::write(self.undescribed, out);
            varint::write_bytes(self.events.bytes, out);
        }
    }

    fn decode(
        version: u8,
        input: &mut &'a [u8],
        events: fn(&'a [u8]) -> Result<BatchEvents<'a>, RecordError>,
    ) -> Result<Self, RecordError> {
        let mut batch = Self {
            worker: varint::read_array(input)?,
            seq: varint::read(input)?,
            at: varint::read(input)?,
            total: varint::read(input)?,
            dropped: varint::read(input)?,
            clicks: decode_clicks(input)?,
            undescribed: 0,
            events: BatchEvents::default(),
        };
        if version == EVENTS {
            batch.undescribed = varint::read(input)?;
            batch.events = events(varint::read_bytes(input)?)?;
        }
        Ok(batch)
    }
}

fn decode_clicks<'a>(input: &mut &'a [u8]) -> Result<Vec<(&'a str, u64)>, RecordError> {
    let count = bounded("clicks", varint::read(input)?, MAX_LINKS + MAX_EVENTS)?;
    (0..count)
        .map(|_| Ok((varint::read_text(input, "key")?, varint::read(input)?)))
        .collect()
}

/// Encodes batches into the body of one request.
#[must_use]
pub fn encode(batches: &[ClickBatch<'_>]) -> Vec<u8> {
    let version = if batches.iter().any(ClickBatch::has_events) {
        EVENTS
    } else {
        COUNTS
    };
    let mut out = vec![version];
    varint::write(batches.len() as u64, &mut out);
    for batch in batches {
        batch.encode(version, &mut out);
    }
    out
}

/// Reads the body of a request.
///
/// # Errors
/// The [`RecordError`] that says what is wrong. More than [`MAX_BATCHES`] batches, or more than [`MAX_LINKS`] plus [`MAX_EVENTS`]
/// links in one of them, are an error.
pub fn decode(bytes: &[u8]) -> Result<Vec<ClickBatch<'_>>, RecordError> {
    decode_with(bytes, BatchEvents::of)
}

/// Reads the body of a request but for the events, whose number of clicks is left 0: for callers that read the events themselves.
///
/// # Errors
/// All those of [`decode`] except malformed events.
pub fn decode_frames(bytes: &[u8]) -> Result<Vec<ClickBatch<'_>>, RecordError> {
    decode_with(bytes, |bytes| Ok(BatchEvents { bytes, clicks: 0 }))
}

fn decode_with<'a>(
    mut bytes: &'a [u8],
    events: fn(&'a [u8]) -> Result<BatchEvents<'a>, RecordError>,
) -> Result<Vec<ClickBatch<'a>>, RecordError> {
    let input = &mut bytes;
    let [version] = varint::read_array(input)?;
    if !matches!(version, COUNTS | EVENTS) {
        return Err(RecordError::Version(version));
    }
    let count = bounded("batches", varint::read(input)?, MAX_BATCHES)?;
    let batches = (0..count)
        .map(|_| ClickBatch::decode(version, input, events))
        .collect::<Result<_, _>>()?;
    varint::expect_end(input)?;
    Ok(batches)
}

/// The token of a visitor on a day: SipHash-2-4 (Aumasson, Bernstein: "SipHash", 2012) of address and user agent under the key of
/// that day. Only the first 64 bits of an IPv6 address count. Without the key, which is erased after the day, the token reveals
/// neither.
#[must_use]
pub fn visitor_token(key: &VisitorSecret, address: IpAddr, user_agent: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    let token = hash_visitor(&mut hasher, address, user_agent);
    // The hasher holds the key.
    hasher = SipHasher24::new();
    std::hint::black_box(&hasher);
    token
}

fn hash_visitor(hasher: &mut SipHasher24, address: IpAddr, user_agent: &[u8]) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => hasher.write(&address.octets()),
        IpAddr::V6(address) => hasher.write(address.octets().first_chunk::<8>().unwrap_or(&[0; 8])),
    }
    hasher.write(user_agent);
    hasher.finish()
}

/// The secret of visitor tokens of one day.
pub type VisitorSecret = [u8; 16];

fn bounded(name: &'static str, count: u64, most: usize) -> Result<usize, RecordError> {
    usize::try_from(count)
        .ok()
        .filter(|count| *count <= most)
        .ok_or(RecordError::Field(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn body_when_malformed_is_refused() {
        for (bytes, error) in [
            (&b""[..], RecordError::Truncated),
            (b"\x03\x00", RecordError::Version(3)),
            (b"\x01", RecordError::Truncated),
            (b"\x01\x01", RecordError::Truncated),
            (b"\x01\x00x", RecordError::Trailing),
            (b"\x01\x41", RecordError::Field("batches")),
            (
                b"\x010123456789abcdef\x01\x01\x01\x00\x01\x01\xff\x01",
                RecordError::Truncated,
            ),
        ] {
            assert_eq!(decode(bytes), Err(error), "{bytes:?}");
        }
        let one = b"\x01\x010123456789abcdef\x01\x01\x01\x00";
        let not_utf8 = [&one[..], b"\x01\x01\xff\x01"].concat();
        assert_eq!(decode(&not_utf8), Err(RecordError::Field("key")));
        let too_many = [&one[..], b"\x81\x90\x01"].concat();
        assert_eq!(decode(&too_many), Err(RecordError::Field("clicks")));
    }

    #[test]
    fn body_when_batches_and_links_are_at_bound_is_read() {
        let clicks = vec![("a.example/b", 1); MAX_LINKS];
        let batch = ClickBatch {
            worker: [7; 16],
            seq: 1,
            at: 2,
            total: 3,
            dropped: 0,
            clicks,
            ..ClickBatch::default()
        };
        let batches = vec![batch; MAX_BATCHES];
        assert_eq!(decode(&encode(&batches)), Ok(batches));
    }

    #[test]
    fn edge_name_when_empty_long_or_unprintable_is_refused() {
        let longest = "x".repeat(MAX_EDGE_NAME);
        for name in ["edge-1", " ", "~", &longest] {
            assert_eq!(edge_name(name.as_bytes()), Some(name));
        }
        for name in ["", "a\nb", "\x7f", "\u{e4}", &format!("{longest}x")] {
            assert_eq!(edge_name(name.as_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn batch_sum_when_clicks_overflow_saturates() {
        let clicks = vec![("a.example/b", u64::MAX), ("a.example/c", 2)];
        let batch = ClickBatch {
            worker: [0; 16],
            seq: 1,
            at: 0,
            total: 0,
            dropped: 0,
            clicks,
            ..ClickBatch::default()
        };
        assert_eq!(batch.sum(), u64::MAX);
    }

    proptest! {
        #[test]
        fn batches_when_encoded_and_decoded_are_equal(
            heads in prop::collection::vec((any::<[u8; 16]>(), any::<[u64; 4]>()), 0..4),
            links in prop::collection::vec(("[a-z.]{1,20}/[0-9A-Za-z]{7}", any::<u64>()), 0..4),
        ) {
            let clicks: Vec<(&str, u64)> = links.iter().map(|(key, clicks)| (key.as_str(), *clicks)).collect();
            let batches: Vec<ClickBatch<'_>> = heads
                .into_iter()
                .map(|(worker, [seq, at, total, dropped])| {
                    ClickBatch { worker, seq, at, total, dropped, clicks: clicks.clone(), ..ClickBatch::default() }
                })
                .collect();
            let bytes = encode(&batches);
            prop_assert_eq!(decode(&bytes), Ok(batches));
        }

        #[test]
        fn body_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
            let _ = decode(&[&[EVENTS, 1], &bytes[..]].concat());
        }
    }
}
