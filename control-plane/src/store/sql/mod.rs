//! What the SQL databases have in common: transactions are written once here, over the single statements that each
//! database brings in its own dialect ([`statements::Statements`]).

/// The columns of a link as [`rows::LinkRow`] reads them.
macro_rules! link_columns {
    () => {
        "l.id, d.name AS domain, l.code, l.url, l.redirect, l.disabled, l.valid_since, l.valid_until, \
         l.forward_query, l.title, l.tags, l.created_at, l.updated_at, l.deleted_at, l.rev"
    };
}
pub(super) use link_columns;

/// A query for links as [`rows::LinkRow`] reads them, with what follows the tables.
macro_rules! select_links {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT ",
            crate::store::sql::link_columns!(),
            " FROM links l JOIN domains d ON d.id = l.domain_id ",
            $($rest),+
        )
    };
}
pub(super) use select_links;

/// The columns that an INSERT of a link fills, in the order in which its values are bound.
macro_rules! insert_links {
    () => {
        "INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, valid_since, valid_until, \
         forward_query, title, tags, created_at, updated_at, rev) "
    };
}
pub(super) use insert_links;

pub(super) mod calls;
mod change;
pub(super) mod clicks;
pub(super) mod counters;
mod create;
pub(super) mod creation;
mod domains;
pub(super) mod fault;
pub(super) mod issuers;
pub(super) mod publisher;
pub(super) mod relay;
pub(super) mod revisions;
pub(super) mod rows;
pub(super) mod session;
pub(super) mod sizes;
pub(super) mod statements;
mod store;
pub(super) mod sweep;

pub(super) use store::SqlStore;
