//! Batches of clicks, as workers report them (`POST /edge/v1/clicks`).
//!
//! A batch has the worker that counted it and a number that grows by one with every batch of that worker, so that it
//! counts once however often it is sent.
//!
//! Layout of version 1, numbers as unsigned LEB128, texts behind their length: version (1 byte), how many batches, and
//! each batch as
//!
//! | what | bytes |
//! |---|---|
//! | worker | 16 |
//! | seq, at, total, dropped | 4 numbers |
//! | how many links | 1 number |
//! | each link: key, clicks | text, 1 number |

use crate::error::RecordError;
use crate::varint;

const VERSION: u8 = 1;

/// The most batches in one request.
pub const MAX_BATCHES: usize = 64;

/// The most links in one batch.
pub const MAX_LINKS: usize = 2048;

/// The media type of encoded batches.
pub const MEDIA_TYPE: &str = "application/vnd.edgelink.clicks";

/// Names a worker: random, drawn by every VM.
pub type WorkerId = [u8; 16];

/// The clicks that one worker counted since its last batch.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The links, `{domain}/{code}`, each once, and how often each was followed.
    pub clicks: Vec<(&'a str, u64)>,
}

impl<'a> ClickBatch<'a> {
    /// The clicks of this batch; at most `u64::MAX`.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.clicks
            .iter()
            .fold(0, |sum, (_, clicks)| sum.saturating_add(*clicks))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.worker);
        for number in [self.seq, self.at, self.total, self.dropped] {
            varint::write(number, out);
        }
        varint::write(self.clicks.len() as u64, out);
        for (key, clicks) in &self.clicks {
            varint::write_bytes(key.as_bytes(), out);
            varint::write(*clicks, out);
        }
    }

    fn decode(input: &mut &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self {
            worker: varint::read_array(input)?,
            seq: varint::read(input)?,
            at: varint::read(input)?,
            total: varint::read(input)?,
            dropped: varint::read(input)?,
            clicks: decode_clicks(input)?,
        })
    }
}

fn decode_clicks<'a>(input: &mut &'a [u8]) -> Result<Vec<(&'a str, u64)>, RecordError> {
    let count = bounded("clicks", varint::read(input)?, MAX_LINKS)?;
    (0..count)
        .map(|_| Ok((varint::read_text(input, "key")?, varint::read(input)?)))
        .collect()
}

/// Encodes batches into the body of one request.
#[must_use]
pub fn encode(batches: &[ClickBatch<'_>]) -> Vec<u8> {
    let mut out = vec![VERSION];
    varint::write(batches.len() as u64, &mut out);
    for batch in batches {
        batch.encode(&mut out);
    }
    out
}

/// Reads the body of a request.
///
/// # Errors
/// The [`RecordError`] that says what is wrong. More than [`MAX_BATCHES`] batches, or [`MAX_LINKS`] links in one of them,
/// are an error.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<ClickBatch<'_>>, RecordError> {
    let input = &mut bytes;
    varint::read_version(input, VERSION)?;
    let count = bounded("batches", varint::read(input)?, MAX_BATCHES)?;
    let batches = (0..count)
        .map(|_| ClickBatch::decode(input))
        .collect::<Result<_, _>>()?;
    varint::expect_end(input)?;
    Ok(batches)
}

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
            (b"\x02\x00", RecordError::Version(2)),
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
        let too_many = [&one[..], b"\x81\x10"].concat();
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
        };
        let batches = vec![batch; MAX_BATCHES];
        assert_eq!(decode(&encode(&batches)), Ok(batches));
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
                    ClickBatch { worker, seq, at, total, dropped, clicks: clicks.clone() }
                })
                .collect();
            let bytes = encode(&batches);
            prop_assert_eq!(decode(&bytes), Ok(batches));
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
            let _ = decode(&[&[VERSION, 1], &bytes[..]].concat());
        }
    }
}
