//! What visitors see instead of a redirect.

use super::error::Checks;
use super::text;
use serde::Deserialize;
use std::path::PathBuf;

/// Files of HTML that visitors see instead of a redirect. They are read once, at the start, and each may have at most
/// 65,536 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct PagesConfig {
    /// For 404: there is no such link, or not yet. Default none: a built-in page.
    pub not_found: Option<PathBuf>,
    /// For 410: the link has expired or was switched off. Default none: a built-in page.
    pub gone: Option<PathBuf>,
    /// For 503: the link cannot be looked up at the moment. Default none: a built-in page.
    pub unavailable: Option<PathBuf>,
    /// What the files hold.
    #[serde(skip)]
    pub(crate) html: PagesHtml,
}

/// The pages themselves; none where the built-in page is to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PagesHtml {
    pub(crate) not_found: Option<String>,
    pub(crate) gone: Option<String>,
    pub(crate) unavailable: Option<String>,
}

const MAX_PAGE_BYTES: usize = 65_536;

impl PagesConfig {
    pub(super) fn complete(&mut self, checks: &mut Checks) {
        self.html = PagesHtml {
            not_found: read("pages.not_found", self.not_found.as_ref(), checks),
            gone: read("pages.gone", self.gone.as_ref(), checks),
            unavailable: read("pages.unavailable", self.unavailable.as_ref(), checks),
        };
    }
}

fn read(field: &str, path: Option<&PathBuf>, checks: &mut Checks) -> Option<String> {
    match text::read_file(path?) {
        Ok(html) if html.len() <= MAX_PAGE_BYTES => Some(html),
        Ok(html) => {
            let length = html.len();
            checks.refuse(
                field,
                format!("names a file of {length} bytes, must be at most {MAX_PAGE_BYTES}"),
            );
            None
        }
        Err(reason) => {
            checks.refuse(field, reason);
            None
        }
    }
}
