//! The keys of a provider (JSON Web Keys, RFC 7517), and signatures by them (RFC 7518, RFC 8037).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;

/// A public key of the provider, with which signatures of one family are checked.
#[derive(Clone, Debug)]
pub(super) struct Key {
    id: Option<String>,
    /// The only permitted algorithm, if the key names one.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// The name of the curve and the point.
    Curve(&'static str, Vec<u8>),
}

impl Key {
    /// The keys of a set that can verify signatures; unknown kinds are ignored (RFC 7517, section 5).
    pub(super) fn all(set: &Value) -> Vec<Self> {
        let keys = set.get("keys").and_then(Value::as_array);
        keys.into_iter().flatten().filter_map(Self::read).collect()
    }

    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa(without_zeros(bytes("n")?), without_zeros(bytes("e")?)),
            ("EC", Some("P-256")) => Material::Curve("P-256", point(bytes("x")?, bytes("y")?, 32)?),
            ("EC", Some("P-384")) => Material::Curve("P-384", point(bytes("x")?, bytes("y")?, 48)?),
            ("OKP", Some("Ed25519")) => Material::Curve("Ed25519", bytes("x")?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            material,
        })
    }

    /// True if the key matches key id and algorithm of a token's header.
    pub(super) fn may_be(&self, id: Option<&str>, algorithm: &str) -> bool {
        let is_named = match (id, &self.id) {
            (Some(id), Some(own)) => id == own,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let is_for = self.algorithm.as_ref().is_none_or(|own| own == algorithm);
        is_named && is_for
    }

    /// True if the key has signed the message. The algorithm must belong to the key's family; `none` and shared-secret algorithms
    /// belong to none.
    pub(super) fn has_signed(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa(n, e) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Curve(curve, point) => of_curve(algorithm, curve).is_some_and(|by| {
                UnparsedPublicKey::new(by, point)
                    .verify(message, signature)
                    .is_ok()
            }),
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn of_curve(algorithm: &str, curve: &str) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (algorithm, curve) {
        ("ES256", "P-256") => &ECDSA_P256_SHA256_FIXED,
        ("ES384", "P-384") => &ECDSA_P384_SHA384_FIXED,
        ("EdDSA" | "Ed25519", "Ed25519") => &ED25519,
        _ => return None,
    })
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

/// Encodes an uncompressed point (SEC 1, section 2.3.3).
fn point(x: Vec<u8>, y: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [vec![4], x, y].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 7515, sections A.2 and A.3, and RFC 8037, section A.4: key, algorithm, head and claims, signature.
    fn examples() -> [(Value, &'static str, &'static str, &'static str); 3] {
        let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let message = |head: &str| -> &'static str { format!("{head}.{claims}").leak() };
        [
            (
                json!({ "kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ" }),
                "RS256",
                message("eyJhbGciOiJSUzI1NiJ9"),
                "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
            ),
            (
                json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }),
                "ES256",
                message("eyJhbGciOiJFUzI1NiJ9"),
                "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            ),
            (
                json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }),
                "EdDSA",
                "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
                "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
            ),
        ]
    }

    #[test]
    fn signature_when_changed_does_not_hold() {
        for (key, algorithm, message, signature) in examples() {
            let key = Key::read(&key).unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert!(
                key.has_signed(algorithm, message.as_bytes(), &signature),
                "{algorithm}"
            );
            assert!(!key.has_signed(algorithm, &message.as_bytes()[1..], &signature));
            let mut wrong = signature.clone();
            wrong[7] ^= 1;
            assert!(!key.has_signed(algorithm, message.as_bytes(), &wrong));
            for other in [
                "none", "", "HS256", "ES256", "RS256", "EdDSA", "ES384", "PS256",
            ] {
                let holds = key.has_signed(other, message.as_bytes(), &signature);
                assert_eq!(holds, other == algorithm, "{algorithm} as {other}");
            }
        }
    }

    #[test]
    fn key_when_of_another_use_or_kind_is_left_out() {
        let (key, ..) = examples()[1].clone();
        let with = |name: &str, value: &str| {
            let mut key = key.clone();
            key[name] = value.into();
            key
        };
        let set = json!({ "keys": [
            key, with("use", "sig"), with("use", "enc"), with("kty", "oct"), with("crv", "P-521"), with("x", "AAAA"), with("y", "?"), 7, {},
        ] });
        assert_eq!(Key::all(&set).len(), 2);
        assert!(Key::all(&json!([])).is_empty());
    }

    #[test]
    fn key_when_its_id_or_algorithm_differs_is_not_found() {
        let (mut key, ..) = examples()[1].clone();
        let plain = Key::read(&key).unwrap();
        assert!(plain.may_be(None, "ES256") && !plain.may_be(Some("a"), "ES256"));
        key["kid"] = "a".into();
        key["alg"] = "ES256".into();
        let named = Key::read(&key).unwrap();
        assert!(named.may_be(None, "ES256") && named.may_be(Some("a"), "ES256"));
        assert!(!named.may_be(Some("b"), "ES256") && !named.may_be(Some("a"), "RS256"));
    }
}
