//! Links: what they hold, and the rules that hold for each.

pub mod checked;
pub(crate) mod difference;
pub mod model;
pub(crate) mod utm;
pub mod words;
