//! Query forwarding: merges a visitor's query into the target of a link.
//!
//! Edge and control plane both answer redirects and share this rule. Parameters are separated by `&`; the name of a parameter
//! is the part before the first `=`, form-decoded (`+` is a space).

use crate::target::MAX_URL_LENGTH;
use std::borrow::Cow;

/// The longest target after merging, in bytes: twice the longest target. Many clients refuse longer header lines.
pub const MAX_MERGED_LENGTH: usize = 2 * MAX_URL_LENGTH;

/// Merges the visitor's query (without its `?`) into the target.
///
/// Without a query the target is returned byte for byte. Otherwise the visitor's parameters replace those of the target with the
/// same name, and are appended in their order; the fragment stays last. Bytes that are invalid in a query (RFC 3986, section 3.4)
/// are percent-encoded, so the result is visible ASCII whenever the target is.
///
/// If the result would be longer than [`MAX_MERGED_LENGTH`], the target is returned without the query: a client could not read
/// the longer answer, and clients cannot make us send long ones.
#[must_use]
pub fn merge<'a>(target: &'a str, query: &[u8]) -> Cow<'a, str> {
    if query.is_empty() || query.len() > MAX_MERGED_LENGTH {
        return Cow::Borrowed(target);
    }
    let (rest, fragment) = split_before(target, &['#']);
    let (base, own) = split_before(rest, &['?']);
    let mut merged = String::with_capacity(target.len() + query.len() + 1);
    merged.push_str(base);
    merged.push('?');
    push_parameters_not_in(query, own, &mut merged);
    push_encoded(query, may_stand_in_a_query, &mut merged);
    merged.push_str(fragment);
    if merged.len() > MAX_MERGED_LENGTH {
        return Cow::Borrowed(target);
    }
    Cow::Owned(merged)
}

/// Splits in front of the first of `separators`; the second part is empty if there is none.
pub(crate) fn split_before<'t>(text: &'t str, separators: &[char]) -> (&'t str, &'t str) {
    let at = text.find(separators).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// Appends the parameters of `own` (with its `?`) that do not occur in `query`, each followed by `&`.
fn push_parameters_not_in(query: &[u8], own: &str, out: &mut String) {
    let own = own.strip_prefix('?').unwrap_or_default();
    if own.is_empty() {
        return;
    }
    // Sorted, because both sides are untrusted input: a linear search for every item would take minutes for a query of the
    // maximum length of a request.
    let mut named: Vec<&[u8]> = parameters(query).collect();
    named.sort_unstable_by(|one, other| name(one).cmp(name(other)));
    let is_named = |parameter: &str| {
        let own = parameter.as_bytes();
        named
            .binary_search_by(|named| name(named).cmp(name(own)))
            .is_ok()
    };
    let kept = own
        .split('&')
        .filter(|parameter| !parameter.is_empty() && !is_named(parameter));
    for parameter in kept {
        out.push_str(parameter);
        out.push('&');
    }
}

pub(crate) fn parameters(query: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    query
        .split(|byte| *byte == b'&')
        .filter(|parameter| !parameter.is_empty())
}

/// The raw value of the last parameter of this name: empty if it has none. `None` if there is no such parameter.
pub(crate) fn last_value<'a>(query: &'a [u8], name_wanted: &[u8]) -> Option<&'a [u8]> {
    let is_wanted = |parameter: &&[u8]| name(parameter).eq(name_wanted.iter().copied());
    let parameter = parameters(query).rfind(is_wanted)?;
    let equals = parameter.iter().position(|byte| *byte == b'=');
    Some(equals.map_or(&[], |at| parameter.get(at + 1..).unwrap_or_default()))
}

/// The decoded name of a parameter, byte by byte: nothing is allocated for untrusted input.
fn name(parameter: &[u8]) -> impl Iterator<Item = u8> {
    let name = parameter.split(|byte| *byte == b'=').next();
    decoded(name.unwrap_or_default())
}

/// Form-decodes a text of a query.
pub(crate) fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (byte, tail) = rest.split_first()?;
        let (byte, tail) = match byte {
            b'+' => (b' ', tail),
            b'%' => escaped(tail).unwrap_or((b'%', tail)),
            byte => (*byte, tail),
        };
        rest = tail;
        Some(byte)
    })
}

/// The byte whose two hexadecimal digits start `text`, and the rest behind them.
pub(crate) fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = text.split_first_chunk()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = digit(*high)? << 4 | digit(*low)?;
    Some((u8::try_from(byte).ok()?, rest))
}

/// Appends untrusted bytes, percent-encoded unless `may_stand` permits them.
pub(crate) fn push_encoded(mut text: &[u8], may_stand: fn(u8) -> bool, out: &mut String) {
    while let Some((byte, rest)) = text.split_first() {
        // A per cent sign that escapes nothing is invalid itself.
        if may_stand(*byte) || (*byte == b'%' && escaped(rest).is_some()) {
            out.push(char::from(*byte));
        } else {
            push_escape(*byte, out);
        }
        text = rest;
    }
}

fn push_escape(byte: u8, out: &mut String) {
    out.push('%');
    for digit in [byte >> 4, byte & 0xf] {
        let digit = char::from_digit(u32::from(digit), 16).unwrap_or('0');
        out.push(digit.to_ascii_uppercase());
    }
}

