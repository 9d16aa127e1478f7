//! Names of cities.

use crate::query::escaped;
use std::borrow::Cow;

/// True if two names of a city are equal, whatever the case. Proxies percent-encode the header, or send it in Latin-1.
pub(super) fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let is_plain = |text: &[u8]| text.is_ascii() && !text.contains(&b'%');
    given.eq_ignore_ascii_case(wanted)
        || !(is_plain(given) && is_plain(wanted)) && folded(given) == folded(wanted)
}

/// The name in lower case, decoded.
fn folded(name: &[u8]) -> String {
    let mut bytes = Cow::Borrowed(name);
    if name.contains(&b'%') {
        let mut rest = name;
        let decoded = std::iter::from_fn(|| {
            let (byte, tail) = rest.split_first()?;
            let (byte, tail) = match byte {
                b'%' => escaped(tail).unwrap_or((b'%', tail)),
                byte => (*byte, tail),
            };
            rest = tail;
            Some(byte)
        });
        bytes = decoded.collect::<Vec<u8>>().into();
    }
    match str::from_utf8(&bytes) {
        Ok(text) => text.to_lowercase(),
        Err(_) => bytes
            .iter()
            .flat_map(|byte| char::from(*byte).to_lowercase())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn city_when_spelled_by_another_proxy_is_the_city() {
        let wanted = "São Paulo".as_bytes();
        for given in [
            "são paulo".as_bytes(),
            "SÃO PAULO".as_bytes(),
            b"S%C3%A3o%20Paulo",
            b"S%c3%83O Paulo",
            b"S\xe3o Paulo",
        ] {
            assert!(is_same(given, wanted), "{}", given.escape_ascii());
        }
        for other in [&b"Sao Paulo"[..], b"S%C3%A3o", b"", b"%"] {
            assert!(!is_same(other, wanted), "{}", other.escape_ascii());
        }
        assert!(is_same(b"bonn", b"Bonn") && is_same(b"100%", b"100%"));
    }
}
