//! Links: their contents, and the rules for them.

pub mod checked;
pub mod difference;
pub mod model;
pub mod utm;
pub mod words;
