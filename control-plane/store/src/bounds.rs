//! The bound below which numbers may be issued.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::drawn::Drawn;

/// Milliseconds between publishing a bound and issuing numbers above the previous one: an edge that has
/// not received it by then has stopped using admission.
pub const BOUND_LEAD_MILLIS: u64 = 60_000;

impl Store {
    /// Reads the bound, and how far numbers are drawn.
    pub async fn bound_state(&self) -> Result<BoundState, StoreError> {
        let call = self
            .read("bound_state", "reading the bound")
            .of(Class::Control);
        run!(call, |session| read(session).await)
    }

    /// Adds an unpublished bound.
    pub async fn add_bound(&self, bound: u64) -> Result<(), StoreError> {
        let call = self.write("add_bound", "adding a bound").of(Class::Control);
        run!(call, |session| {
            let insert_ignore = session.dialect().insert_ignore;
            let add = sql(format!("{insert_ignore} bounds (bound) VALUES (?)"));
            session.autocommit(add.bind(bound)).await.map(drop)
        })
    }

    /// Records that a bound was published just now, unless it was before. Lower bounds are removed once it is in effect.
    pub async fn mark_bound_published(&self, bound: u64) -> Result<(), StoreError> {
        let call = self
            .write("mark_bound_published", "marking a bound as published")
            .of(Class::Control);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let mark = sql(format!(
                "UPDATE bounds SET published_at = {now} WHERE bound = ? AND (published_at IS NULL OR published_at > {now})"
            ));
            session.autocommit(mark.bind(bound)).await?;
            // MySQL cannot select from the table that it deletes from, only from a derived table of it.
            let remove = sql(format!(
                "DELETE FROM bounds WHERE bound < (SELECT greatest FROM (SELECT MAX(bound) AS greatest FROM bounds \
                 WHERE published_at + ? <= {now}) AS counting)"
            ));
            session
                .autocommit(remove.bind(BOUND_LEAD_MILLIS))
                .await
                .map(drop)
        })
    }
}

/// Reads the state of the bound on a session.
pub(super) async fn read(session: &mut Session) -> Result<BoundState, Fault> {
    let now = session.dialect().now_millis;
    // A publication in the future comes from a clock that was ahead, and is marked again.
    let query = sql(format!(
        "SELECT (SELECT MAX(next) * 1000 FROM issuers) AS allocated, \
         CAST((SELECT SUM(next) FROM issuers) AS UNSIGNED) AS sum, \
         CAST(COALESCE((SELECT value FROM counters WHERE name = 'numbers'), 0) AS UNSIGNED) AS counted, \
         CAST(COALESCE((SELECT MAX(bound) FROM bounds WHERE published_at + ? <= {now}), 0) AS UNSIGNED) AS counts, bound, \
         published_at IS NOT NULL AND published_at <= {now} AS is_published FROM bounds ORDER BY bound DESC LIMIT 1"
    ));
    let query = query.bind(BOUND_LEAD_MILLIS);
    let (allocated, sum, counted, counts, bound, is_published) = session.fetch_one(query).await?;
    Ok(BoundState {
        drawn: Drawn {
            allocated,
            sum,
            counted,
            counts,
        },
        bound,
        is_published,
    })
}

/// Puts a bound into effect that already was before this database lost recent changes.
pub(super) async fn restore(session: &mut Session, bound: u64) -> Result<(), Fault> {
    let (now, update) = (
        session.dialect().now_millis,
        session.dialect().on_duplicate("bound"),
    );
    let insert = sql(format!(
        "INSERT INTO bounds (bound, published_at) VALUES (?, {now} - ?){update} published_at = {now} - ?"
    ));
    let insert = insert.bind_all([bound, BOUND_LEAD_MILLIS, BOUND_LEAD_MILLIS]);
    session.execute(insert).await.map(drop)
}

/// The bound of issued numbers, and the numbers drawn so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundState {
    /// Numbers drawn so far.
    pub drawn: Drawn,
    /// The greatest bound.
    pub bound: u64,
    /// True if it was published.
    pub is_published: bool,
}
