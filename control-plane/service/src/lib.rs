//! Use cases: everything callers can do, through whichever door they come. Doors (HTTP, console, pages, imports) are adapters:
//! they read a request into the type of a use case, and write its outcome in their own form.
//!
//! A use case is a typed function of a caller and an already parsed request: [`links::Links`] has the use cases of links. A
//! [`create_link::CreateLink`] becomes a link by a number, the code of that number, and a commit; if the code is taken, by another
//! number ([`creating`]). Links that are created, or changed, while a transaction is on its way share the next one
//! ([`group_commit`]).

pub mod accounting;
pub mod accounts;
pub mod analytics;
pub mod answer_room;
pub mod api_key;
pub mod asking;
pub mod audit;
mod brand;
pub mod bulk;
pub mod caller;
pub mod click_filter;
pub mod conversions;
pub mod create_link;
pub mod creating;
pub mod cursor;
pub mod domain_recheck;
pub mod domains;
pub mod dry_run;
pub mod edge_health;
pub mod failed_logins;
pub mod fields;
pub mod first_key;
pub mod group_commit;
pub mod health_notes;
pub mod idempotency;
pub mod import;
pub mod key_uses;
pub mod key_verifier;
pub mod known_ids;
mod lanes;
pub mod limits;
pub mod link_list;
pub mod link_patch;
pub mod links;
pub mod logins;
pub mod moving;
pub mod numbered;
pub mod oidc;
pub mod orphans;
pub mod page;
pub mod passwords;
pub mod problem;
pub mod purge;
mod quota;
pub mod readiness;
pub mod reports;
pub mod request;
pub mod revisions;
pub mod schemas;
pub mod seal;
pub mod sessions;
pub mod tags;
pub mod tenant_links;
pub mod times;
pub mod use_cases;
pub mod values;
pub mod visitors;
pub mod webhooks;
pub mod worker_notes;
