//! What clicks are counted by, and the documents that hold the counts.

mod attribute;
pub mod rollup;
mod scope;
pub mod sketch;

pub use attribute::{Attribute, Bots, OTHER};
pub use scope::Scope;
