//! Links: what they are, and how they are created.
//!
//! An [`order::Order`] becomes a link by a number, the code of that number, and a commit; if the code is taken, by another
//! number ([`creating`]). Links that arrive while a commit runs go into the next one ([`group_commit`]).

pub mod checked;
pub(crate) mod creating;
pub(crate) mod difference;
pub(crate) mod group_commit;
pub mod model;
pub(crate) mod moving;
pub(crate) mod order;
pub(crate) mod passwords;
pub(crate) mod utm;
pub mod words;
