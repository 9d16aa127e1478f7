//! Attributes of a visitor from the headers and query of a request, read by the same functions at edge and control plane.

use super::events::{MAX_TEXT, UTM};
use crate::code::is_reserved;
use crate::query::{decoded, parameters};
use std::ops::{Range, RangeInclusive};

crate::choice! {
    /// An attribute of a click that can be reported.
    pub enum Attribute {
        /// Two letters of ISO 3166-1.
        Country = "country",
        /// The name of the city.
        City = "city",
        /// The header `User-Agent`.
        UserAgent = "userAgent",
        /// The host of the header `Referer`.
        Referrer = "referrer",
        /// The first language of the header `Accept-Language`.
        Language = "language",
        /// UTM parameters of the visitor's query.
        Utm = "utm",
        /// The index of the rule that chose the target.
        Rule = "rule",
        /// The token that identifies a visitor within a day.
        Visitor = "visitor",
    }
}

/// The longest host of a referrer; a longer one is ignored.
pub const MAX_HOST: usize = 253;

/// The longest language tag (RFC 5646, section 4.4.1); a longer one is ignored.
const MAX_LANGUAGE: usize = 35;

/// Number of bytes of a query that are searched for parameters.
const MAX_QUERY: usize = 8_192;

const UTM_NAMES: [&[u8]; UTM] = [b"source", b"medium", b"campaign", b"term", b"content"];

/// Bit set of the lengths of the header names that [`is_prefetch`] recognizes.
pub const PREFETCH_LENGTHS: u32 = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 11;

/// The lengths of the values that [`is_prefetch`] looks at. Browsers send a word or two.
pub const PREFETCH_VALUES: RangeInclusive<u32> = 7..=64;

/// The first letter of the header names of this length that [`is_prefetch`] recognizes.
#[must_use]
#[inline(always)]
pub fn prefetch_initial(length: u32) -> u8 {
    match length {
        7 => b'p',
        11 => b's',
        _ => b'x',
    }
}

/// True if a header marks a prefetch, prerender or preview: such a request is not a click. The name is in lower case.
/// `Sec-Purpose` is from the Fetch standard; `Purpose`, `X-Purpose` and `X-Moz` are sent by older browsers.
#[must_use]
pub fn is_prefetch(name: &[u8], value: &[u8]) -> bool {
    const WORDS: [&[u8]; 3] = [b"prefetch", b"prerender", b"preview"];
    let is_purpose = matches!(name, b"sec-purpose" | b"purpose" | b"x-purpose" | b"x-moz");
    let is_short = u32::try_from(value.len()).is_ok_and(|length| PREFETCH_VALUES.contains(&length));
    let mut words = value.split(|byte| !byte.is_ascii_alphabetic());
    is_purpose
        && is_short
        && words.any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// True if a header opts the visitor out of tracking: `DNT: 1` or `Sec-GPC: 1` (Global Privacy Control). The name is in lower
/// case.
#[must_use]
pub fn is_opt_out(name: &[u8], value: &[u8]) -> bool {
    matches!(name, b"dnt" | b"sec-gpc") && value == b"1"
}

/// True if a path without a link may count as an orphan visit: it is neither reserved, nor requested by clients on their own
/// (`robots.txt`, `favicon.ico`, dot files), nor a preview (`code+`) or another page for visitors (`/+/...`).
#[must_use]
pub fn is_orphan(path: &[u8]) -> bool {
    const BY_THEMSELVES: [&[u8]; 2] = [b"robots.txt", b"favicon.ico"];
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?');
    let segment = path.strip_prefix(b"/");
    let segment = segment.and_then(|path| path.split(is_end).next());
    segment.is_some_and(|segment| {
        !is_reserved(segment)
            && !segment.starts_with(b".")
            && !segment.ends_with(b"+")
            && !BY_THEMSELVES.contains(&segment)
    })
}

/// The country in a trusted header, in upper case; `None` if it is not two letters.
#[must_use]
pub fn country(value: &[u8]) -> Option<[u8; 2]> {
    let letters: [u8; 2] = value.try_into().ok()?;
    let is_country = letters.iter().all(u8::is_ascii_alphabetic);
    is_country.then(|| letters.map(|letter| letter.to_ascii_uppercase()))
}

/// The first language tag of an `Accept-Language`, unchanged; empty if there is none.
#[must_use]
pub fn language(value: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b',' | b';');
    let first = value.split(is_end).next().unwrap_or_default();
    let tag = first.trim_ascii();
    let is_tag = tag.first().is_some_and(u8::is_ascii_alphabetic)
        && tag.len() <= MAX_LANGUAGE
        && tag
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    if is_tag { tag } else { &[] }
}

