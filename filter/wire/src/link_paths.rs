//! Paths of links on a host: behind a prefix, with or without a trailing slash. Shared by edges and the control plane's own
//! redirects.

use crate::code::{has_code_shape, is_reserved, split_code};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::str::FromStr;

/// The longest prefix.
const MAX_PREFIX_LENGTH: usize = 64;

/// The prefix of codes in paths: `/`, or segments between slashes, as `/s/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPrefix(Box<str>);

/// The text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPrefixError;

impl Display for LinkPrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be / or like /s/: at most 64 characters, segments of letters, digits, _ and - between slashes, the first no \
             reserved word, and not begin with /rest/v3/",
        )
    }
}

impl std::error::Error for LinkPrefixError {}

impl FromStr for LinkPrefix {
    type Err = LinkPrefixError;

    fn from_str(text: &str) -> Result<Self, LinkPrefixError> {
        if text == "/" {
            return Ok(Self::default());
        }
        let inside = text
            .strip_prefix('/')
            .and_then(|text| text.strip_suffix('/'));
        let inside = inside.ok_or(LinkPrefixError)?;
        // The control plane serves Shlink's API there.
        let is_fit = text.len() <= MAX_PREFIX_LENGTH
            && !text.starts_with("/rest/v3/")
            && inside
                .split('/')
                .all(|segment| has_code_shape(segment.as_bytes()))
            && !inside
                .split('/')
                .take(1)
                .any(|first| is_reserved(first.as_bytes()));
        is_fit.then(|| Self(text.into())).ok_or(LinkPrefixError)
    }
}

impl Default for LinkPrefix {
    fn default() -> Self {
        Self("/".into())
    }
}

impl Display for LinkPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LinkPrefix {
    /// The prefix with both slashes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The paths of links on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkPaths {
    /// The prefix of codes.
    pub prefix: LinkPrefix,
    /// True if `/code/` is equivalent to `/code`.
    pub trailing_slash: bool,
}

impl LinkPaths {
    /// The paths behind `prefix`; `None` if codes are right below the root, so that no path needs rewriting.
    #[must_use]
    pub fn unless_plain(prefix: LinkPrefix, trailing_slash: bool) -> Option<Self> {
        let are_plain = prefix.as_str() == "/" && !trailing_slash;
        (!are_plain).then_some(Self {
            prefix,
            trailing_slash,
        })
    }

    /// Rewrites a path with its query to its form on a host that serves nothing but links: without the prefix, and without the
    /// trailing slash if that is permitted. `None` if the path does not begin with the prefix.
    #[must_use]
    pub fn plain<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        let prefix = self.prefix.as_str().as_bytes();
        let (before_slash, _) = prefix.split_at_checked(prefix.len() - 1)?;
        let path = path.strip_prefix(before_slash)?;
        let behind = path.strip_prefix(b"/")?;
        if !self.trailing_slash {
            return Some(Cow::Borrowed(path));
        }
        Some(match split_code(behind) {
            Some((_, b"/")) => Cow::Borrowed(path.strip_suffix(b"/").unwrap_or(path)),
            Some((code, [b'/', query @ ..])) if query.first() == Some(&b'?') => {
                Cow::Owned([b"/", code, query].concat())
            }
            _ => Cow::Borrowed(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(prefix: &str, trailing_slash: bool) -> LinkPaths {
        LinkPaths {
            prefix: prefix.parse().unwrap(),
            trailing_slash,
        }
    }

    fn plain(paths: &LinkPaths, path: &str) -> Option<String> {
        let plain = paths.plain(path.as_bytes())?;
        Some(String::from_utf8(plain.into_owned()).unwrap())
    }

    #[test]
    fn link_prefix_when_not_between_slashes_is_refused() {
        for text in ["/", "/s/", "/go/to/", "/a_b-C1/", "/rest/", "/rest/v30/"] {
            assert_eq!(text.parse::<LinkPrefix>().unwrap().as_str(), text);
        }
        let long = format!("/{}/", "a".repeat(63));
        for text in [
            "",
            "s",
            "/s",
            "s/",
            "//",
            "/s//",
            "/s/ /",
            "/./",
            "/%73/",
            "/API/",
            "/api/s/",
            "/rest/v3/",
            "/rest/v3/s/",
            &long,
        ] {
            assert_eq!(text.parse::<LinkPrefix>(), Err(LinkPrefixError), "{text}");
        }
        assert!("/s/api/".parse::<LinkPrefix>().is_ok());
    }

    #[test]
    fn path_when_outside_prefix_belongs_to_others() {
        let paths = paths("/s/", false);
        for (path, expected) in [
            ("/s/a", Some("/a")),
            ("/s/", Some("/")),
            ("/s/?x", Some("/?x")),
            ("/s/a/b?c", Some("/a/b?c")),
            ("/s/a/", Some("/a/")),
            ("/s//a", Some("//a")),
            ("/s", None),
            ("/s?x", None),
            ("/sa", None),
            ("/S/a", None),
            ("/a", None),
            ("/a/s/b", None),
            ("/%73/a", None),
            ("s/a", None),
            ("", None),
            ("*", None),
        ] {
            assert_eq!(plain(&paths, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn trailing_slash_when_permitted_is_removed() {
        for prefix in ["/", "/s/"] {
            let (off, on) = (paths(prefix, false), paths(prefix, true));
            for (path, expected) in [
                ("a/", "a"),
                ("a/?b=/", "a?b=/"),
                ("a/?", "a?"),
                ("a", "a"),
                ("a?b/", "a?b/"),
                ("a//", "a//"),
                ("a/b/", "a/b/"),
                ("a//?b", "a//?b"),
                ("a.b/", "a.b/"),
                ("", ""),
                ("/", "/"),
            ] {
                let path = format!("{prefix}{path}");
                assert_eq!(plain(&on, &path).unwrap(), format!("/{expected}"), "{path}");
                let kept = path.strip_prefix(prefix).unwrap();
                assert_eq!(plain(&off, &path).unwrap(), format!("/{kept}"), "{path}");
            }
        }
        let are_plain = |prefix: &str, trailing_slash| {
            LinkPaths::unless_plain(prefix.parse().unwrap(), trailing_slash).is_none()
        };
        assert!(are_plain("/", false));
        assert!(!are_plain("/", true));
        assert!(!are_plain("/s/", false));
    }

    proptest! {
        #[test]
        fn path_when_arbitrary_is_accepted_by_prefix_alone(path in prop::collection::vec(any::<u8>(), 0..40), slash: bool) {
            let plain = paths("/s/", slash).plain(&path).map(Cow::into_owned);
            prop_assert_eq!(plain.is_some(), path.starts_with(b"/s/"));
            prop_assert_eq!(paths("/", false).plain(&path).is_some(), path.starts_with(b"/"));
        }
    }
}
