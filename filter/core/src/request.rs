//! Parsing of requests: the headers that matter, and the code in the path.

use edgelink_wire::clicks::attributes::{self, PREFETCH_LENGTHS, PREFETCH_VALUES};
use edgelink_wire::code::{has_code_shape, is_reserved, split_code};
use edgelink_wire::same::is_same;

/// The headers of a request, as its host holds them.
pub trait Headers: Copy {
    /// The first value of a header; empty if there is none. The name is in lower case, as at the proxy.
    fn get(&self, name: &str) -> &[u8];

    /// Passes name and value of every header whose name has one of these lengths, a set of [`length_bit`], and of some others with long
    /// names. Headers of [`Head`] may be left out.
    fn each<'h>(&'h self, lengths: u64, found: impl FnMut(&'h [u8], &'h [u8]));

    /// True if the request is made before its visitor follows the link ([`attributes::is_prefetch`]).
    #[inline(always)]
    fn is_prefetch(&self) -> bool {
        let mut is_prefetch = false;
        self.each(PREFETCH_LENGTHS.into(), |name, value| {
            is_prefetch |= attributes::is_prefetch(name, value);
        });
        is_prefetch
    }

    /// True if the visitor has opted out of tracking.
    fn are_of_an_opt_out(&self) -> bool {
        let mut is_opt_out = false;
        self.each(length_bit(3) | length_bit(7), |name, value| {
            is_opt_out |= attributes::is_opt_out(name, value);
        });
        is_opt_out
    }
}

/// The bit of [`Headers::each`] for names of that length.
#[must_use]
pub const fn length_bit(length: usize) -> u64 {
    1u64.wrapping_shl(length as u32)
}

/// The headers of a request that matter; empty if there is no such header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a, H = HeaderMap<'a>> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with its query.
    pub path: &'a [u8],
    /// `:authority`, which is the host.
    pub authority: &'a [u8],
    /// All headers.
    pub headers: H,
}

/// A header map as proxy-wasm encodes it ([`Head::read`]), to look headers up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderMap<'a> {
    bytes: &'a [u8],
    /// Bytes of lengths, and of names and values, of the first headers, which are known to be those of [`Head`].
    known: (usize, usize),
}

impl<'a> HeaderMap<'a> {
    /// A map of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            known: (0, 0),
        }
    }

    fn find(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        let (lengths, mut text) = split(self.bytes)?;
        for [name, value] in lengths.as_chunks::<LENGTH>().0.as_chunks::<2>().0 {
            let name = take(&mut text, length(*name)?)?;
            let value = take(&mut text, length(*value)?)?;
            if name == wanted {
                return Some(value);
            }
        }
        None
    }
}

impl Headers for HeaderMap<'_> {
    fn get(&self, name: &str) -> &[u8] {
        self.find(name.as_bytes()).unwrap_or_default()
    }

    /// Of all other headers only the lengths are read: some ten instructions per header.
    #[inline(always)]
    fn each<'h>(&'h self, lengths: u64, mut found: impl FnMut(&'h [u8], &'h [u8])) {
        let Some((sizes, text)) = split(self.bytes) else {
            return;
        };
        let sizes = sizes.get(self.known.0..).unwrap_or_default();
        let mut start = self.known.1;
        for [name, value] in sizes.as_chunks::<LENGTH>().0.as_chunks::<2>().0 {
            let name = u32::from_le_bytes(*name);
            let value = u32::from_le_bytes(*value);
            if lengths.wrapping_shr(name) & 1 != 0 {
                let pair = text.get(start..).unwrap_or_default();
                if let Some((name, rest)) = pair.split_at_checked(name as usize)
                    && let Some(value) = rest.get(1..).and_then(|rest| rest.get(..value as usize))
                {
                    found(name, value);
                }
            }
            start = start
                .wrapping_add(name as usize)
                .wrapping_add(value as usize)
                .wrapping_add(2);
        }
    }

    /// Of nearly all headers only the lengths are read, and of the others the first letter, before anything is sliced.
    #[inline(always)]
    fn is_prefetch(&self) -> bool {
        let Some((lengths, text)) = split(self.bytes) else {
            return false;
        };
        let lengths = lengths.get(self.known.0..).unwrap_or_default();
        let mut start = self.known.1;
        for [name, value] in lengths.as_chunks::<LENGTH>().0.as_chunks::<2>().0 {
            let (name, value) = (u32::from_le_bytes(*name), u32::from_le_bytes(*value));
            if PREFETCH_LENGTHS.wrapping_shr(name) & 1 != 0
                && PREFETCH_VALUES.contains(&value)
                && text.get(start) == Some(&attributes::prefetch_initial(name))
                && is_prefetch_at(text, start, name as usize, value as usize)
            {
                return true;
            }
            start = start
                .wrapping_add(name as usize)
                .wrapping_add(value as usize)
                .wrapping_add(2);
        }
        false
    }
}

