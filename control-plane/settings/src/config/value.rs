//! Secret texts, and files and servers that settings name.

use edgelink_wire::settings::{Problems, SettingValue, Value, ValueKind};
use std::fmt;
use std::io;
use std::path::PathBuf;
use url::Url;

/// A text that is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself; never log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl SettingValue for Secret {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        String::read(value, path, problems).map(Self)
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.expose().into())
    }
}

/// The name of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(pub http::HeaderName);

impl SettingValue for Header {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let name = text.parse().ok().map(Self);
        if name.is_none() {
            problems.refuse(path, format!("is '{text}', must be the name of a header"));
        }
        name
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}

/// The content of a file named by a setting. It is read with the configuration, and never logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    text: Secret,
    /// `None` without a file.
    path: Option<PathBuf>,
}

impl FileText {
    /// Creates the content of a file that does not exist.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = Secret::new(text);
        Self { text, path: None }
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.expose()
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// It can no longer be read.
    pub async fn again(&self) -> io::Result<Self> {
        let Some(path) = &self.path else {
            return Ok(self.clone());
        };
        let text = tokio::fs::read_to_string(path).await?;
        Ok(Self {
            text: Secret::new(text),
            path: self.path.clone(),
        })
    }
}

impl SettingValue for FileText {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let file = String::read(value, path, problems)?;
        let text = std::fs::read_to_string(&file).map(Secret::new);
        text.map_err(|error| {
            problems.refuse(path, format!("names {file}, which cannot be read: {error}"));
        })
        .ok()
        .map(|text| Self {
            text,
            path: Some(file.into()),
        })
    }

    fn written(&self, _: &str) -> Option<Value> {
        None
    }
}

/// Parses the URL of a server that is asked over HTTP.
///
/// # Errors
/// A description of valid values, without the text, which may be a secret.
pub(crate) fn server_url(text: &str) -> Result<Url, &'static str> {
    let is_plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    Url::parse(text).ok().filter(is_plain).ok_or(
        "must be a URL that starts with 'http://' or 'https://', without user, query and fragment",
    )
}
