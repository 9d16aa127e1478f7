//! Targets of links: the bytes permitted in a `Location` header, and, with the feature `targets`, [`TargetUrl`]: the parsed URL
//! that the control plane and the console check by [`TargetRules`]. Edges receive checked targets, and have no URL parser.

#[cfg(feature = "targets")]
mod host_pattern;
#[cfg(feature = "targets")]
mod url;

#[cfg(feature = "targets")]
pub use self::url::{TargetError, TargetRules, TargetUrl};
#[cfg(feature = "targets")]
pub use host_pattern::HostPattern;

use crate::error::RecordError;

/// The longest target in bytes. Browsers and proxies accept header lines of about 8 KiB, so a longer target would be useless.
pub const MAX_URL_LENGTH: usize = 8000;

/// True if `url` is valid in a record, and so in a `Location` header: 1 to [`MAX_URL_LENGTH`] visible ASCII bytes.
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

/// True if all eight bytes of a word are visible ASCII, `!` to `~`. The highest bit of each byte tells: it is set in non-ASCII
/// bytes; adding 0x5f sets it in bytes from `!` on; adding 1 sets it in DEL. Sums of ASCII bytes do not carry into other bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_when_a_byte_is_not_visible_ascii_is_refused() {
        for byte in 0..=u8::MAX {
            for at in 0..19 {
                let mut url = [b'a'; 19];
                url[at] = byte;
                assert_eq!(is_target(&url), byte.is_ascii_graphic(), "{byte} at {at}");
            }
        }
        for (length, is) in [(0, false), (1, true), (8000, true), (8001, false)] {
            assert_eq!(is_target(&vec![b'~'; length]), is, "{length}");
        }
    }
}
