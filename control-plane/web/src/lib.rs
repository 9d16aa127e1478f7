//! Pages in the browser: the console, and the public pages.

pub mod console;
pub mod public;
