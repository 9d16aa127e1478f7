//! Links: their contents, and the rules for them.

pub mod checked;
pub(crate) mod difference;
pub mod model;
pub(crate) mod utm;
pub mod words;
