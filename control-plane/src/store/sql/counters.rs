//! [`Counters`] over any database that has [`CounterStatements`].

use super::fault::{Fault, Remedy};
use super::session::Session;
use super::statements::Statements;
use super::store::SqlStore;
use crate::store::{Counters, StoreError};
use async_trait::async_trait;
use sqlx::Database;

/// The statements that a database has to bring.
pub(in crate::store) trait CounterStatements {
    /// The number of that name, if it was ever set.
    fn find_counter(
        &mut self,
        name: &str,
    ) -> impl Future<Output = Result<Option<u64>, Fault>> + Send;

    /// Adds a number; [`Remedy::Duplicate`] where the name is taken. `false` if the token of the publisher is less than `token`.
    /// Lasts.
    fn insert_counter(
        &mut self,
        name: &str,
        value: u64,
        token: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Replaces `expected` by `new`; `false` where it is not there, or if the token of the publisher is less than `token`. Lasts.
    fn swap_counter(
        &mut self,
        name: &str,
        expected: u64,
        new: u64,
        token: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;
}

#[async_trait]
impl<DB: Database> Counters for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn counter(&self, name: &str) -> Result<u64, StoreError> {
        self.connections()
            .read("reading a counter", |mut session| async move {
                let value = session.find_counter(name).await;
                (value.map(Option::unwrap_or_default), session)
            })
            .await
    }

    async fn swap_counter(&self, name: &str, expected: u64, new: u64) -> Result<bool, StoreError> {
        let token = self.newest().token();
        let context = "moving a counter";
        let swapped = self
            .connections()
            .write(context, |mut session| async move {
                let swapped = swap(&mut session, name, expected, new, token).await;
                (swapped, session)
            })
            .await?;
        if !swapped {
            self.check_token(context, token).await?;
        }
        Ok(swapped)
    }
}

async fn swap<S: Statements>(
    session: &mut S,
    name: &str,
    expected: u64,
    new: u64,
    token: u64,
) -> Result<bool, Fault> {
    if session.swap_counter(name, expected, new, token).await? {
        return Ok(true);
    }
    if expected != 0 {
        return Ok(false);
    }
    // It may never have been set.
    match session.insert_counter(name, new, token).await {
        Err(fault) if S::remedy(&fault) == Remedy::Duplicate => Ok(false),
        inserted => inserted,
    }
}