/// The host of a `Referer`, without its port, in lower case; `None` if it has none, or the host is `own`, the domain of the link,
/// whose port is ignored. `room` is a buffer for the result.
#[must_use]
pub fn referrer<'a>(value: &'a [u8], own: &[u8], room: &'a mut [u8; MAX_HOST]) -> Option<&'a [u8]> {
    let scheme = value.iter().take(32).position(|byte| *byte == b':')?;
    let rest = value.get(scheme..)?.strip_prefix(b"://")?;
    let (mut start, mut end) = (0, rest.len());
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            b'/' | b'?' | b'#' => {
                end = at;
                break;
            }
            b'@' => start = at + 1,
            _ => {}
        }
    }
    let host = without_port(rest.get(start..end)?);
    let host = host.strip_suffix(b".").unwrap_or(host);
    let kinds = host.iter().fold(0, |all, byte| {
        all | HOST_BYTES.get(usize::from(*byte)).unwrap_or(&NOT_OF_HOST)
    });
    let is_host = !host.is_empty() && kinds & NOT_OF_HOST == 0;
    if !is_host || host.eq_ignore_ascii_case(without_port(own)) {
        return None;
    }
    if kinds & UPPER_CASE == 0 {
        return (host.len() <= MAX_HOST).then_some(host);
    }
    let room = room.get_mut(..host.len())?;
    room.copy_from_slice(host);
    room.make_ascii_lowercase();
    Some(room)
}

/// Flags of [`HOST_BYTES`].
const NOT_OF_HOST: u8 = 1;
const UPPER_CASE: u8 = 2;

/// What each byte is in a host.
#[allow(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler: out of bounds would not build"
)]
const HOST_BYTES: [u8; 256] = {
    let (mut kinds, mut byte) = ([NOT_OF_HOST; 256], 0);
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'A'..=b'Z' => UPPER_CASE,
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'[' | b':' | b']' => 0,
            _ => NOT_OF_HOST,
        };
        byte += 1;
    }
    kinds
};

fn without_port(authority: &[u8]) -> &[u8] {
    let separator = match authority.first() {
        Some(b'[') => {
            return authority
                .split_inclusive(|byte| *byte == b']')
                .next()
                .unwrap_or_default();
        }
        _ => b':',
    };
    authority
        .split(|byte| *byte == separator)
        .next()
        .unwrap_or_default()
}

/// The value of a UTM parameter that the query of a click has without a value: the target gets it so, whatever it says itself.
pub const EMPTY: &str = " ";

