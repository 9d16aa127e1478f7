//! Shared parts of pages: assets, the frame of pages for visitors, and their texts.

pub(crate) mod assets;
pub(crate) mod frame;
pub(crate) mod strings;

/// Declares texts as constants.
macro_rules! texts {
    ($($name:ident = $text:literal;)+) => {
        $(pub(crate) const $name: &str = $text;)+
    };
}

pub(crate) use texts;
