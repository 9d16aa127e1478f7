//! Whether a redirect is a click.

/// How a redirect is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// As a click on its link.
    Plain,
    /// The same; its attributes are lost, as there is no room for them.
    Undescribed,
    /// It is no click, or an event has it.
    No,
}
