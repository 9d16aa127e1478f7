//! Which requests are for a short link.

use edgelink_wire::code::{has_code_shape, is_reserved};

/// What a visitor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested<'a> {
    /// The code or alias: of the right shape, not reserved.
    pub code: &'a [u8],
    /// The query without its `?`; empty where there is none.
    pub query: &'a [u8],
}

/// Reads a request's `:path`. Nothing where it is not exactly one segment that may be a code: such a request is none
/// of ours. A slash behind the code makes it another path, as everywhere on the web; nothing is decoded, so `%61` is
/// not `a`.
#[must_use]
pub fn parse(path: &[u8]) -> Option<Requested<'_>> {
    let path = path.strip_prefix(b"/")?;
    let (code, query) = match path.iter().position(|byte| *byte == b'?') {
        Some(at) => (path.get(..at)?, path.get(at + 1..)?),
        None => (path, &b""[..]),
    };
    if !has_code_shape(code) || is_reserved(code) {
        return None;
    }
    Some(Requested { code, query })
}

/// The query of a `:path` without its `?`; empty where there is none.
#[must_use]
pub fn query(path: &[u8]) -> &[u8] {
    let mut parts = path.splitn(2, |byte| *byte == b'?');
    parts.next();
    parts.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_segment_of_code_shape_is_asked_for() {
        for (path, code, rest) in [
            (&b"/aB3"[..], &b"aB3"[..], &b""[..]),
            (b"/a?", b"a", b""),
            (b"/a?b=c?d", b"a", b"b=c?d"),
            (b"/_-?\xff", b"_-", b"\xff"),
        ] {
            assert_eq!(parse(path), Some(Requested { code, query: rest }));
            assert_eq!(query(path), rest);
        }
        assert!(parse(&[b"/".as_slice(), &[b'a'; 64]].concat()).is_some());
    }

    #[test]
    fn everything_else_is_none_of_ours() {
        let long = [b"/".as_slice(), &[b'a'; 65]].concat();
        for path in [
            &b""[..],
            b"a",
            b"*",
            b"/",
            b"/?a",
            b"//",
            b"//a",
            b"/a/",
            b"/a/b",
            b"/.",
            b"/..",
            b"/a%2Fb",
            b"/a%00",
            b"/%61",
            b"/a\0",
            b"/a b",
            b"/a;b",
            b"/a#b",
            b"/\x80",
            b"/\xc3\xa4",
            b"/console",
            b"/API?x",
            b"/robots.txt",
            b"/.well-known",
            b"http://go.example/a",
            &long,
        ] {
            assert_eq!(parse(path), None, "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_a_panic(path in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(asked) = parse(&path) {
                prop_assert!(path.starts_with(&[b"/", asked.code].concat()));
                prop_assert_eq!(asked.query, query(&path));
            }
        }
    }
}
