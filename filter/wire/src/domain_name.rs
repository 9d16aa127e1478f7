//! Names of domains as people write them: in Unicode, which is Punycode inside (UTS #46).

use crate::domain::{Domain, DomainError};
use idna::AsciiDenyList;
use std::borrow::Cow;

/// Parses a host with an optional port, in Unicode or Punycode.
///
/// # Errors
/// The [`DomainError`] that says which rule is broken.
pub fn parse(text: &str) -> Result<Domain, DomainError> {
    if text.is_ascii() {
        return Domain::parse(text);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let host = ascii(host).ok_or(DomainError::Host)?;
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    Domain::parse(&format!("{host}{port}"))
}

/// A host name in Punycode; `None` if it is not one.
#[must_use]
pub fn ascii(host: &str) -> Option<Cow<'_, str>> {
    if host.is_ascii() {
        return Some(host.into());
    }
    // As parsers of URLs do.
    idna::domain_to_ascii_cow(host.as_bytes(), AsciiDenyList::URL).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_when_in_unicode_is_punycode_inside() {
        for (text, name) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example:8080", "xn--bcher-kva.example:8080"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("\u{1f98a}\u{1f4bb}.ws", "xn--3s8h30f.ws"),
            ("go.example", "go.example"),
        ] {
            assert_eq!(parse(text).unwrap().as_str(), name, "{text}");
        }
    }

    #[test]
    fn name_when_malformed_is_refused() {
        for text in [
            "bü cher.example",
            "bücher.example/x",
            "bücher.example:http",
            "ü".repeat(300).as_str(),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
