//! Shared parts of pages: assets, the frame of pages for visitors, and their texts.

pub mod assets;
pub mod frame;
pub mod strings;

/// Declares texts of that visibility, each a constant.
#[macro_export]
macro_rules! texts {
    ($visibility:vis, $($name:ident = $text:literal;)+) => {
        $(
            #[doc = $text]
            $visibility const $name: &str = $text;
        )+
    };
}
