//! The single statements that a database has to bring.

use super::clicks::ClickStatements;
use super::counters::CounterStatements;
use super::creation::CreationStatements;
use super::fault::{Fault, Remedy};
use super::issuers::IssuerStatements;
use super::publisher::PublisherStatements;
use super::relay::{Announcements, RelayStatements};
use super::revisions::Revisions;
use super::rows::{FoundRow, KeyRow, LinkRow, NewRow, TakenRow};
use super::sweep::SweepStatements;
use crate::model::Link;
use crate::store::{ApiKeyRow, Segment};
use edgelink_wire::{Code, Domain, LinkKey};

/// A part of the list that is one range of its index. What is behind a place is two of them, for no database reads
/// both as one range.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum ListRange {
    /// Links created at that time with a lower number than that.
    At {
        /// Unix milliseconds.
        created_at: u64,
        /// The number.
        below: u64,
    },
    /// Links created before that time, unix milliseconds.
    Before(u64),
}

impl ListRange {
    /// All links.
    pub(super) const ALL: Self = Self::Before(i64::MAX.cast_unsigned());
}

/// Statements on one connection, in one dialect. Those that last outside of a transaction say so to the session.
pub(in crate::store) trait Statements:
    RelayStatements
    + PublisherStatements
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

    /// Begins a transaction, and adds links with the revision `rev` and what is to be told of them: all of them, or
    /// [`Remedy::Duplicate`] in a transaction that is good for nothing but to be undone. What the database says of
    /// revisions after that.
    fn begin_with(
        &mut self,
        rows: &[&NewRow],
        rev: u64,
        changes: &Announcements,
        now: u64,
    ) -> impl Future<Output = Result<Revisions, Fault>> + Send;

    /// What the next revisions follow from.
    fn revisions(&mut self) -> impl Future<Output = Result<Revisions, Fault>> + Send;

    /// Raises the floor of revisions to `rev` at least. Part of a transaction.
    fn raise_floor(&mut self, rev: u64) -> impl Future<Output = Result<(), Fault>> + Send;

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

    /// Adds links with the revision `rev`: all of them, or none and [`Remedy::Duplicate`].
    fn insert_links(
        &mut self,
        rows: &[&NewRow],
        rev: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The rows that have one of these codes on that domain.
    fn find_taken(
        &mut self,
        domain_id: u32,
        codes: &[&Code],
    ) -> impl Future<Output = Result<Vec<TakenRow>, Fault>> + Send;

    /// Those of the numbers that links have.
    fn taken_numbers(
        &mut self,
        ids: &[u64],
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// Writes a new link with the revision `rev` over a tombstone; `false` where the row has changed since it was read.
    /// [`Remedy::Duplicate`] where another row has the new number.
    fn revive(
        &mut self,
        tombstone: &TakenRow,
        row: &NewRow,
        rev: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The link of that key, or its tombstone.
    fn find_link(
        &mut self,
        key: &LinkKey,
    ) -> impl Future<Output = Result<Option<LinkRow>, Fault>> + Send;

    /// The same, and what the next revisions follow from, as of one moment.
    fn look_up(&mut self, key: &LinkKey) -> impl Future<Output = Result<FoundRow, Fault>> + Send;

    /// Locks a link until the end of the transaction; `false` if there is none.
    fn lock_link(&mut self, key: &LinkKey) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Replaces content, time of change and revision of the row of that link.
    fn update_link(&mut self, link: &Link) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Makes a tombstone of the link with that number, with the revision `rev`.
    fn delete_link(
        &mut self,
        id: u64,
        rev: u64,
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Links in `range`, without tombstones, newest first.
    fn list_links(
        &mut self,
        domain: Option<&Domain>,
        range: ListRange,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<LinkRow>, Fault>> + Send;

    /// Moves an issuer on by `step`; `None` if there is no such issuer, if the numbers would not be below a bound that counts, or
    /// if the token of the publisher is less than `token`. Lasts.
    fn draw(
        &mut self,
        issuer: u16,
        step: u32,
        token: u64,
    ) -> impl Future<Output = Result<Option<Segment>, Fault>> + Send;

    /// Moves an issuer back to the start of `rest` if it stands at its end, and the token of the publisher is no less than
    /// `token`. Lasts.
    fn give_back(
        &mut self,
        rest: Segment,
        token: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

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

    /// Brings the schema up to date, or leaves a newer one as it is.
    fn migrate(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Takes or renews the lease without which no replica migrates; `false` if another owner has it. Lasts.
    fn take_migration(
        &mut self,
        owner: &str,
        milliseconds: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;
}
