//! Texts that people type: one text has several spellings in Unicode, and invisible characters around it.

use icu_normalizer::ComposingNormalizerBorrowed;
use std::borrow::Cow;

/// The text in Unicode's form NFC: keyboards and systems differ in whether they compose characters.
#[must_use]
pub fn composed(text: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// The text in form NFC, without white space and characters of no width around it.
#[must_use]
pub fn tidy(text: &str) -> String {
    let is_blank = |letter: char| letter.is_whitespace() || is_without_width(letter);
    composed(text.trim_matches(is_blank))
        .trim_matches(is_blank)
        .to_owned()
}

/// The first `most` characters of a text.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Zero width space, word joiner, and byte order mark. Joiners are parts of emoji and of scripts.
fn is_without_width(letter: char) -> bool {
    matches!(letter, '\u{200b}' | '\u{2060}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_when_typed_alike_is_equal() {
        for text in ["é", " e\u{301} ", "\u{feff}é\u{200b}", "\u{3000}é\u{a0}"] {
            assert_eq!(tidy(text), "é", "{text:?}");
        }
        let family = "\u{1f468}\u{200d}\u{1f469}";
        assert_eq!(tidy(family), family);
        assert_eq!(tidy("\u{200b} "), "");
        assert_eq!(composed(" Cafe\u{301}"), " Café");
    }
}
