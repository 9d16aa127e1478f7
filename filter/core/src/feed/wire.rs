//! The commands of the feed's reader, and how their replies are taken apart.

use super::FeedPosition;
use crate::resp::{Reply, encode};
use edgelink_wire::redis::FEED_STREAM;

/// Names and values of an entry.
pub(super) fn pairs(fields: Reply<'_>) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut strings = fields.array().into_iter().flatten().map_while(Reply::bulk);
    std::iter::from_fn(move || Some((strings.next()?, strings.next()?)))
}

/// The elements of an array of exactly `N`.
pub(super) fn elements<const N: usize>(reply: Reply<'_>) -> Option<[Reply<'_>; N]> {
    let mut array = reply.array().filter(|array| array.len() == N)?;
    let mut elements = [Reply::Null; N];
    for element in &mut elements {
        *element = array.next()?;
    }
    Some(elements)
}

/// Whether an error says that nothing was ever written to the feed.
pub(super) fn is_no_stream(message: &[u8]) -> bool {
    message.starts_with(b"ERR no such key")
}

/// Asks what the stream holds.
pub(super) fn write_info(out: &mut Vec<u8>) {
    encode::words(&[b"XINFO", b"STREAM", FEED_STREAM.as_bytes()], out);
}

/// Asks for what follows an entry, and waits for it.
pub(super) fn write_read(block_ms: u64, batch: u32, from: FeedPosition, out: &mut Vec<u8>) {
    encode::command(8, out);
    encode::argument(b"XREAD", out);
    encode::argument(b"BLOCK", out);
    encode::number(block_ms, out);
    encode::argument(b"COUNT", out);
    encode::number(u64::from(batch), out);
    encode::argument(b"STREAMS", out);
    encode::argument(FEED_STREAM.as_bytes(), out);
    encode::argument(from.to_string().as_bytes(), out);
}
