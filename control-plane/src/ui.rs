//! The kit of all pages: files that browsers load, the frame of pages for visitors, and their texts.

pub(crate) mod assets;
pub(crate) mod frame;
pub(crate) mod strings;

/// Texts, each a constant.
macro_rules! texts {
    ($($name:ident = $text:literal;)+) => {
        $(pub(crate) const $name: &str = $text;)+
    };
}

pub(crate) use texts;
