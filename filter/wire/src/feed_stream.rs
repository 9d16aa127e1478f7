//! The feed as a stream, `POST` [`PATH`] over HTTP/2: what the answer and the body of the request consist of, both without an end.
//!
//! The query is the one of a poll, and its answer the first frame: a [batch](crate::feed_batch) behind its length. From then on an
//! edge acknowledges each frame once it has applied it, by generation and position, and gets what follows as the next one: at once
//! where a change comes, and an empty batch after `waitMs`. So a frame is what a poll after that position would have got, with a wait
//! that counts from the acknowledgement, and there is never more than one on its way. All numbers are unsigned LEB128.

use crate::error::RecordError;
use crate::feed::{FeedPoint, FeedPosition};
use crate::varint;

/// The path.
pub const PATH: &str = "/edge/v1/feed/stream";

/// The media type of the answer.
pub const MEDIA_TYPE: &str = "application/vnd.edgelink.feed-stream";

/// Maximum length of an acknowledgement, in bytes.
pub const MAX_ACKNOWLEDGEMENT: usize = 3 * varint::MOST_BYTES;

/// Appends an acknowledgement of everything up to a point.
pub fn write_acknowledgement((generation, position): FeedPoint, out: &mut Vec<u8>) {
    for number in [generation, position.millis, position.sequence] {
        varint::write(number, out);
    }
}

/// Takes an acknowledgement off the front of `input`; `None` if more bytes are needed.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read_acknowledgement(input: &mut &[u8]) -> Result<Option<FeedPoint>, RecordError> {
    whole(input, |rest| {
        let generation = varint::read(rest)?;
        let position = FeedPosition::new(varint::read(rest)?, varint::read(rest)?);
        Ok((generation, position))
    })
}

/// What comes before a batch of `length` bytes in its frame.
#[must_use]
pub fn frame_head(length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(varint::MOST_BYTES);
    varint::write(length as u64, &mut head);
    head
}

/// Takes a frame off the front of `input`, and returns its batch; `None` if more bytes are needed.
///
/// # Errors
/// It is malformed, or its batch is longer than `limit` bytes.
pub fn read_frame<'a>(input: &mut &'a [u8], limit: usize) -> Result<Option<&'a [u8]>, RecordError> {
    let mut rest = *input;
    match whole(&mut rest, varint::read)? {
        None => Ok(None),
        Some(length) if length > limit as u64 => Err(RecordError::Field("length")),
        Some(_) => whole(input, varint::read_bytes),
    }
}

/// Reads by `read`; `None`, with nothing taken, if `input` ends before the value.
fn whole<'a, T>(
    input: &mut &'a [u8],
    read: impl FnOnce(&mut &'a [u8]) -> Result<T, RecordError>,
) -> Result<Option<T>, RecordError> {
    let mut rest = *input;
    match read(&mut rest) {
        Ok(value) => {
            *input = rest;
            Ok(Some(value))
        }
        Err(RecordError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn acknowledgement_when_cut_off_is_awaited() {
        let point = (300, FeedPosition::new(1_767_225_600_000, 3));
        let mut bytes = Vec::new();
        write_acknowledgement(point, &mut bytes);
        assert!(bytes.len() <= MAX_ACKNOWLEDGEMENT);
        for length in 0..bytes.len() {
            let mut input = &bytes[..length];
            assert_eq!(read_acknowledgement(&mut input), Ok(None));
            assert_eq!(input.len(), length, "nothing is taken");
        }
        bytes.push(7);
        let mut input = &bytes[..];
        assert_eq!(read_acknowledgement(&mut input), Ok(Some(point)));
        assert_eq!(input, [7]);
        assert!(read_acknowledgement(&mut &b"\x80\x00"[..]).is_err());
    }

    #[test]
    fn frame_when_longer_than_allowed_is_refused() {
        let batch = [0; 200];
        let bytes = [&frame_head(batch.len())[..], &batch, b"next"].concat();
        let mut input = &bytes[..];
        assert_eq!(read_frame(&mut input, 200), Ok(Some(&batch[..])));
        assert_eq!(input, b"next");
        assert!(read_frame(&mut &bytes[..], 199).is_err());
        // Before all of it is there.
        assert!(read_frame(&mut &bytes[..2], 199).is_err());
        for length in [0, 1, 2, 201] {
            assert_eq!(read_frame(&mut &bytes[..length], 200), Ok(None));
        }
    }

    proptest! {
        #[test]
        fn stream_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read_acknowledgement(&mut &bytes[..]);
            let _ = read_frame(&mut &bytes[..], 30);
        }
    }
}
