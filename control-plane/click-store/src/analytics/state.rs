//! The row that every change of clicks locks.

use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;

/// The row of `click_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(super) struct ClickState {
    /// The number of the next click.
    pub(super) number: u64,
    /// The first day that is not in `click_days`.
    pub(super) days_until: u32,
    /// True if that day has some of its rollups.
    pub(super) is_building: bool,
}

impl ClickState {
    /// Reads the row and locks it, so that no other transaction changes clicks before this one ends. As it is written, this holds
    /// across the nodes of a Galera cluster too.
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
