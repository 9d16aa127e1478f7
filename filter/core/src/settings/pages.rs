//! The section `pages` of the plugin configuration.

use super::{SettingsError, wrong};
use serde::Deserialize;
use std::rc::Rc;

/// The HTML of the answers that are no redirects.
#[derive(Debug)]
pub struct Pages {
    /// 404.
    pub not_found: Rc<str>,
    /// 410.
    pub gone: Rc<str>,
    /// 503.
    pub unavailable: Rc<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Raw {
    /// HTML of 404, at most 16384 bytes.
    not_found: Option<String>,
    /// HTML of 410, at most 16384 bytes.
    gone: Option<String>,
    /// HTML of 503, at most 16384 bytes.
    unavailable: Option<String>,
}

impl Raw {
    pub(super) fn check(self) -> Result<Pages, SettingsError> {
        Ok(Pages {
            not_found: page("pages.notFound", self.not_found, NOT_FOUND)?,
            gone: page("pages.gone", self.gone, GONE)?,
            unavailable: page("pages.unavailable", self.unavailable, UNAVAILABLE)?,
        })
    }
}

fn page(
    field: &'static str,
    html: Option<String>,
    default: &str,
) -> Result<Rc<str>, SettingsError> {
    match html {
        Some(html) if html.len() > 16_384 => Err(wrong(field, "at most 16384 bytes long")),
        Some(html) => Ok(html.into()),
        None => Ok(default.into()),
    }
}

const NOT_FOUND: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Not found</title><h1>Not found</h1><p>There is no such short link.\n";
const GONE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Gone</title><h1>Gone</h1><p>This short link is no longer valid.\n";
const UNAVAILABLE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Unavailable</title><h1>Please try again</h1><p>The short link could not be looked up.\n";
