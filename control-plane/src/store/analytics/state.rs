//! The row that whatever changes clicks locks.

use crate::store::error::Fault;
use crate::store::session::Session;
use crate::store::sql::sql;

/// The row of `click_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(super) struct State {
    /// The number of the next click.
    pub(super) number: u64,
    /// The first day that is not in `click_days`.
    pub(super) days_until: u32,
    /// Whether a part of the rollups of that day is there.
    pub(super) is_building: bool,
}

impl State {
    /// Reads the row and locks it, so that no other transaction changes clicks before this one ends: not on another node of a Galera
    /// cluster either, as it is written.
    pub(super) async fn lock(session: &mut Session) -> Result<Self, Fault> {
        let write = sql("UPDATE click_state SET writes = writes + 1 WHERE id = 1");
        session.execute(write).await?;
        Self::read(session).await
    }

    /// Reads the row.
    pub(super) async fn read(session: &mut Session) -> Result<Self, Fault> {
        let query = sql("SELECT number, days_until, is_building FROM click_state WHERE id = 1");
        session.fetch_one(query).await
    }
}
