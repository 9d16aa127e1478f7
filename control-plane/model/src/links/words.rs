//! Words for finding links: words of titles and tags, and search words.
//!
//! Words are in lower case. A search finds a link if each of its words begins the code, the host of the target, or a
//! word of title or tags.

use crate::links::model::LinkContent;
use crate::text::cut;
use edgelink_wire::domain_name;
use std::collections::BTreeSet;

/// The most words of a link; further ones are not searched.
pub const MAX_WORDS: usize = 64;

/// The longest word in characters; longer ones are cut.
pub const MAX_WORD_LENGTH: usize = 64;

/// The most words of a search.
pub const MAX_SEARCH_WORDS: usize = 4;

/// The longest search in characters.
pub const MAX_SEARCH_LENGTH: usize = 512;

/// Sorts after all texts with the same beginning, in byte order.
const LAST: char = char::MAX;

/// The words of title and tags.
#[must_use]
pub fn words_of(content: &LinkContent) -> BTreeSet<String> {
    let title = content.title.iter();
    let texts = title.chain(&content.tags);
    let mut words = BTreeSet::new();
    for word in texts.flat_map(|text| text.split(' ')) {
        if words.len() == MAX_WORDS {
            break;
        }
        if !word.is_empty() {
            words.insert(cut(&word.to_lowercase(), MAX_WORD_LENGTH).to_owned());
        }
    }
    words
}

/// The words of a search, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchTerm(Vec<SearchWord>);

/// The text cannot be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 4 words of at most 512 characters in all, without control characters")]
pub struct SearchError;

impl SearchTerm {
    /// Parses the text of a search. Scheme and `www.` of an address are ignored.
    ///
    /// # Errors
    /// [`SearchError`] if there is no word, or too many.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        let is_valid =
            text.chars().count() <= MAX_SEARCH_LENGTH && !text.chars().any(char::is_control);
        let words: Vec<SearchWord> = text
            .split_whitespace()
            .filter_map(SearchWord::new)
            .collect();
        if !is_valid || words.is_empty() || words.len() > MAX_SEARCH_WORDS {
            return Err(SearchError);
        }
        Ok(Self(words))
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[SearchWord] {
        &self.0
    }

    /// The words, the longest first, because it is usually the rarest.
    #[must_use]
    pub fn longest_first(&self) -> Vec<&SearchWord> {
        let mut words: Vec<&SearchWord> = self.0.iter().collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.text.len()));
        words
    }
}

/// A word of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchWord {
    text: String,
    hosts: [TextRange; 2],
    words: TextRange,
}

/// Texts from `from`, inclusive, to `to`, exclusive, in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// The first text.
    pub from: String,
    /// The first text after the range.
    pub to: String,
}

impl TextRange {
    /// The texts that begin with `prefix`.
    #[must_use]
    pub fn beginning(prefix: &str) -> Self {
        Self {
            from: prefix.to_owned(),
            to: format!("{prefix}{LAST}"),
        }
    }

    /// This text alone.
    fn only(text: &str) -> Self {
        Self {
            from: text.to_owned(),
            to: format!("{text}\0"),
        }
    }

    /// True if the text is in the range.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.from.as_str() <= text && text < self.to.as_str()
    }
}

impl SearchWord {
    /// `None` if only a scheme is left.
    fn new(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let mut rest = text.as_str();
        for scheme in ["https://", "http://"] {
            rest = rest.strip_prefix(scheme).unwrap_or(rest);
        }
        if let Some(host) = rest.strip_prefix("www.").filter(|host| !host.is_empty()) {
            rest = host;
        }
        let (typed, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let range = if path.is_empty() {
            TextRange::beginning
        } else {
            TextRange::only
        };
        // Targets have hosts in Punycode.
        let host = domain_name::ascii(typed).unwrap_or(typed.into());
        (!rest.is_empty()).then(|| Self {
            text: if path.is_empty() {
                rest.to_owned()
            } else {
                format!("{host}{path}")
            },
            hosts: [range(&host), range(&format!("www.{host}"))],
            words: TextRange::beginning(cut(rest, MAX_WORD_LENGTH)),
        })
    }

    /// The word in lower case, without scheme and `www.`
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Hosts of targets that match the word: before a path, the host is complete.
    #[must_use]
    pub fn hosts(&self) -> &[TextRange; 2] {
        &self.hosts
    }

    /// True if targets must contain the whole word, because it is more than a host.
    #[must_use]
    pub fn has_path(&self) -> bool {
        self.text.contains(['/', '?', '#'])
    }

    /// Words of titles and tags that match the word.
    #[must_use]
    pub fn words(&self) -> &TextRange {
        &self.words
    }

    /// True if a code can begin like this.
    #[must_use]
    pub fn is_code(&self) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        self.text.len() <= MAX_WORD_LENGTH && self.text.bytes().all(is_allowed)
    }

