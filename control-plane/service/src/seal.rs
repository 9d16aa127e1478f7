//! Seals texts that clients keep and send back, so that clients can neither read nor forge them.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Length of the tag in front of a sealed text, which proves that it is ours. A truncated hash resists length extension.
const TAG_BYTES: usize = 16;

/// The bytes of a hash.
const BLOCK_BYTES: usize = 32;

const TAG: u8 = 0;
const STREAM: u8 = 1;

/// A seal that all control planes of a database share.
///
/// The tag is a hash of key and text, and the text is combined with a stream of hashes of key and tag (as SIV does, RFC 5297):
/// equal texts have equal seals, and a seal reveals nothing else but the length of the text.
#[derive(Clone, Debug)]
pub(crate) struct Seal([u8; BLOCK_BYTES]);

impl Seal {
    /// The seal of a secret.
    pub(crate) fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// The sealed text, in hexadecimal digits.
    pub(crate) fn seal(&self, text: &str) -> String {
        let tag = self.tag(text.as_bytes());
        let text = self.combine(tag, text.as_bytes());
        hex::encode(tag) + &hex::encode(text)
    }

    /// The text of an output of [`Seal::seal`]; `None` for any other text.
    pub(crate) fn open(&self, sealed: &str) -> Option<String> {
        let sealed = hex::decode(sealed).ok()?;
        let (tag, text) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let text = self.combine(*tag, text);
        let is_ours: bool = self.tag(&text).ct_eq(tag).into();
        String::from_utf8(text).ok().filter(|_| is_ours)
    }

    fn tag(&self, text: &[u8]) -> [u8; TAG_BYTES] {
        let hash = self.hash(TAG, text);
        std::array::from_fn(|at| hash[at])
    }

    fn combine(&self, tag: [u8; TAG_BYTES], text: &[u8]) -> Vec<u8> {
        let blocks = text.chunks(BLOCK_BYTES).zip(0_u64..);
        let combined = blocks.flat_map(|(block, number)| {
            let stream = self.hash(STREAM, &[&tag[..], &number.to_be_bytes()].concat());
            block
                .iter()
                .zip(stream)
                .map(|(byte, with)| byte ^ with)
                .collect::<Vec<_>>()
        });
        combined.collect()
    }

    fn hash(&self, purpose: u8, bytes: &[u8]) -> [u8; BLOCK_BYTES] {
        let hash = Sha256::new().chain_update(self.0).chain_update([purpose]);
        hash.chain_update(bytes).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sealed_text_when_changed_or_foreign_is_refused() {
        let seal = Seal::new("secret");
        let sealed = seal.seal("abc");
        assert_eq!(seal.open(&sealed).as_deref(), Some("abc"));
        assert_eq!(Seal::new("another").open(&sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(seal.open(&changed), None, "{changed}");
            assert_eq!(seal.open(&sealed[..at]), None);
        }
        assert_eq!(seal.open("ä"), None);
    }

    #[test]
    fn sealed_text_when_shown_hides_its_beginning() {
        let seal = Seal::new("secret");
        let (one, other) = (seal.seal("abcd"), seal.seal("abce"));
        assert_ne!(one[..2 * TAG_BYTES + 6], other[..2 * TAG_BYTES + 6]);
        assert_ne!(
            one[2 * TAG_BYTES..2 * TAG_BYTES + 6],
            other[2 * TAG_BYTES..2 * TAG_BYTES + 6]
        );
    }

    proptest! {
        #[test]
        fn sealed_text_when_opened_is_equal(text in "\\PC{0,200}") {
            let seal = Seal::new("secret");
            prop_assert_eq!(seal.open(&seal.seal(&text)), Some(text));
        }
    }
}
