//! The ID token, with which the provider asserts an identity, and its validation (OpenID Connect Core 1.0, section 3.1.3.7).

use super::keys::Key;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Tolerated clock skew, in seconds.
const SKEW: u64 = 60;

/// Expected values of a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// Unix seconds.
    pub(super) now: u64,
}

/// The header of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenHeader {
    pub(super) algorithm: String,
    pub(super) key_id: Option<String>,
}

impl TokenHeader {
    /// Reads the header of a token.
    pub(super) fn read(token: &str) -> Result<Self, String> {
        let [head, _, _] = parts(token)?;
        let head = object(head, "head")?;
        if head.contains_key("crit") {
            return Err("its head has extensions".to_owned());
        }
        let text = |name: &str| head.get(name).and_then(Value::as_str).map(str::to_owned);
        let algorithm = text("alg").ok_or_else(|| "its head names no algorithm".to_owned())?;
        Ok(Self {
            algorithm,
            key_id: text("kid"),
        })
    }
}

/// Verifies signature and expected values of a token, and returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Key],
    expected: &ExpectedClaims<'_>,
) -> Result<Map<String, Value>, String> {
    let head = TokenHeader::read(token)?;
    let [_, claims, signature] = parts(token)?;
    let (message, _) = token.rsplit_once('.').unwrap_or_default();
    let signature = URL_SAFE_NO_PAD.decode(signature);
    let signature = signature.map_err(|_| "its signature is not base64url".to_owned())?;
    let mut candidates = keys
        .iter()
        .filter(|key| key.may_be(head.key_id.as_deref(), &head.algorithm));
    if !candidates.any(|key| key.has_signed(&head.algorithm, message.as_bytes(), &signature)) {
        return Err(format!(
            "no key of the provider has signed it by {}",
            shown(&head.algorithm)
        ));
    }
    let claims = object(claims, "claims")?;
    check(&claims, expected)?;
    Ok(claims)
}

/// Makes a text of the provider safe to log.
fn shown(text: &str) -> String {
    let text: String = text.chars().take(40).collect();
    format!("{text:?}")
}

fn parts(token: &str) -> Result<[&str; 3], String> {
    let parts: Vec<&str> = token.split('.').collect();
    parts
        .try_into()
        .map_err(|_| "it does not have three parts".to_owned())
}

fn object(part: &str, name: &str) -> Result<Map<String, Value>, String> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok();
    let object = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    object.ok_or_else(|| format!("its {name} cannot be read"))
}

fn check(claims: &Map<String, Value>, expected: &ExpectedClaims<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("it is of another issuer".to_owned());
    }
    check_audience(claims, expected.client_id)?;
    check_times(claims, expected.now)?;
    if text("nonce") != Some(expected.nonce) {
        return Err("it is of another login: its nonce is not that one".to_owned());
    }
    Ok(())
}

fn check_audience(claims: &Map<String, Value>, client_id: &str) -> Result<(), String> {
    let audience = match claims.get("aud") {
        Some(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
        Some(value) => vec![value.as_str()],
        None => Vec::new(),
    };
    if !audience.contains(&Some(client_id)) {
        return Err("it is for another client".to_owned());
    }
    match claims.get("azp") {
        Some(party) if party.as_str() != Some(client_id) => {
            Err("it was given to another client".to_owned())
        }
        None if audience.len() > 1 => {
            Err("it is for several clients, and says not for which one".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_times(claims: &Map<String, Value>, now: u64) -> Result<(), String> {
    // A time that is no number is invalid, not absent. Some have fractions.
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(time) => time
            .as_f64()
            .map(Some)
            .ok_or_else(|| format!("its {name} is no time")),
    };
    let (now, skew) = (seconds(now), seconds(SKEW));
    match time("exp")? {
        Some(end) if end + skew > now => {}
        Some(_) => return Err("it has expired".to_owned()),
        None => return Err("it does not expire".to_owned()),
    }
    if time("iat")?.is_none_or(|issued| issued - skew > now) {
        return Err("it was not issued yet".to_owned());
    }
    if time("nbf")?.is_some_and(|begin| begin - skew > now) {
        return Err("it is not valid yet".to_owned());
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "unix seconds have 31 bits")]
fn seconds(unix: u64) -> f64 {
    unix as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;

    fn checked(change: &Value) -> Result<(), String> {
        let mut claims = json!({
            "iss": "https://login.example", "aud": "console", "nonce": "n", "exp": NOW + 10, "iat": NOW - 1, "sub": "1",
        });
        let (Value::Object(claims), Value::Object(change)) = (&mut claims, change) else {
            panic!()
        };
        for (name, value) in change {
            match value {
                Value::Null => claims.remove(name),
                value => claims.insert(name.clone(), value.clone()),
            };
        }
        let expected = ExpectedClaims {
            issuer: "https://login.example",
            client_id: "console",
            nonce: "n",
            now: NOW,
        };
        check(claims, &expected)
    }

    #[test]
    fn claims_when_of_another_provider_or_time_are_refused() {
        for good in [
            json!({}),
            json!({ "aud": ["console"] }),
            json!({ "aud": ["console", "other"], "azp": "console" }),
            json!({ "exp": NOW - SKEW + 1 }),
            json!({ "iat": NOW + SKEW, "nbf": NOW }),
            json!({ "exp": 1_800_000_000.5 }),
        ] {
            assert_eq!(checked(&good), Ok(()), "{good}");
        }
        for (wrong, reason) in [
            (json!({ "iss": "https://login.example/" }), "another issuer"),
            (json!({ "iss": null }), "another issuer"),
            (json!({ "aud": "other" }), "another client"),
            (json!({ "aud": [] }), "another client"),
            (json!({ "aud": null }), "another client"),
            (json!({ "aud": ["console", "other"] }), "several clients"),
            (
                json!({ "aud": ["console", "other"], "azp": "other" }),
                "given to another",
            ),
            (json!({ "azp": 7 }), "given to another"),
            (json!({ "nonce": "m" }), "another login"),
            (json!({ "nonce": null }), "another login"),
            (json!({ "exp": NOW - SKEW }), "has expired"),
            (json!({ "exp": null }), "does not expire"),
            (json!({ "exp": "2099" }), "exp is no time"),
            (json!({ "iat": NOW + SKEW + 1 }), "not issued yet"),
            (json!({ "iat": null }), "not issued yet"),
            (json!({ "nbf": NOW + SKEW + 1 }), "not valid yet"),
            (json!({ "nbf": [] }), "nbf is no time"),
        ] {
            let said = checked(&wrong).unwrap_err();
            assert!(said.contains(reason), "{wrong}: {said}");
        }
    }

    #[test]
    fn token_head_when_malformed_is_refused() {
        let token = |head: &str| format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(head));
        let head = TokenHeader::read(&token(r#"{"alg":"ES256","kid":"a"}"#));
        assert_eq!(
            head,
            Ok(TokenHeader {
                algorithm: "ES256".to_owned(),
                key_id: Some("a".to_owned())
            })
        );
        for wrong in [
            token("{}"),
            token("7"),
            token(r#"{"alg":7}"#),
            token(r#"{"alg":"ES256","crit":["b64"]}"#),
            "e30.e30".to_owned(),
            "?.e30.AA".to_owned(),
            String::new(),
        ] {
            assert!(TokenHeader::read(&wrong).is_err(), "{wrong}");
        }
    }
}