    /// The word, or a beginning of it, in upper and lower case: at most `most`, and at least two, spellings where it
    /// has a letter.
    #[must_use]
    pub fn spellings(&self, most: usize) -> Vec<String> {
        let mut spellings = vec![String::new()];
        for letter in self.text.chars() {
            let other = letter.to_ascii_uppercase();
            if other == letter {
                spellings.iter_mut().for_each(|text| text.push(letter));
                continue;
            }
            if spellings.len() > 1 && spellings.len() * 2 > most {
                break;
            }
            let upper = spellings
                .clone()
                .into_iter()
                .map(|text| text + &other.to_string());
            let upper: Vec<String> = upper.collect();
            spellings.iter_mut().for_each(|text| text.push(letter));
            spellings.extend(upper);
        }
        spellings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::target::TargetUrl;

    fn word(text: &str) -> SearchWord {
        let term = SearchTerm::parse(text).unwrap();
        term.words()[0].clone()
    }

    #[test]
    fn words_when_taken_from_title_and_tags_are_lower_case() {
        let content = LinkContent {
            title: Some("Summer  Sale".to_owned()),
            tags: vec!["Team \u{c4}".to_owned(), "sale".to_owned()],
            ..LinkContent::to(TargetUrl::from_store("https://x.example/"))
        };
        let words: Vec<String> = words_of(&content).into_iter().collect();
        assert_eq!(words, ["sale", "summer", "team", "\u{e4}"]);
    }

    #[test]
    fn words_when_too_many_or_too_long_are_cut() {
        let many: Vec<String> = (0..100).map(|n| format!("w{n:03}")).collect();
        let mut content = LinkContent::to(TargetUrl::from_store("https://x.example/"));
        content.title = Some(many.join(" "));
        assert_eq!(words_of(&content).len(), MAX_WORDS);
        content.title = Some("\u{e4}".repeat(100));
        let words = words_of(&content);
        assert_eq!(
            words.first().map(|word| word.chars().count()),
            Some(MAX_WORD_LENGTH)
        );
    }

    #[test]
    fn search_term_when_not_of_one_to_four_words_is_refused() {
        for text in ["", "  ", "a b c d e", "https://", "a\nb", &"a".repeat(513)] {
            assert_eq!(SearchTerm::parse(text), Err(SearchError), "{text:?}");
        }
        let term = SearchTerm::parse(" A  bcd e ").unwrap();
        let words: Vec<&str> = term.words().iter().map(SearchWord::text).collect();
        assert_eq!(words, ["a", "bcd", "e"]);
        assert_eq!(term.longest_first()[0].text(), "bcd");
    }

    #[test]
    fn search_word_when_an_address_means_its_host() {
        let host = word("https://www.Example.com");
        assert_eq!(host.text(), "example.com");
        let [bare, www] = host.hosts();
        assert!(bare.contains("example.com:8080") && www.contains("www.example.com"));
        assert!(!host.has_path());
        let path = word("http://example.com/a?b");
        assert!(path.has_path());
        let [bare, www] = path.hosts();
        assert!(bare.contains("example.com") && www.contains("www.example.com"));
        assert!(!bare.contains("example.community"));
        assert_eq!(word("www.").text(), "www.");
        let [bare, _] = word("www.bücher.example").hosts().clone();
        assert!(bare.contains("xn--bcher-kva.example"));
    }

    #[test]
    fn search_word_when_it_has_many_spellings_is_shortened() {
        assert_eq!(word("12-3").spellings(8), ["12-3"]);
        assert_eq!(word("a1b").spellings(8), ["a1b", "A1b", "a1B", "A1B"]);
        let long = word("abcdefgh").spellings(8);
        assert_eq!(long.len(), 8);
        assert!(long.iter().all(|text| text.len() == 3));
        assert_eq!(word("abc").spellings(1), ["a", "A"]);
    }

    #[test]
    fn search_word_when_no_code_begins_with_it_is_no_code() {
        assert!(word("a_B-9").is_code());
        assert!(!word("a.b").is_code());
        assert!(!word(&"a".repeat(65)).is_code());
    }
}
