//! The question before something is removed that no button brings back.

use super::layout::Layout;
use super::strings as t;
use askama::Template;

/// The question before something is removed, and the form that answers it.
#[derive(Template)]
#[template(path = "console/confirm.html")]
pub(super) struct Confirm {
    pub(super) layout: Layout,
    /// What it is about.
    pub(super) name: String,
    /// What follows.
    pub(super) text: String,
    pub(super) problem: String,
    /// Where the form is sent to, with these fields.
    pub(super) action: String,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) button: &'static str,
    /// The page that is left as it is.
    pub(super) back: String,
}
