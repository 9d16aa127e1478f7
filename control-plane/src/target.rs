//! The URL that a link goes to.

/// A checked target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl(Box<str>);

impl TargetUrl {
    /// Takes a text that was checked before it was stored.
    #[must_use]
    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }

    /// The target, byte for byte as it goes into `Location`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
