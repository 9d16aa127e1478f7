//! Use cases: what callers can do, whichever door they come through.
//!
//! An [`order::Order`] becomes a link by a number, the code of that number, and a commit; if the code is taken, by another
//! number ([`creating`]). Links that arrive while a commit runs go into the next one ([`group_commit`]).

pub(crate) mod creating;
pub(crate) mod domain_recheck;
pub(crate) mod group_commit;
pub(crate) mod moving;
pub(crate) mod order;
pub(crate) mod passwords;
