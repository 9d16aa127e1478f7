//! Use cases: everything callers can do, through whichever door they come.
//!
//! A use case is a typed function of a caller and an already parsed request: [`links::Links`] has the use cases of links. A
//! [`create_link::CreateLink`] becomes a link by a number, the code of that number, and a commit; if the code is taken, by another
//! number ([`creating`]). Links that arrive while a commit runs go into the next one ([`group_commit`]).

pub(crate) mod accounting;
pub(crate) mod accounts;
pub(crate) mod analytics;
pub(crate) mod answer_room;
pub mod api_key;
pub(crate) mod asking;
pub(crate) mod audit;
mod brand;
pub(crate) mod bulk;
pub(crate) mod caller;
pub(crate) mod click_filter;
pub(crate) mod conversions;
pub(crate) mod create_link;
pub(crate) mod creating;
pub(crate) mod cursor;
pub(crate) mod domain_recheck;
pub(crate) mod domains;
pub(crate) mod dry_run;
pub(crate) mod edge_health;
pub(crate) mod fields;
pub(crate) mod first_key;
pub(crate) mod group_commit;
pub(crate) mod idempotency;
pub(crate) mod import;
pub(crate) mod key_uses;
pub(crate) mod key_verifier;
pub(crate) mod known_ids;
pub(crate) mod link_list;
pub(crate) mod link_patch;
pub(crate) mod links;
pub(crate) mod moving;
pub(crate) mod page;
pub(crate) mod passwords;
mod quota;
pub(crate) mod reports;
pub(crate) mod request;
pub(crate) mod revisions;
pub(crate) mod schemas;
pub(crate) mod seal;
pub(crate) mod tags;
pub(crate) mod tenant_links;
pub(crate) mod times;
pub(crate) mod values;
pub(crate) mod webhooks;
