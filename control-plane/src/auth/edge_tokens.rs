//! The tokens of the edges.

use crate::config::Secret;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The tokens that edges may send; several at once while they are being rotated.
#[derive(Clone)]
pub(crate) struct EdgeTokens(Vec<[u8; 32]>);

impl EdgeTokens {
    pub(crate) fn new(tokens: &[Secret]) -> Self {
        Self(tokens.iter().map(|token| hash(token.expose())).collect())
    }

    /// Whether `token` is one of them. Hashes are compared, and all of them, so that the time tells neither length nor
    /// place of a difference.
    pub(crate) fn contains(&self, token: &str) -> bool {
        let token = hash(token);
        self.0
            .iter()
            .fold(Choice::from(0), |found, known| found | known.ct_eq(&token))
            .into()
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_of_a_rotation_is_known_and_no_other() {
        let tokens = EdgeTokens::new(&[Secret::new("old-token"), Secret::new("new-token")]);
        assert!(tokens.contains("old-token"));
        assert!(tokens.contains("new-token"));
        for other in ["", "old-toke", "old-token ", "OLD-TOKEN"] {
            assert!(!tokens.contains(other), "{other}");
        }
        assert!(!EdgeTokens::new(&[]).contains(""));
    }
}
