//! The single statements that a database has to bring.

use super::clicks::ClickStatements;
use super::counters::CounterStatements;
use super::creation::CreationStatements;
use super::fault::{Fault, Remedy};
use super::issuers::IssuerStatements;
use super::relay::{Announcements, RelayStatements};
use super::rows::{KeyRow, LinkRow, NewRow, TakenRow};
use super::sweep::SweepStatements;
use crate::model::LinkContent;
use crate::store::{ApiKeyRow, ListQuery, Segment};
use edgelink_wire::{Domain, LinkKey};

/// Statements on one connection, in one dialect. Those that last outside of a transaction say so to the session.
pub(in crate::store) trait Statements:
    RelayStatements
    + ClickStatements
    + CounterStatements
    + CreationStatements
    + IssuerStatements
    + SweepStatements
    + Send
{
    /// What to do about an error of this database.
    fn remedy(fault: &Fault) -> Remedy;

    /// Begins a transaction that will write.
    fn begin(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Begins a transaction, and adds links and what is to be told of them: all of them, or [`Remedy::Duplicate`] in a
    /// transaction that is good for nothing but to be undone.
    fn begin_with(
        &mut self,
        rows: &[&NewRow],
        changes: &Announcements,
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Commits it, after so many `rows` were written. Lasts.
    fn commit(&mut self, rows: usize) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Undoes it; harmless where the database has undone it already.
    fn rollback(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Answers when the database does.
    fn ping(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The key of a domain.
    fn find_domain(
        &mut self,
        domain: &Domain,
    ) -> impl Future<Output = Result<Option<u32>, Fault>> + Send;

    /// Adds a domain; [`Remedy::Duplicate`] where it is there already.
    fn insert_domain(&mut self, domain: &Domain) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Adds links: all of them, or none and [`Remedy::Duplicate`].
    fn insert_links(&mut self, rows: &[&NewRow]) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The rows that have one of these codes. All of `rows` are on one domain.
    fn find_taken(
        &mut self,
        domain_id: u32,
        rows: &[&NewRow],
    ) -> impl Future<Output = Result<Vec<TakenRow>, Fault>> + Send;

    /// Those numbers of `rows` that links have.
    fn taken_numbers(
        &mut self,
        rows: &[&NewRow],
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// Writes a new link over a tombstone and raises its revision; `false` where the row has changed since it was read.
    /// [`Remedy::Duplicate`] where another row has the new number.
    fn revive(
        &mut self,
        tombstone: &TakenRow,
        row: &NewRow,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The link of that key, or its tombstone.
    fn find_link(
        &mut self,
        key: &LinkKey,
    ) -> impl Future<Output = Result<Option<LinkRow>, Fault>> + Send;

    /// Locks a link until the end of the transaction, and answers its number.
    fn lock_link(
        &mut self,
        key: &LinkKey,
    ) -> impl Future<Output = Result<Option<u64>, Fault>> + Send;

    /// Replaces the content of the link with that number and raises its revision.
    fn update_link(
        &mut self,
        id: u64,
        content: &LinkContent,
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Makes a tombstone of the link with that number and raises its revision.
    fn delete_link(&mut self, id: u64, now: u64) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Links without tombstones, newest first.
    fn list_links(
        &mut self,
        query: &ListQuery,
    ) -> impl Future<Output = Result<Vec<LinkRow>, Fault>> + Send;

    /// Moves an issuer on by `step`; nothing where there is no such issuer, or where the numbers would not be below a
    /// bound that counts. Lasts.
    fn draw(
        &mut self,
        issuer: u16,
        step: u32,
    ) -> impl Future<Output = Result<Option<Segment>, Fault>> + Send;

    /// Moves an issuer back to the start of `rest` where it stands at its end. Lasts.
    fn give_back(&mut self, rest: Segment) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Adds an API key. Lasts.
    fn insert_api_key(&mut self, key: &ApiKeyRow)
    -> impl Future<Output = Result<(), Fault>> + Send;

    /// The API key of that id.
    fn find_api_key(
        &mut self,
        id: &str,
    ) -> impl Future<Output = Result<Option<KeyRow>, Fault>> + Send;

    /// Whether there is any API key.
    fn has_api_keys(&mut self) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// All API keys, oldest first.
    fn list_api_keys(&mut self) -> impl Future<Output = Result<Vec<KeyRow>, Fault>> + Send;

    /// Forgets an API key; `false` where there is none. Lasts.
    fn delete_api_key(&mut self, id: &str) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Brings the schema up to date while no other replica does.
    fn migrate(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}
