//! The confirmation before something is removed for good.

use super::layout::Layout;
use super::strings as t;
use askama::Template;

/// The confirmation page before something is removed, and its form.
#[derive(Template)]
#[template(path = "console/confirm.html")]
pub(super) struct Confirm {
    pub(super) layout: Layout,
    /// Name of the thing to remove.
    pub(super) name: String,
    /// The consequences.
    pub(super) text: String,
    pub(super) problem: String,
    /// Target of the form, which is sent with `fields`.
    pub(super) action: String,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) button: &'static str,
    /// The page to return to without removing anything.
    pub(super) back: String,
}
