//! Signatures of messages, by the rules of Standard Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use edgelink_store::SigningKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Prefix of displayed secrets.
const PREFIX: &str = "whsec_";

/// Generates a secret.
///
/// # Errors
/// There is no source of randomness.
pub fn new_secret() -> Result<SigningKey, getrandom::Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(SigningKey(secret))
}

/// The secret in the form for receivers.
pub fn secret_text(secret: &SigningKey) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret.0))
}

/// The header `webhook-signature`: an HMAC-SHA256 over id, timestamp (unix seconds) and body by each of these secrets.
pub(super) fn signatures<'s>(
    secrets: impl IntoIterator<Item = &'s SigningKey>,
    id: &str,
    timestamp: u64,
    body: &str,
) -> String {
    let sign = |secret: &SigningKey| {
        // HMAC fills a key that is shorter than a block with zeros (RFC 2104, section 2).
        let mut key = [0; 64];
        key[..secret.0.len()].copy_from_slice(&secret.0);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    let signatures: Vec<String> = secrets.into_iter().map(sign).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed with Python's hmac module.
    #[test]
    fn signature_when_computed_elsewhere_is_equal() {
        let secret = SigningKey(std::array::from_fn(|index| index as u8));
        let text = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        assert_eq!(secret_text(&secret), text);
        let signature = "v1,AMaOha7DUT/0J0JMycRuYOBSvbx3WtwLd2khXXbaVj4=";
        let signed = signatures([&secret], "msg_1", 1_700_000_000, r#"{"a":1}"#);
        assert_eq!(signed, signature);
    }
}
