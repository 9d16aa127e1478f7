//! Languages of the header `Accept-Language` (RFC 9110, section 12.5.4).

/// The minimum quality, in thousandths, with which a language counts as accepted, as in Shlink: a fallback language is not the
/// visitor's preference.
pub const MIN_QUALITY: u16 = 900;

/// True if the header accepts `language`, or a more specific one: `en` matches a visitor who prefers `en-GB`. `*` matches nothing.
pub(super) fn accepts(header: &[u8], language: &[u8]) -> bool {
    header.split(|byte| *byte == b',').any(|item| {
        let mut parts = item.split(|byte| *byte == b';');
        let range = parts.next().unwrap_or_default().trim_ascii();
        includes(language, range) && quality(parts) >= MIN_QUALITY
    })
}

/// True if `range` is the language, or begins with it and a hyphen.
fn includes(language: &[u8], range: &[u8]) -> bool {
    let Some((start, rest)) = range.split_at_checked(language.len()) else {
        return false;
    };
    let is_same = start
        .iter()
        .zip(language)
        .all(|(one, other)| canonical(*one) == canonical(*other));
    is_same && matches!(rest.first(), None | Some(b'-' | b'_'))
}

/// Folds case, and the underscore that some clients send for the hyphen.
fn canonical(byte: u8) -> u8 {
    match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    }
}

/// The quality among the parameters of a range, in thousandths: 1000 if there is none, 0 if it is malformed.
fn quality<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> u16 {
    let mut values = parameters.filter_map(|parameter| {
        let (name, value) = parameter.trim_ascii().split_first_chunk::<2>()?;
        matches!(name, b"q=" | b"Q=").then_some(value)
    });
    values
        .next()
        .map_or(1_000, |value| thousandths(value).unwrap_or(0))
}

/// Parses `0.8`; digits behind the third are truncated.
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] => (whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    match whole {
        b'1' => Some(1_000),
        b'0' => {
            let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(3);
            Some(digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        }
        _ => None,
    }
}

/// True if a text has the form of a language: subtags of one to eight letters and digits (RFC 5646, section 2.1), separated by
/// hyphens or underscores.
pub(super) fn is_language(text: &str) -> bool {
    let is_subtag = |subtag: &str| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.split(['-', '_']).all(is_subtag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_when_preferred_is_accepted() {
        for (header, language, is_accepted) in [
            ("en", "en", true),
            ("en-GB,en;q=0.9", "en", true),
            ("EN-gb", "en", true),
            ("en-GB", "en_gb", true),
            ("en_GB", "en-GB", true),
            ("en", "en-GB", false),
            ("eng", "en", false),
            ("en-US", "en-GB", false),
            ("zh-Hant-TW", "zh-Hant", true),
            ("de, en;q=0.9", "en", true),
            ("de, en;q=0.8", "en", false),
            ("de, en ; q=0.900", "en", true),
            ("en;level=1;q=0.5", "en", false),
            ("en;q=0", "en", false),
            ("en;q=0,en;q=1", "en", true),
            ("en;q=1.000", "en", true),
            ("en;Q=0.95", "en", true),
            ("en;q=x", "en", false),
            ("en;q=", "en", false),
            ("en;q=2", "en", false),
            ("*", "en", false),
            ("", "en", false),
            (",;,q=1,;;", "en", false),
        ] {
            let accepted = accepts(header.as_bytes(), language.as_bytes());
            assert_eq!(accepted, is_accepted, "{header} accepts {language}");
        }
    }

    #[test]
    fn language_tag_when_malformed_is_refused() {
        for text in ["en", "en-GB", "zh_Hant_TW", "es-419"] {
            assert!(is_language(text), "{text}");
        }
        for text in ["", "en-", "-en", "en GB", "*", "englishes1", "dé"] {
            assert!(!is_language(text), "{text}");
        }
    }
}