/// The bytes of a length.
const LENGTH: usize = 4;

impl<'a> Head<'a> {
    /// Reads a header map as the proxy encodes it: the number of pairs, the lengths of each name and value (all of 32 bit,
    /// little-endian), then each name and value with a zero byte behind it. `None` if it is cut off.
    ///
    /// All headers come at once because one call to the proxy that returns a value costs as much as 10,000
    /// instructions, however long the value is. The proxy puts the wanted ones first, so that the others are
    /// hardly ever read.
    ///
    /// Inlined into every caller: on the hot path its result must not go through memory.
    #[must_use]
    #[inline(always)]
    pub fn read(map: &'a [u8]) -> Option<Self> {
        let (lengths, all) = split(map)?;
        let mut text = all;
        let mut head = Self::default();
        let mut pairs = lengths.as_chunks::<LENGTH>().0.as_chunks::<2>().0.iter();
        let (mut missing, mut others) = (3, None);
        while let Some([name, value]) = pairs.next() {
            let before = text.len();
            let name = take(&mut text, length(*name)?)?;
            let value = take(&mut text, length(*value)?)?;
            let place = if is_same(name, b":authority") {
                &mut head.authority
            } else if is_same(name, b":path") {
                &mut head.path
            } else if is_same(name, b":method") {
                &mut head.method
            } else {
                others.get_or_insert((pairs.len() + 1, before));
                continue;
            };
            *place = value;
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
        let (pairs, rest) = others.unwrap_or((pairs.len(), text.len()));
        head.headers = HeaderMap {
            bytes: map,
            known: (lengths.len() - pairs * 2 * LENGTH, all.len() - rest),
        };
        Some(head)
    }
}

/// True if the header marks a prefetch. Kept out of line, as few headers get here.
#[cold]
#[inline(never)]
fn is_prefetch_at(text: &[u8], start: usize, name: usize, value: usize) -> bool {
    let mut pair = text.get(start..).unwrap_or_default();
    let name = take(&mut pair, name);
    let value = take(&mut pair, value);
    name.zip(value)
        .is_some_and(|(name, value)| attributes::is_prefetch(name, value))
}

/// Splits a map into all lengths, and the names and values.
#[inline(always)]
fn split(map: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = map.split_first_chunk::<LENGTH>()?;
    let size = length(*count)?.checked_mul(2 * LENGTH)?;
    rest.split_at_checked(size)
}

#[inline(always)]
fn length(bytes: [u8; LENGTH]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

/// Takes `length` bytes, and the zero behind them, off the front.
#[inline(always)]
fn take<'a>(text: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = text.split_at_checked(length)?;
    (_, *text) = rest.split_first()?;
    Some(taken)
}

/// Code and query of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested<'a> {
    /// The code or alias: of the right shape, not reserved.
    pub code: &'a [u8],
    /// The query without its `?`; empty if there is none.
    pub query: &'a [u8],
}

/// Reads a request's `:path`. `None` if it is not exactly one segment that may be a code: such a request is not ours. A
/// slash behind the code makes it another path, as everywhere on the web; nothing is decoded, so `%61` is not `a`.
#[must_use]
pub fn parse_path(path: &[u8]) -> Option<Requested<'_>> {
    let (code, rest) = split_code(path.strip_prefix(b"/")?)?;
    let query = match rest {
        [] => rest,
        [b'?', query @ ..] => query,
        _ => return None,
    };
    (!is_reserved(code)).then_some(Requested { code, query })
}

