//! Batches of clicks, as workers report them (`POST /edge/v1/clicks`).
//!
//! A batch has the worker that counted it and a number that grows by one with every batch of that worker, so that it
//! counts once however often it is sent.
//!
//! Layout, numbers as unsigned LEB128, texts behind their length: version (1 byte), how many batches, and each batch as
//!
//! | what | bytes |
//! |---|---|
//! | worker | 16 |
//! | seq, at, total, dropped | 4 numbers |
//! | how many links | 1 number |
//! | each link: key, clicks | text, 1 number |
//! | from version 2 on: undescribed | 1 number |
//! | from version 2 on: [`events`] | behind their length |
//!
//! Batches without events, of which no click is undescribed, are written as version 1.
//!
//! The clicks of a batch are those of its links and those of its events, which are no orphan visits. What a worker has lost is
//! known to the click: once all of its batches are taken, `total` and `dropped` are those of the one with the highest seq, and
//!
//! - the sum of the clicks of all batches that were taken is `total - dropped`;
//! - the events among them are that sum without the sum of `undescribed`, and without the clicks that were to have no
//!   attributes: of visitors who have opted out, or because none are asked for.

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

/// The most links in one batch as it is closed. One whose events have become counts may have [`MAX_EVENTS`] more.
pub const MAX_LINKS: usize = 2048;

/// The media type of encoded batches.
pub const MEDIA_TYPE: &str = "application/vnd.edgelink.clicks";

/// The header of a report in which an edge gives its [name](edge_name).
pub const EDGE_HEADER: &str = "x-edgelink-edge";

/// The header of a report with the time at which it is sent, by the clock that the batches have: unix time in seconds.
pub const SENT_AT_HEADER: &str = "x-edgelink-sent-at";

/// The longest name of an edge in bytes.
pub const MAX_EDGE_NAME: usize = 64;

/// The name of an edge; `None` if these bytes are none: it has 1 to [`MAX_EDGE_NAME`] printable ASCII characters.
#[must_use]
pub fn edge_name(bytes: &[u8]) -> Option<&str> {
    let is_short = (1..=MAX_EDGE_NAME).contains(&bytes.len());
    let is_printable = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let name = std::str::from_utf8(bytes).ok()?;
    (is_short && is_printable).then_some(name)
}

/// Names a worker: random, drawn by every VM.
pub type WorkerId = [u8; 16];

/// The clicks that one worker counted since its last batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClickBatch<'a> {
    /// The worker that counted.
    pub worker: WorkerId,
    /// 1 for the first batch of the worker, one more for each further one.
    pub seq: u64,
    /// When the batch was closed: unix time in seconds on the worker's clock.
    pub at: u64,
    /// All clicks that the worker has had by then, those of this batch and the dropped ones included.
    pub total: u64,
    /// All clicks that the worker has given up by then, because they were not taken in time.
    pub dropped: u64,
    /// The links, `{domain}/{code}`, each once, and how often each was followed, without the events.
    pub clicks: Vec<(&'a str, u64)>,
    /// So many of the clicks of the links have lost their attributes, because there were too many. It is no running number: a batch
    /// that is dropped takes it along.
    pub undescribed: u64,
    /// Clicks one by one, each of which counts once, and orphan visits.
    pub events: BatchEvents<'a>,
}

/// The encoded events of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchEvents<'a> {
    /// The bytes, for [`Events::decode`]; empty for none.
    pub bytes: &'a [u8],
    /// How many of the events are clicks, and not orphan visits.
    pub clicks: u64,
}

impl<'a> BatchEvents<'a> {
    /// The events in these bytes, all of which are read for it.
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
    /// The clicks of this batch; at most `u64::MAX`.
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
/// The [`RecordError`] that says what is wrong. More than [`MAX_BATCHES`] batches, or more than [`MAX_LINKS`] and [`MAX_EVENTS`] links in one of them,
/// are an error.
pub fn decode(bytes: &[u8]) -> Result<Vec<ClickBatch<'_>>, RecordError> {
    decode_with(bytes, BatchEvents::of)
}

/// The same without reading the events, whose number of clicks is left 0: for those who read them themselves.
///
/// # Errors
/// As [`decode`], but for those of the events.
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

/// A token of a visitor on a day: SipHash-2-4 (Aumasson, Bernstein: "SipHash", 2012) of address and user agent under the key of that day.
/// Of an IPv6 address the first 64 bits count. Without the key, which is forgotten after the day, it says nothing of either.
#[must_use]
pub fn visitor_token(key: &VisitorSecret, address: IpAddr, user_agent: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    let token = hash_visitor(&mut hasher, address, user_agent);
    // It has the key.
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
    fn what_is_no_body_is_refused() {
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
    fn as_many_batches_and_links_as_allowed_are_read() {
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
    fn an_edge_has_a_short_name_that_can_be_printed() {
        let longest = "x".repeat(MAX_EDGE_NAME);
        for name in ["edge-1", " ", "~", &longest] {
            assert_eq!(edge_name(name.as_bytes()), Some(name));
        }
        for name in ["", "a\nb", "\x7f", "\u{e4}", &format!("{longest}x")] {
            assert_eq!(edge_name(name.as_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn the_sum_of_a_batch_never_wraps() {
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
        fn batches_read_back(
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
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
            let _ = decode(&[&[EVENTS, 1], &bytes[..]].concat());
        }
    }
}
