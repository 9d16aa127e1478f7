//! Campaign parameters of a target: `utm_source` and the like, as the analytics of the target's owner read them.
//!
//! They are part of the target and stored nowhere else: they are shown from there and set there. All other bytes of the
//! target stay.

use edgelink_wire::target::MAX_URL_LENGTH;
use edgelink_wire::target::{TargetError, TargetUrl};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// The parameters' names, without `utm_`.
pub(crate) const NAMES: [&str; 5] = ["source", "medium", "campaign", "term", "content"];

/// Percent-encodes all but the unreserved characters (RFC 3986, section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The values of [`NAMES`] in a target: the first one of each parameter.
pub fn values(target: &TargetUrl) -> [Option<Cow<'_, str>>; 5] {
    let (_, query, _) = split(target.as_str());
    let mut values = [const { None }; 5];
    for parameter in query.unwrap_or_default().split('&') {
        if let Some(at) = place(parameter) {
            let decoded = url::form_urlencoded::parse(parameter.as_bytes()).next();
            values[at] = values[at].take().or(decoded.map(|(_, value)| value));
        }
    }
    // An empty parameter counts as absent.
    values.map(|value| value.filter(|value| !value.is_empty()))
}

/// The values in the form of visitors' values in analytics: a line each, cut at the first control character and at `most` bytes;
/// empty if there are none.
pub fn lines(target: &TargetUrl, most: usize) -> Box<str> {
    let values = values(target).map(|value| {
        let value = value.unwrap_or_default();
        let end = value.find(|letter: char| letter.is_ascii_control());
        let end = value.floor_char_boundary(end.unwrap_or(value.len()).min(most));
        value.get(..end).unwrap_or_default().to_owned()
    });
    let lines = values.join("\n");
    if lines.len() < NAMES.len() {
        Box::default()
    } else {
        lines.into()
    }
}

/// Replaces values of [`NAMES`] in a target: `None` keeps, `Some(None)` removes. A parameter that has the value already is kept byte
/// for byte.
///
/// # Errors
/// [`TargetError::Length`] if the target becomes too long.
pub(crate) fn with(
    target: &TargetUrl,
    new: &[Option<Option<String>>; 5],
) -> Result<TargetUrl, TargetError> {
    let old = values(target);
    let is_changed = |at: usize| match &new[at] {
        Some(value) => value.as_deref() != old[at].as_deref(),
        None => false,
    };
    if !(0..NAMES.len()).any(is_changed) {
        return Ok(target.clone());
    }
    let (base, query, fragment) = split(target.as_str());
    let kept = query.filter(|query| !query.is_empty());
    let kept = kept.into_iter().flat_map(|query| query.split('&'));
    let kept = kept.filter(|parameter| !place(parameter).is_some_and(is_changed));
    let mut parameters: Vec<Cow<'_, str>> = kept.map(Cow::Borrowed).collect();
    for at in (0..NAMES.len()).filter(|at| is_changed(*at)) {
        if let Some(Some(value)) = &new[at] {
            let value = utf8_percent_encode(value, ENCODED);
            parameters.push(Cow::Owned(format!("utm_{}={value}", NAMES[at])));
        }
    }
    let query = if parameters.is_empty() {
        String::new()
    } else {
        format!("?{}", parameters.join("&"))
    };
    let text = format!("{base}{query}{fragment}");
    if text.len() > MAX_URL_LENGTH {
        return Err(TargetError::Length);
    }
    Ok(TargetUrl::from_store(&text))
}

/// Index of a parameter in [`NAMES`].
fn place(parameter: &str) -> Option<usize> {
    let (name, _) = url::form_urlencoded::parse(parameter.as_bytes()).next()?;
    let name = name.strip_prefix("utm_")?;
    NAMES.iter().position(|known| *known == name)
}

/// Splits off the query without its `?`, and the fragment with its `#`.
fn split(target: &str) -> (&str, Option<&str>, &str) {
    let end = target.find('#').unwrap_or(target.len());
    let (rest, fragment) = target.split_at(end);
    match rest.split_once('?') {
        Some((base, query)) => (base, Some(query), fragment),
        None => (rest, None, fragment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(target: &str, at: usize, value: Option<&str>) -> String {
        let mut new = [const { None }; 5];
        new[at] = Some(value.map(str::to_owned));
        let changed = with(&TargetUrl::from_store(target), &new).unwrap();
        changed.as_str().to_owned()
    }

    #[test]
    fn utm_parameter_when_repeated_is_read_from_the_first() {
        let target = TargetUrl::from_store(
            "https://x.example/utm_term=0?a=1&utm_source=a+b%C3%A4&utm_source=2&utm_medium=&utm%5Fterm=t#utm_content=3",
        );
        let shown = values(&target);
        let shown: Vec<Option<&str>> = shown.iter().map(Option::as_deref).collect();
        assert_eq!(shown, [Some("a bä"), None, None, Some("t"), None]);
    }

    #[test]
    fn utm_parameter_when_set_or_removed_leaves_the_rest() {
        for (target, value, changed) in [
            (
                "https://x.example",
                Some("a"),
                "https://x.example?utm_source=a",
            ),
            (
                "https://x.example/?",
                Some("a"),
                "https://x.example/?utm_source=a",
            ),
            (
                "https://x.example/?b=%7e&&c#d?e",
                Some("ä b&"),
                "https://x.example/?b=%7e&&c&utm_source=%C3%A4%20b%26#d?e",
            ),
            (
                "https://x.example/?utm_source=1&b&utm_source=2",
                Some("3"),
                "https://x.example/?b&utm_source=3",
            ),
            (
                "https://x.example/?utm_source=1&b&utm_source=2",
                None,
                "https://x.example/?b",
            ),
            (
                "https://x.example/?utm_source=1#f",
                None,
                "https://x.example/#f",
            ),
            (
                "https://x.example/?utm_source=a+b&c",
                Some("a b"),
                "https://x.example/?utm_source=a+b&c",
            ),
            (
                "https://x.example/?a?utm_source=1",
                None,
                "https://x.example/?a?utm_source=1",
            ),
        ] {
            assert_eq!(change(target, 0, value), changed, "{target}");
        }
    }

    #[test]
    fn target_when_a_parameter_makes_it_too_long_is_refused() {
        let target = TargetUrl::from_store(&format!("https://x.example/{}", "y".repeat(7970)));
        let new = |value: &str| [Some(Some(value.to_owned())), None, None, None, None];
        let longest = with(&target, &new("")).map(|target| target.as_str().len());
        assert_eq!(longest, Ok(7988 + "?utm_source=".len()));
        assert_eq!(with(&target, &new("1")), Err(TargetError::Length));
    }

    proptest! {
        #[test]
        fn utm_parameter_when_written_and_read_is_equal(value in "\\PC{1,30}", at in 0usize..5, query in "[a-z=&%+_]{0,30}") {
            let target = format!("https://x.example/?{query}");
            let changed = TargetUrl::from_store(&change(&target, at, Some(&value)));
            let read = values(&changed);
            prop_assert_eq!(read[at].as_deref(), Some(value.as_str()));
            prop_assert!(edgelink_wire::target::is_target(changed.as_str().as_bytes()));
        }
    }
}