/// Reads a request's `:path` that continues behind a code. `None` if it does not, or if its first segment cannot be a code.
#[must_use]
#[cold]
pub fn parse_path_below(path: &[u8]) -> Option<Requested<'_>> {
    let (below, query) = behind_code(path);
    let code = path
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/')
        .next()?;
    let is_code = !below.is_empty() && has_code_shape(code) && !is_reserved(code);
    is_code.then_some(Requested { code, query })
}

/// The rest of a `:path` behind its first segment, from the slash on, and the query without its `?`; empty if there is none.
#[must_use]
#[inline(never)]
pub fn behind_code(path: &[u8]) -> (&[u8], &[u8]) {
    let (path, query) = match path.iter().position(|byte| *byte == b'?') {
        Some(at) => (path.get(..at), path.get(at + 1..)),
        None => (Some(path), None),
    };
    let path = path.unwrap_or_default();
    let slash = path.iter().skip(1).position(|byte| *byte == b'/');
    let below = slash.and_then(|at| path.get(at + 1..));
    (below.unwrap_or_default(), query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
        let length = |text: &[u8]| u32::try_from(text.len()).unwrap().to_le_bytes();
        let count = u32::try_from(pairs.len()).unwrap().to_le_bytes().to_vec();
        let lengths = pairs
            .iter()
            .flat_map(|(name, value)| [length(name), length(value)].concat());
        let text = pairs
            .iter()
            .flat_map(|(name, value)| [name, &b"\0"[..], value, b"\0"].concat());
        count.into_iter().chain(lengths).chain(text).collect()
    }

    #[test]
    fn head_when_pairs_come_in_any_order_is_read() {
        let mut pairs: Vec<(&[u8], &[u8])> = vec![
            (b":authority", b"go.example"),
            (b":path", b"/a\0b?\xff"),
            (b":method", b"GET"),
            (b"cookie", b":method"),
            (b"", b""),
        ];
        for _ in 0..pairs.len() {
            pairs.rotate_left(1);
            let map = encode(&pairs);
            let head = Head::read(&map).unwrap();
            assert_eq!(
                (head.method, head.path, head.authority),
                (&b"GET"[..], &b"/a\0b?\xff"[..], &b"go.example"[..])
            );
            assert_eq!(head.headers.bytes, map);
            assert_eq!(head.headers.get("cookie"), b":method");
            assert_eq!(head.headers.get("user-agent"), b"");
        }
    }

    #[test]
    fn header_when_missing_is_empty() {
        let none = encode(&[]);
        let headers = HeaderMap::new(&none);
        let nothing = Head {
            headers,
            ..Head::default()
        };
        assert_eq!(Head::read(&none), Some(nothing));
        let map = encode(&[(b":method", b"GET")]);
        let only = Head::read(&map).unwrap();
        assert_eq!(
            (only.method, only.path, only.authority),
            (&b"GET"[..], &b""[..], &b""[..])
        );
    }

    #[test]
    fn prefetch_when_its_header_stands_anywhere_is_recognized() {
        for (name, value, expected) in [
            (&b"sec-purpose"[..], &b"prefetch;prerender"[..], true),
            (b"purpose", b"prefetch", true),
            (b"x-purpose", b"preview", true),
            (b"x-moz", b"prefetch", true),
            (b"sec-purpose", b"other", false),
            (b"sec-purposes", b"prefetch", false),
            (b"referer", b"https://prefetch/", false),
        ] {
            let mut pairs: Vec<(&[u8], &[u8])> = vec![
                (b":authority", b"go.example"),
                (b":path", b"/a"),
                (b":method", b"GET"),
                (b":scheme", b"prefetch"),
                (b"accept", b""),
                (name, value),
            ];
            for _ in 0..pairs.len() {
                pairs.rotate_left(1);
                let map = encode(&pairs);
                let head = Head::read(&map).unwrap();
                assert_eq!(
                    head.headers.is_prefetch(),
                    expected,
                    "{}",
                    name.escape_ascii()
                );
                let unread = Head {
                    headers: HeaderMap::new(&map),
                    ..Head::default()
                };
                assert_eq!(unread.headers.is_prefetch(), expected);
            }
        }
        assert!(!HeaderMap::default().is_prefetch());
    }

    #[test]
    fn map_when_cut_off_is_not_read() {
        let map = encode(&[(b"accept", b"text/html"), (b":path", b"/a")]);
        for end in 0..map.len() {
            assert_eq!(Head::read(&map[..end]), None, "{end}");
            assert_eq!(HeaderMap::new(&map[..end]).get("no-such"), b"");
        }
        assert_eq!(Head::read(&[255; 40]), None);
    }

    proptest! {
        #[test]
        fn map_when_arbitrary_is_read_without_panic(map in prop::collection::vec(any::<u8>(), 0..80), count in 0u8..5) {
            let _ = Head::read(&map);
            let _ = HeaderMap::new(&map).get("a");
            HeaderMap::new(&map).each(u64::MAX, |_, _| {});
            let map = [&[count, 0, 0, 0], &map[..]].concat();
            let head = Head { headers: HeaderMap::new(&map), ..Head::default() };
            let _ = head.headers.is_prefetch();
            let _ = Head::read(&map).is_some_and(|head| head.headers.is_prefetch());
        }
    }

    #[test]
    fn headers_when_selected_by_name_length_are_handed_over() {
        let long = [b'n'; 70];
        let pairs: [(&[u8], &[u8]); 5] = [
            (b"a", b"1"),
            (b"abc", b""),
            (b"xyz", b"2\0\xff"),
            (&long, b"3"),
            (b"", b"4"),
        ];
        let map = encode(&pairs);
        for (lengths, expected) in [
            (u64::MAX, &pairs[..]),
            (length_bit(3), &pairs[1..3]),
            (length_bit(70), &pairs[3..4]),
            (length_bit(0), &pairs[4..]),
            (0, &[]),
        ] {
            let (headers, mut found) = (HeaderMap::new(&map), Vec::new());
            headers.each(lengths, |name, value| found.push((name, value)));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn path_when_one_segment_of_code_shape_is_parsed() {
        for (path, code, rest) in [
            (&b"/aB3"[..], &b"aB3"[..], &b""[..]),
            (b"/a?", b"a", b""),
            (b"/a?b=c?d", b"a", b"b=c?d"),
            (b"/_-?\xff", b"_-", b"\xff"),
        ] {
            let expected = Requested { code, query: rest };
            assert_eq!(parse_path(path), Some(expected));
            assert_eq!(behind_code(path), (&b""[..], rest));
            assert_eq!(parse_path_below(path), None);
        }
        assert!(parse_path(&[b"/".as_slice(), &[b'a'; 64]].concat()).is_some());
    }

    #[test]
    fn path_when_not_of_code_shape_is_not_parsed() {
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
            assert_eq!(parse_path(path), None, "{path:?}");
        }
    }

    #[test]
    fn path_when_it_continues_behind_a_code_is_split() {
        for (path, code, below, query) in [
            (&b"/a/"[..], &b"a"[..], &b"/"[..], &b""[..]),
            (b"/a/b/c?d/e", b"a", b"/b/c", b"d/e"),
            (b"/a//b?", b"a", b"//b", b""),
            (b"/a/%2e%2e\xff", b"a", b"/%2e%2e\xff", b""),
        ] {
            let expected = Requested { code, query };
            assert_eq!(parse_path_below(path), Some(expected));
            assert_eq!(parse_path(path), None);
            assert_eq!(behind_code(path), (below, query));
        }
        for path in [
            &b""[..],
            b"/",
            b"/a",
            b"//a",
            b"a/b",
            b"/a?b/c",
            b"/a;b/c",
            b"/API/v1/links",
            b"/./a",
        ] {
            assert_eq!(parse_path_below(path), None, "{}", path.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn path_when_arbitrary_is_parsed_without_panic(path in prop::collection::vec(any::<u8>(), 0..80)) {
            for asked in [parse_path(&path), parse_path_below(&path)].into_iter().flatten() {
                prop_assert!(path.starts_with(&[b"/", asked.code, behind_code(&path).0].concat()));
                prop_assert_eq!(asked.query, behind_code(&path).1);
            }
        }
    }
}