fn may_stand_in_a_query(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::is_target;
    use proptest::prelude::*;

    #[test]
    fn query_when_merged_equals_known_answers() {
        for (target, query, merged) in [
            ("https://e.com", "a=1", "https://e.com?a=1"),
            ("https://e.com/", "a=1&b", "https://e.com/?a=1&b"),
            ("https://e.com/?", "a=1", "https://e.com/?a=1"),
            ("https://e.com/?a=1&b=2", "a=3", "https://e.com/?b=2&a=3"),
            ("https://e.com/?a=1&b=2", "c", "https://e.com/?a=1&b=2&c"),
            (
                "https://e.com/?a=1&a=2",
                "a=3&a=4",
                "https://e.com/?a=3&a=4",
            ),
            ("https://e.com/?a+b=1", "a%20b=2", "https://e.com/?a%20b=2"),
            ("https://e.com/?%61=1&A=2", "a=3", "https://e.com/?A=2&a=3"),
            (
                "https://e.com/?%zz=1&%=2",
                "%25zz=3",
                "https://e.com/?%=2&%25zz=3",
            ),
            ("https://e.com/?a&=2", "a=1", "https://e.com/?=2&a=1"),
            ("https://e.com/?a&&b", "&", "https://e.com/?a&b&&"),
            (
                "https://e.com/?x=%20+",
                "a=%20+",
                "https://e.com/?x=%20+&a=%20+",
            ),
            ("https://e.com/#top", "a=1", "https://e.com/?a=1#top"),
            (
                "https://e.com/?a=1#/r?a=2",
                "a=3",
                "https://e.com/?a=3#/r?a=2",
            ),
            ("https://e.com/?/route", "a=1", "https://e.com/?/route&a=1"),
        ] {
            assert_eq!(
                merge(target, query.as_bytes()),
                merged,
                "{target} + {query}"
            );
        }
    }

    #[test]
    fn parameter_when_repeated_has_its_last_value() {
        for (query, value) in [
            ("a=1&b=2", Some("1")),
            ("a=1&a=2", Some("2")),
            ("a=1&a", Some("")),
            ("a", Some("")),
            ("%61=x%20y=z", Some("x%20y=z")),
            ("A=1&ab=2&=a", None),
            ("", None),
        ] {
            let found = last_value(query.as_bytes(), b"a");
            assert_eq!(found, value.map(str::as_bytes), "{query}");
        }
        let value: Vec<u8> = decoded(b"x%20y+%zz%").collect();
        assert_eq!(value, b"x y %zz%");
    }

    #[test]
    fn query_when_bytes_are_illegal_is_encoded() {
        for (query, encoded) in [
            (&b"a b"[..], "a%20b"),
            (b"a[]=\"<>\"", "a%5B%5D=%22%3C%3E%22"),
            (b"\r\nset-cookie: x", "%0D%0Aset-cookie:%20x"),
            (b"a=\x80\xff\0", "a=%80%FF%00"),
            (b"a=%2f%2F", "a=%2f%2F"),
            (b"a=%&b=%4&c=%zz", "a=%25&b=%254&c=%25zz"),
            (b"a#b", "a%23b"),
        ] {
            let merged = merge("https://e.com/", query);
            assert_eq!(merged, format!("https://e.com/?{encoded}"));
        }
    }

    #[test]
    fn query_when_names_are_many_merges_all() {
        let many = |first: usize| {
            let names: Vec<_> = (first..first + 50_000).map(|n| format!("p{n}")).collect();
            names.join("&")
        };
        let mut merged = String::new();
        let own = format!("?{}", many(0));
        push_parameters_not_in(many(50_000).as_bytes(), &own, &mut merged);
        assert_eq!(merged.matches('&').count(), 50_000);
    }

    #[test]
    fn query_when_target_would_be_too_long_is_left_out() {
        let target = "https://e.com/?a=1";
        let room = MAX_MERGED_LENGTH - target.len() - "&".len();
        let longest = "x".repeat(room);
        let merged = merge(target, longest.as_bytes());
        assert_eq!(merged.len(), MAX_MERGED_LENGTH);
        let escaped = [&longest[..room - 3], "<"].concat();
        assert_eq!(merge(target, escaped.as_bytes()).len(), MAX_MERGED_LENGTH);
        for query in [
            format!("{longest}x"),
            [&longest[..room - 1], "<"].concat(),
            "<".repeat(MAX_MERGED_LENGTH),
            "a=2&".repeat(8_000),
        ] {
            assert_eq!(merge(target, query.as_bytes()), target);
        }
    }

    proptest! {
        #[test]
        fn target_when_query_is_empty_is_unchanged(target in "\\PC{0,60}") {
            prop_assert!(matches!(merge(&target, b""), Cow::Borrowed(same) if same == target));
        }

        #[test]
        fn target_when_query_has_any_bytes_stays_legal(
            target in "https://[a-z]{1,9}/[!-~]{0,60}",
            query in prop::collection::vec(any::<u8>(), 1..60),
        ) {
            let merged = merge(&target, &query);
            prop_assert!(is_target(merged.as_bytes()));
            prop_assert!(merged.len() <= target.len() + 3 * query.len() + 2);
        }

        #[test]
        fn query_when_merged_twice_changes_nothing(
            target in "https://e/(\\?([ab]=[0-9%+&]{0,3}&?){0,4})?(#[a-z?=]{0,5})?",
            query in "[ab]=[0-9]{0,3}(&[abc%+]{1,3}=[0-9]{0,3}){0,4}",
        ) {
            let once = merge(&target, query.as_bytes()).into_owned();
            prop_assert_eq!(&merge(&once, query.as_bytes()), &once);
        }

        #[test]
        fn query_when_merged_comes_last_before_fragment(
            target in "https://e/(\\?[a-z=&]{0,20})?",
            fragment in "(#[a-z?=&#]{0,9})?",
            query in "[a-z]{1,3}=[a-z]{0,3}(&[a-z]{1,3}){0,4}",
        ) {
            let merged = merge(&format!("{target}{fragment}"), query.as_bytes()).into_owned();
            let tail = format!("{query}{fragment}");
            prop_assert!(merged.ends_with(&tail), "{merged}");
        }
    }
}
