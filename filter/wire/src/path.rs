//! Path forwarding: appends the rest of a visitor's path to the target of a link.
//!
//! For `/code/x/y` the rest is `/x/y`: it is appended to the path of the target, in front of query and fragment. A visitor can
//! change neither the authority of the target nor the path to which the rest is appended: nothing leads above it.

use crate::query::{MAX_MERGED_LENGTH, escaped, push_encoded, split_before};

/// Appends `below` (from its slash on) to the path of the target; a slash at the seam is not doubled.
///
/// Bytes that are invalid in a path (RFC 3986, section 3.3) are percent-encoded, so the result is visible ASCII whenever the
/// target is; all other bytes are unchanged. `None` if `below` has a dot segment (`.` or `..`, also percent-encoded, behind an
/// encoded slash or a backslash, or with a parameter), or if the result would be longer than [`MAX_MERGED_LENGTH`].
#[must_use]
pub fn append(target: &str, below: &[u8]) -> Option<String> {
    if below.len() > MAX_MERGED_LENGTH || has_dot_segment(below) {
        return None;
    }
    let (base, rest) = split_before(target, &['?', '#']);
    let base = base.strip_suffix('/').unwrap_or(base);
    let mut joined = String::with_capacity(target.len() + below.len());
    joined.push_str(base);
    push_encoded(below, may_stand_in_a_path, &mut joined);
    joined.push_str(rest);
    (joined.len() <= MAX_MERGED_LENGTH).then_some(joined)
}

/// True if browsers or servers may interpret a segment as `.` or `..`.
fn has_dot_segment(path: &[u8]) -> bool {
    const DOT: u8 = b'.';
    // Number of leading dots of the segment; `None` behind any other byte.
    let (mut rest, mut dots) = (path, Some(0));
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match first {
            b'%' => escaped(tail).unwrap_or((*first, tail)),
            first => (*first, tail),
        };
        rest = tail;
        match byte {
            b'/' | b'\\' | b';' if is_dots(dots) => return true,
            b'/' | b'\\' => dots = Some(0),
            DOT => dots = dots.map(|dots| dots + 1),
            _ => dots = None,
        }
    }
    is_dots(dots)
}

fn is_dots(dots: Option<usize>) -> bool {
    matches!(dots, Some(1 | 2))
}

fn may_stand_in_a_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::is_target;
    use proptest::prelude::*;

    #[test]
    fn path_when_appended_to_target_equals_known_answers() {
        for (target, below, joined) in [
            ("https://e.com/a", &b"/x/y"[..], "https://e.com/a/x/y"),
            ("https://e.com/a/", b"/x/y", "https://e.com/a/x/y"),
            ("https://e.com", b"/x", "https://e.com/x"),
            ("https://e.com/", b"/x", "https://e.com/x"),
            ("https://e.com/a", b"/", "https://e.com/a/"),
            ("https://e.com/a/", b"/", "https://e.com/a/"),
            ("https://e.com/a?b=/c#d", b"/x", "https://e.com/a/x?b=/c#d"),
            ("https://e.com?b", b"/x", "https://e.com/x?b"),
            ("https://e.com/#a?b", b"/x", "https://e.com/x#a?b"),
            (
                "https://e.com",
                b"//evil.example",
                "https://e.com//evil.example",
            ),
            (
                "https://e.com",
                b"/@evil.example",
                "https://e.com/@evil.example",
            ),
            (
                "https://e.com/a",
                b"/%78+%20%2F",
                "https://e.com/a/%78+%20%2F",
            ),
            (
                "https://e.com/a",
                b"/%0d%0Ax: y",
                "https://e.com/a/%0d%0Ax:%20y",
            ),
            (
                "https://e.com/a",
                b"/\r\n\xff#?\"",
                "https://e.com/a/%0D%0A%FF%23%3F%22",
            ),
            (
                "https://e.com/a",
                b"/\\evil.example",
                "https://e.com/a/%5Cevil.example",
            ),
            ("https://e.com/a", b"/%/%zz", "https://e.com/a/%25/%25zz"),
            (
                "https://e.com/a",
                b"/..x/.y/...",
                "https://e.com/a/..x/.y/...",
            ),
        ] {
            let result = append(target, below);
            assert_eq!(result.as_deref(), Some(joined), "{}", below.escape_ascii());
        }
    }

    #[test]
    fn path_when_it_has_dot_segments_is_refused() {
        for below in [
            &b"/.."[..],
            b"/.",
            b"/x/../y",
            b"/x/./y",
            b"/%2e%2E/x",
            b"/.%2e",
            b"/x%2f..%2Fy",
            b"/x\\..\\y",
            b"/x%5c..",
            b"/..;a=b/x",
            b"/..%3bx",
            b"//..",
        ] {
            assert_eq!(
                append("https://e.com/a", below),
                None,
                "{}",
                below.escape_ascii()
            );
        }
    }

    #[test]
    fn path_when_result_is_too_long_is_refused() {
        let target = "https://e.com/a?b";
        let longest = MAX_MERGED_LENGTH - target.len();
        let below = |length: usize| [b"/".as_slice(), &vec![b'x'; length - 1]].concat();
        assert!(
            append(target, &below(longest)).is_some_and(|joined| joined.len() == MAX_MERGED_LENGTH)
        );
        assert_eq!(append(target, &below(longest + 1)), None);
        assert_eq!(
            append(
                target,
                &[b"/", "\"".repeat(longest / 2).as_bytes()].concat()
            ),
            None
        );
    }

    proptest! {
        #[test]
        fn path_when_appended_keeps_authority_of_target(
            target in "https://[a-z]{1,9}(/[a-z/]{0,9})?(\\?[!-~]{0,9})?",
            below in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let below = [b"/", below.as_slice()].concat();
            if let Some(joined) = append(&target, &below) {
                prop_assert!(is_target(joined.as_bytes()));
                let base = split_before(&target, &['?']).0;
                prop_assert!(joined.starts_with(base.trim_end_matches('/')));
                let authority = |url: &str| url.split(['/', '?', '#', '\\']).nth(2).map(str::to_owned);
                prop_assert_eq!(authority(&joined), authority(&target));
            }
        }
    }
}