/// The UTM parameters of a query (without its `?`), in the order of [`super::events::Attributes::utm`], as ranges of `room`,
/// where their values are written, decoded, up to the first control character. If a name occurs twice, the last value counts. A
/// parameter that has an equals sign and no value is [`EMPTY`], unlike a missing one.
pub fn utm(query: &[u8], room: &mut Vec<u8>) -> [Range<usize>; UTM] {
    let mut found = [const { 0..0 }; UTM];
    room.clear();
    for parameter in parameters(query.get(..MAX_QUERY).unwrap_or(query)) {
        let Some(rest) = parameter.strip_prefix(b"utm_") else {
            continue;
        };
        let Some(equals) = rest.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (Some(name), Some(value)) = (rest.get(..equals), rest.get(equals + 1..)) else {
            continue;
        };
        let places = UTM_NAMES.iter().zip(&mut found);
        if let Some((_, place)) = places.into_iter().find(|(known, _)| **known == name) {
            let start = room.len();
            let text = decoded(value).take_while(|byte| !byte.is_ascii_control());
            room.extend(text.take(MAX_TEXT));
            if room.len() == start {
                room.extend(EMPTY.as_bytes());
            }
            *place = start..room.len();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefetch_when_headers_say_so_is_recognized() {
        for (name, value, expected) in [
            ("sec-purpose", "prefetch", true),
            ("sec-purpose", "prefetch;prerender", true),
            ("sec-purpose", "prefetch;anonymous-client-ip", true),
            ("purpose", "prefetch", true),
            ("x-purpose", "Preview", true),
            ("x-moz", "prefetch", true),
            ("sec-purpose", "", false),
            ("sec-purpose", "none", false),
            ("x-moz", "prefetched", false),
            ("referer", "prefetch", false),
        ] {
            assert_eq!(
                is_prefetch(name.as_bytes(), value.as_bytes()),
                expected,
                "{name}: {value}"
            );
            let is_known = PREFETCH_LENGTHS >> name.len() & 1 == 1
                && PREFETCH_VALUES.contains(&(value.len() as u32))
                && name.as_bytes()[0] == prefetch_initial(name.len() as u32);
            assert!(is_known || !expected, "{name}");
        }
    }

    #[test]
    fn opt_out_when_header_is_one_counts() {
        for (name, value, expected) in [
            ("dnt", "1", true),
            ("sec-gpc", "1", true),
            ("dnt", "0", false),
            ("sec-gpc", "?1", false),
            ("x-dnt", "1", false),
        ] {
            assert_eq!(
                is_opt_out(name.as_bytes(), value.as_bytes()),
                expected,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn path_when_of_host_or_browser_is_no_orphan() {
        for (path, expected) in [
            ("/no.link", true),
            ("/a/b?c", true),
            ("/", true),
            ("/robots.txt", false),
            ("/favicon.ico?v=1", false),
            ("/.well-known/x", false),
            ("/api/v1/links", false),
            ("/code+", false),
            ("/+/report?code=a", false),
            ("/a+b", true),
            ("*", false),
        ] {
            assert_eq!(is_orphan(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn country_when_of_two_letters_is_upper_cased() {
        assert_eq!(country(b"de"), Some(*b"DE"));
        for value in [&b""[..], b"D", b"DEU", b"D1", b"\xc3\xa4"] {
            assert_eq!(country(value), None, "{value:?}");
        }
    }

    #[test]
    fn language_when_several_are_sent_is_the_first() {
        for (value, expected) in [
            (&b"de-DE,de;q=0.9"[..], &b"de-DE"[..]),
            (b" en ;q=0.5", b"en"),
            (b"*", b""),
            (b"", b""),
            (b",de", b""),
            (b"d\xe4", b""),
            (b"-de", b""),
            (&[b'a'; 36], b""),
        ] {
            assert_eq!(language(value), expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn referrer_when_read_is_foreign_host_in_lower_case() {
        let long = ["https://", &"a".repeat(MAX_HOST + 1)].concat();
        let long_upper = ["https://", &"A".repeat(MAX_HOST + 1)].concat();
        for (value, expected) in [
            (
                &b"https://News.Example:8443/a?b#c"[..],
                Some(&b"news.example"[..]),
            ),
            (b"http://user:secret@news.example", Some(b"news.example")),
            (b"https://news.example.?q", Some(b"news.example")),
            (b"https://[2001:DB8::1]:80/", Some(b"[2001:db8::1]")),
            (b"android-app://com.example.App/", Some(b"com.example.app")),
            (b"https://go.example/x", None),
            (b"https://GO.example:81/x", None),
            (b"https://", None),
            (b"https:///a", None),
            (b"about:blank", None),
            (b"news.example", None),
            (b"https://news example/", None),
            (b"https://n\xe4ws.example/", None),
            (b"https://news\0.example/", None),
            (long.as_bytes(), None),
            (long_upper.as_bytes(), None),
        ] {
            let mut room = [0; MAX_HOST];
            let found = referrer(value, b"go.example:8080", &mut room);
            assert_eq!(found, expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn utm_parameters_when_in_query_are_decoded() {
        let query = b"utm_term=a&x=1&utm_source=News%20letter+1&utm_source=late&utm_medium&utm_content=&utm_other=x&utm_campaign=%ff";
        let mut room = b"of before".to_vec();
        let found = utm(query, &mut room).map(|range| &room[range]);
        assert_eq!(found, [&b"late"[..], b"", b"\xff", b"a", EMPTY.as_bytes()]);
        let found = utm(b"utm_source=a%20b%00c&utm_term=%0ad", &mut room).map(|range| &room[range]);
        assert_eq!((found[0], found[3]), (&b"a b"[..], EMPTY.as_bytes()));
        let long = [b"utm_source=", &[b'a'; 9_000][..], b"&utm_term=b"].concat();
        let found = utm(&long, &mut room);
        assert_eq!(
            (found[0].len(), found[3].len()),
            (MAX_TEXT, 0),
            "it is too far behind"
        );
    }

    proptest! {
        #[test]
        fn attributes_when_values_are_arbitrary_stay_valid(value in prop::collection::vec(any::<u8>(), 0..300), own in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut room = [0; MAX_HOST];
            for value in [&value[..], &[b"https://", &value[..]].concat()] {
                if let Some(host) = referrer(value, &own, &mut room) {
                    prop_assert!(!host.is_empty() && host.is_ascii() && host.len() <= MAX_HOST);
                }
            }
            prop_assert!(language(&value).is_ascii());
            let mut room = Vec::new();
            for range in utm(&[b"utm_term=", &value[..]].concat(), &mut room) {
                prop_assert!(room.get(range).is_some());
            }
        }
    }
}
