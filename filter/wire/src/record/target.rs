//! Targets: what may stand in a `Location` header.

use crate::error::RecordError;

/// The longest target in bytes. Browsers and proxies take header lines of about 8 KiB; there is no use in storing more.
pub const MAX_URL_LENGTH: usize = 8000;

/// Whether `url` may stand in a record, and so in a `Location` header: 1 to [`MAX_URL_LENGTH`] visible ASCII bytes.
#[must_use]
pub fn is_target(url: &[u8]) -> bool {
    let (words, rest) = url.as_chunks();
    !url.is_empty()
        && url.len() <= MAX_URL_LENGTH
        && words
            .iter()
            .all(|word| are_visible(u64::from_le_bytes(*word)))
        && rest.iter().all(u8::is_ascii_graphic)
}

/// Whether all eight bytes of a word are visible ASCII, `!` to `~`. In the highest bit of each byte: what is not ASCII has it
/// set; with 0x5f added, what is at least `!` gets it; with 1 added, DEL gets it. Sums of ASCII carry into no other byte.
fn are_visible(word: u64) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = 0x80 * EACH;
    word & HIGHEST == 0 && (word + 0x5f * EACH) & HIGHEST == HIGHEST && (word + EACH) & HIGHEST == 0
}

/// Reads a target.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, RecordError> {
    if !is_target(bytes) {
        return Err(RecordError::Url);
    }
    std::str::from_utf8(bytes).map_err(|_| RecordError::Url)
}
