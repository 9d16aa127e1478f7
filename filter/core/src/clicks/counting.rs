//! Classification of redirects as clicks.

/// Way to count a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// A click on its link.
    Plain,
    /// A click whose attributes are lost, because there is no room for them.
    Undescribed,
    /// Not counted: it is no click, or an event contains it.
    No,
}
