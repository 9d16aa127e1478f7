//! Creating many links in one transaction, where a taken code or number fails alone.
//!
//! Nearly always nothing is taken, so everything is inserted at once and only a refusal is looked into: what is taken
//! for good gets its answer, tombstones are revived, and the rest is inserted again.
//!
//! The rows in the way are read without a lock. A refused INSERT has left a shared lock on one of them, and asking for
//! an exclusive one would be a deadlock with everybody else who was refused there; so a tombstone is revived only if it
//! still is as it was read.

use super::calls::{Store, run};
use super::dialect::Dialect;
use super::error::{Fault, Remedy, StoreError};
use super::links::set_content;
use super::outbox::NewChanges;
use super::revisions::{LastRevisions, Revisions};
use super::rows::{StoredContent, numbers};
use super::session::Session;
use super::sql::{LONGEST, Sql, Value, insert_literally, pieces, sql};
use crate::model::{Link, LinkContent};
use edgelink_wire::{Code, LinkKey, LinkRecord, Record};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Store {
    /// Creates links in one transaction; the answers are in the order of `links`. One that fails leaves the others.
    ///
    /// The code of a deleted link is free: its row is revived with the next revision, the new number and a new
    /// creation time, so that caches which hold the deletion take the new link.
    pub async fn create_links(
        &self,
        links: Vec<NewLink>,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError> {
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<LinkKey> = links.iter().map(|link| link.key.clone()).collect();
        let new = self.new_rows(links).await?;
        let created = run!(self.write("create_links", "creating links"), |session| {
            let outcomes = new.begin_and_create(session).await?;
            session.commit(new.rows.len()).await?;
            Ok(outcomes)
        });
        self.changed(&keys);
        Ok(new.into_answers(created?))
    }

    /// Whether links like these, by number and key, could not be created right now: another link has the number or the
    /// code. The answers are in the order of `links`.
    pub async fn are_taken(&self, links: &[(u64, LinkKey)]) -> Result<Vec<bool>, StoreError> {
        let mut looked_up = Vec::with_capacity(links.len());
        for (id, key) in links {
            looked_up.push((*id, self.domain_key(&key.domain).await?, &key.code));
        }
        let call = self.read("are_taken", "looking for free codes");
        run!(call, |session| are_taken(session, &looked_up).await)
    }

    /// New links as they go into the database.
    pub(super) async fn new_rows(&self, links: Vec<NewLink>) -> Result<NewRows, StoreError> {
        let now = self.now().await?;
        let mut rows = Vec::with_capacity(links.len());
        for link in links {
            check_numbers(&link)?;
            let domain_id = self.domain_key(&link.key.domain).await?;
            rows.push(NewRow::new(link, domain_id, now));
        }
        Ok(NewRows {
            rows,
            limits: self.limits(),
            last: Arc::clone(&self.last_revisions),
            now,
        })
    }

    /// How much one INSERT may carry.
    pub(super) fn limits(&self) -> ChunkLimits {
        ChunkLimits {
            rows: LONGEST,
            bytes: self.max_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Databases without unsigned numbers end at 2^63 - 1, so all of them do.
fn check_numbers(link: &NewLink) -> Result<(), StoreError> {
    let times = [link.content.valid_since, link.content.valid_until];
    let numbers = times.into_iter().flatten().chain([link.id]);
    match numbers.max() {
        Some(largest) if i64::try_from(largest).is_err() => {
            let reason = format!("{largest} is larger than any number of a link");
            Err(Fault::Refused(reason).into_error("creating links", Remedy::GiveUp))
        }
        _ => Ok(()),
    }
}

/// A link that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// The number of the link; its primary key.
    pub id: u64,
    /// Domain and code.
    pub key: LinkKey,
    /// The rest.
    pub content: LinkContent,
}

/// Why one link of several was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The code is taken on this domain.
    #[error("the code is taken")]
    CodeTaken,
    /// Another link has the number; the caller takes the next one.
    #[error("the number is taken")]
    NumberTaken,
}

/// How often the rest is inserted again. Each round settles every link that stands in the way by then, so a further one
/// is needed only where others commit a clash in between.
const MAX_ROUNDS: usize = 4;

/// How much one INSERT may carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkLimits {
    /// In rows; databases bound the number of parameters.
    pub(super) rows: usize,
    /// In bytes; MySQL bounds the size of a packet. A single row may be larger.
    pub(super) bytes: usize,
}

/// The revision of a created link, or why it was not created.
pub(super) type Outcome = Result<u64, CreateError>;

/// A link on its way into the database.
#[derive(Debug)]
pub(super) struct NewRow {
    pub(super) domain_id: u32,
    /// Its revision follows in the transaction.
    pub(super) link: Link,
    stored: StoredContent,
}

impl NewRow {
    fn new(new: NewLink, domain_id: u32, now: u64) -> Self {
        Self {
            domain_id,
            stored: StoredContent::new(&new.key.domain, &new.content),
            link: Link {
                id: new.id,
                domain: new.key.domain,
                code: new.key.code,
                content: new.content,
                created_at: now,
                updated_at: now,
                rev: 0,
            },
        }
    }

    /// About how many bytes the row takes in a packet to the server.
    fn wire_size(&self) -> usize {
        const NUMBERS: usize = 128;
        let content = &self.link.content;
        let title = content.title.as_ref().map_or(0, String::len);
        let tags = self.stored.tags().len();
        NUMBERS + content.target.as_str().len() + title + tags + self.link.code.as_str().len()
    }

    /// The values of [`INSERT_LINKS`] for the link with the revision `rev`.
    fn values(&self, rev: u64) -> [Value<'_>; 16] {
        let link = &self.link;
        let head: [Value<'_>; 3] = [link.id.into(), self.domain_id.into(), (&link.code).into()];
        let content = self.stored.values(&link.content);
        let tail: [Value<'_>; 3] = [link.created_at.into(), link.updated_at.into(), rev.into()];
        let mut values = head.into_iter().chain(content).chain(tail);
        std::array::from_fn(|_| values.next().unwrap_or(Value::Null))
    }

    /// What caches are told of the link with the revision `rev`.
    fn record(&self, rev: u64) -> Record<&str> {
        match self.link.record() {
            Record::Link(link) => Record::Link(LinkRecord { rev, ..link }),
            absent @ Record::Absent { .. } => absent,
        }
    }
}

const INSERT_LINKS: &str = "INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, \
     valid_since, valid_until, forward_query, title, tags, created_at, updated_at, rev) ";

/// The statement that adds links with the revision `rev`: all of them, or it fails as a duplicate.
fn insert_links<'r>(rows: &[&'r NewRow], rev: u64) -> Sql<'r> {
    sql(INSERT_LINKS).rows(rows.iter().map(|row| row.values(rev)))
}

/// Links on their way into the database, at `now` by its clock.
pub(super) struct NewRows {
    pub(super) rows: Vec<NewRow>,
    pub(super) limits: ChunkLimits,
    last: Arc<LastRevisions>,
    pub(super) now: u64,
}

impl NewRows {
    /// Begins a transaction and creates the links in it; the outcomes are in their order.
    pub(super) async fn begin_and_create(
        &self,
        session: &mut Session,
    ) -> Result<Vec<Outcome>, Fault> {
        if let Some(outcomes) = self.create_at_once(session).await? {
            return Ok(outcomes);
        }
        session.begin().await?;
        self.create(session).await
    }

    /// Begins a transaction and creates all links with as few messages to the server as there can be. Nothing is begun if
    /// they are too many for that, or if something stands in the way of one of them.
    ///
    /// Their revision is a guess by what the database has said last, and it counts if it still fits in the end. The floor is
    /// read after the links are there: had one of them waited for its own tombstone to be purged, that is seen.
    async fn create_at_once(&self, session: &mut Session) -> Result<Option<Vec<Outcome>>, Fault> {
        let Some(rev) = self.last.guess().map(|guess| guess.first()) else {
            return Ok(None);
        };
        let mut creation = Creation::new(&self.rows, rev);
        let order = creation.order();
        let mut changes = NewChanges::default();
        for row in &self.rows {
            changes.push(&row.link.key(), &row.record(rev));
        }
        if order.len() < self.rows.len() || !self.fit_at_once(&changes) {
            return Ok(None);
        }
        let rows = creation.rows_of(&order);
        match begin_with(session, &rows, rev, &changes, self.now).await {
            Ok(revisions) => {
                self.last.note(revisions);
                if revisions.allow(rev) {
                    return Ok(Some(vec![Ok(rev); self.rows.len()]));
                }
            }
            Err(fault) if fault.is_duplicate() => {}
            Err(fault) => return Err(fault),
        }
        session.rollback().await?;
        Ok(None)
    }

    fn fit_at_once(&self, changes: &NewChanges) -> bool {
        let links: usize = self.rows.iter().map(NewRow::wire_size).sum();
        // As text, each byte takes two.
        self.rows.len() <= self.limits.rows && (links + changes.size()) * 2 <= self.limits.bytes
    }

    /// Creates the links within a transaction that has begun.
    pub(super) async fn create(&self, session: &mut Session) -> Result<Vec<Outcome>, Fault> {
        let first = Revisions::read(session).await?.first();
        let mut creation = Creation::new(&self.rows, first);
        let order = creation.order();
        for chunk in chunks(&self.rows, &order, self.limits)
            .into_iter()
            .flat_map(pieces)
        {
            creation.add(session, chunk.to_vec()).await?;
        }
        let outcomes = creation.into_outcomes()?;
        let mut changes = NewChanges::default();
        for (row, outcome) in self.rows.iter().zip(&outcomes) {
            if let Ok(rev) = outcome {
                changes.push(&row.link.key(), &row.record(*rev));
            }
        }
        changes.write(session, self.now).await?;
        // Refused if the floor was raised above these revisions meanwhile.
        if Revisions::read(session).await?.effective(first) > first {
            return Err(Fault::Contended);
        }
        Ok(outcomes)
    }

    /// The created links, or why they were not created.
    pub(super) fn into_answers(self, outcomes: Vec<Outcome>) -> Vec<Result<Link, CreateError>> {
        let answer = |(row, outcome): (NewRow, Outcome)| {
            let rev = outcome?;
            Ok(Link { rev, ..row.link })
        };
        self.rows.into_iter().zip(outcomes).map(answer).collect()
    }
}

/// Begins a transaction, and adds links with the revision `rev` and their changes: all of them, or it fails as a duplicate
/// in a transaction that is good for nothing but to be undone. What the database says of revisions after that.
///
/// A prepared statement has a fixed number of rows, so a batch of any length takes several, each with its own way to the
/// server and back. As one text it takes one.
async fn begin_with(
    session: &mut Session,
    rows: &[&NewRow],
    rev: u64,
    changes: &NewChanges,
    now: u64,
) -> Result<Revisions, Fault> {
    if session.dialect().takes_scripts() {
        let script = script(session.dialect(), rows, rev, changes, now);
        return session.script(script).await;
    }
    session.begin().await?;
    for piece in pieces(rows) {
        session.execute(insert_links(piece, rev)).await?;
    }
    changes.write(session, now).await?;
    Revisions::read(session).await
}

fn script(dialect: &Dialect, rows: &[&NewRow], rev: u64, changes: &NewChanges, now: u64) -> String {
    let mut script = String::with_capacity(512 * (rows.len() + 1));
    script.push_str(dialect.begin);
    script.push_str("; ");
    let links = rows.iter().map(|row| row.values(rev));
    insert_literally(&mut script, INSERT_LINKS, links);
    script.push_str("; ");
    changes.insert_literally(&mut script, now);
    script.push_str("; ");
    script.push_str(&Revisions::select(dialect));
    script
}

struct Creation<'a> {
    rows: &'a [NewRow],
    /// The revision of links that had none.
    first: u64,
    outcomes: Vec<Option<Outcome>>,
}

impl<'a> Creation<'a> {
    fn new(rows: &'a [NewRow], first: u64) -> Self {
        Self {
            rows,
            first,
            outcomes: vec![None; rows.len()],
        }
    }

    /// Answers links that repeat a code or number of this very call, and puts the others in the order of the unique
    /// index: transactions that lock the same codes in the same order do not deadlock.
    fn order(&mut self) -> Vec<usize> {
        let mut codes = HashSet::new();
        let mut numbers = HashSet::new();
        for (row, outcome) in self.rows.iter().zip(&mut self.outcomes) {
            if !codes.insert((row.domain_id, &row.link.code)) {
                *outcome = Some(Err(CreateError::CodeTaken));
            } else if !numbers.insert(row.link.id) {
                *outcome = Some(Err(CreateError::NumberTaken));
            }
        }
        let mut order = self.unsettled(0..self.rows.len());
        order.sort_unstable_by_key(|index| {
            let row = &self.rows[*index];
            (row.domain_id, &row.link.code)
        });
        order
    }

    async fn add(&mut self, session: &mut Session, mut pending: Vec<usize>) -> Result<(), Fault> {
        for _ in 0..MAX_ROUNDS {
            if pending.is_empty() {
                return Ok(());
            }
            let rows = self.rows_of(&pending);
            match session.execute(insert_links(&rows, self.first)).await {
                Ok(_) => {
                    for index in pending {
                        self.outcomes[index] = Some(Ok(self.first));
                    }
                    return Ok(());
                }
                Err(fault) if fault.is_duplicate() => {}
                Err(fault) => return Err(fault),
            }
            self.settle_numbers(session, &pending).await?;
            pending = self.unsettled(pending);
            self.settle_codes(session, &pending).await?;
            pending = self.unsettled(pending);
        }
        Err(Fault::Contended)
    }

    async fn settle_numbers(
        &mut self,
        session: &mut Session,
        pending: &[usize],
    ) -> Result<(), Fault> {
        let id = |index: &usize| self.rows[*index].link.id;
        let ids: Vec<u64> = pending.iter().map(id).collect();
        let taken = taken_numbers(session, &ids).await?;
        let taken: HashSet<u64> = taken.into_iter().collect();
        for index in pending {
            if taken.contains(&self.rows[*index].link.id) {
                self.outcomes[*index] = Some(Err(CreateError::NumberTaken));
            }
        }
        Ok(())
    }

    async fn settle_codes(
        &mut self,
        session: &mut Session,
        pending: &[usize],
    ) -> Result<(), Fault> {
        let rows = self.rows;
        let same_domain = |a: &usize, b: &usize| rows[*a].domain_id == rows[*b].domain_id;
        for group in pending.chunk_by(same_domain) {
            let domain_id = rows[group[0]].domain_id;
            let codes: Vec<&Code> = group.iter().map(|index| &rows[*index].link.code).collect();
            let taken = find_taken(session, domain_id, &codes).await?;
            let by_code = |row: TakenRow| (row.code.clone(), row);
            let taken: HashMap<_, _> = taken.into_iter().map(by_code).collect();
            for index in group {
                let code = rows[*index].link.code.as_str().as_bytes();
                if let Some(taken) = taken.get(code) {
                    self.outcomes[*index] =
                        settle_code(session, taken, &rows[*index], self.first).await?;
                }
            }
        }
        Ok(())
    }

    fn unsettled(&self, indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let unsettled = |index: &usize| self.outcomes[*index].is_none();
        indices.into_iter().filter(unsettled).collect()
    }

    fn rows_of(&self, indices: &[usize]) -> Vec<&'a NewRow> {
        indices.iter().map(|index| &self.rows[*index]).collect()
    }

    fn into_outcomes(self) -> Result<Vec<Outcome>, Fault> {
        let outcomes: Option<Vec<Outcome>> = self.outcomes.into_iter().collect();
        outcomes.ok_or(Fault::Contended)
    }
}

/// Of links that do not exist yet: whether a link has the number or the code, so that creating them would fail.
async fn are_taken(session: &mut Session, links: &[(u64, u32, &Code)]) -> Result<Vec<bool>, Fault> {
    let mut numbers = HashSet::new();
    let mut codes = HashSet::new();
    for links in pieces(links) {
        let ids: Vec<u64> = links.iter().map(|(id, ..)| *id).collect();
        numbers.extend(taken_numbers(session, &ids).await?);
        for group in links.chunk_by(|(_, a, _), (_, b, _)| a == b) {
            let domain_id = group[0].1;
            let of_group: Vec<&Code> = group.iter().map(|(.., code)| *code).collect();
            let taken = find_taken(session, domain_id, &of_group).await?;
            let living = taken.into_iter().filter(|row| row.deleted_at.is_none());
            codes.extend(living.map(|row| (domain_id, row.code)));
        }
    }
    let is_taken = |(id, domain_id, code): &(u64, u32, &Code)| {
        let code = code.as_str().as_bytes().to_vec();
        numbers.contains(id) || codes.contains(&(*domain_id, code))
    };
    Ok(links.iter().map(is_taken).collect())
}

/// A row that has the code of a new link.
#[derive(Debug, sqlx_macros::FromRow)]
struct TakenRow {
    id: u64,
    code: Vec<u8>,
    rev: u64,
    deleted_at: Option<u64>,
}

/// The rows that have one of these codes on that domain.
async fn find_taken(
    session: &mut Session,
    domain_id: u32,
    codes: &[&Code],
) -> Result<Vec<TakenRow>, Fault> {
    let query = sql("SELECT id, code, rev, deleted_at FROM links WHERE domain_id = ? AND code IN ");
    session.fetch_all(query.bind(domain_id).list(codes)).await
}

/// Those of the numbers that links have.
async fn taken_numbers(session: &mut Session, ids: &[u64]) -> Result<Vec<u64>, Fault> {
    numbers(session, sql("SELECT id FROM links WHERE id IN ").list(ids)).await
}

/// Writes a new link with the revision `rev` over a tombstone; `false` if the row has changed since it was read. It fails as
/// a duplicate if another row has the new number.
async fn revive(
    session: &mut Session,
    tombstone: &TakenRow,
    row: &NewRow,
    rev: u64,
) -> Result<bool, Fault> {
    let revive = sql("UPDATE links SET id = ?, ").bind(row.link.id);
    let revive = set_content(revive, &row.stored, &row.link.content)
        .push(", created_at = ?, updated_at = ?, deleted_at = NULL, rev = ?")
        .push(" WHERE id = ? AND rev = ? AND deleted_at IS NOT NULL")
        .bind_all([row.link.created_at, row.link.updated_at, rev])
        .bind_all([tombstone.id, tombstone.rev]);
    Ok(session.execute(revive).await? > 0)
}

/// What becomes of a link whose code is in `taken`; `None` if that has changed meanwhile.
async fn settle_code(
    session: &mut Session,
    taken: &TakenRow,
    row: &NewRow,
    first: u64,
) -> Result<Option<Outcome>, Fault> {
    if taken.deleted_at.is_none() {
        return Ok(Some(Err(CreateError::CodeTaken)));
    }
    let rev = first.max(taken.rev + 1);
    match revive(session, taken, row, rev).await {
        Ok(true) => Ok(Some(Ok(rev))),
        Ok(false) => Ok(None),
        Err(fault) if fault.is_duplicate() => Ok(Some(Err(CreateError::NumberTaken))),
        Err(fault) => Err(fault),
    }
}

/// Cuts `order` where a chunk would carry too much.
fn chunks<'a>(rows: &[NewRow], order: &'a [usize], limits: ChunkLimits) -> Vec<&'a [usize]> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, index) in order.iter().enumerate() {
        let size = rows[*index].wire_size();
        if at > start && (at - start == limits.rows || bytes + size > limits.bytes) {
            chunks.push(&order[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size;
    }
    if start < order.len() {
        chunks.push(&order[start..]);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::dialect::MYSQL;
    use crate::target::TargetUrl;
    use edgelink_wire::{LinkState, RedirectStatus};

    fn row(id: u64, url_length: usize) -> NewRow {
        let key: LinkKey = format!("a.example/c{id}").parse().unwrap();
        let content = LinkContent {
            target: TargetUrl::from_store(&"x".repeat(url_length)),
            redirect: RedirectStatus::Found,
            state: LinkState::Active,
            valid_since: None,
            valid_until: None,
            forward_query: true,
            title: None,
            tags: Vec::new(),
        };
        NewRow::new(NewLink { id, key, content }, 1, 0)
    }

    fn lengths(rows: &[NewRow], limits: ChunkLimits) -> Vec<usize> {
        let order: Vec<usize> = (0..rows.len()).collect();
        chunks(rows, &order, limits)
            .iter()
            .map(|chunk| chunk.len())
            .collect()
    }

    #[test]
    fn a_chunk_carries_no_more_rows_than_allowed() {
        let rows: Vec<NewRow> = (0..7).map(|id| row(id, 10)).collect();
        let limits = ChunkLimits {
            rows: 3,
            bytes: 1 << 20,
        };
        assert_eq!(lengths(&rows, limits), [3, 3, 1]);
        assert!(lengths(&[], limits).is_empty());
    }

    #[test]
    fn a_chunk_carries_no_more_bytes_than_allowed_but_always_one_row() {
        let rows: Vec<NewRow> = [100, 8000, 8000, 100, 100]
            .into_iter()
            .zip(0..)
            .map(|(length, id)| row(id, length))
            .collect();
        let limits = ChunkLimits {
            rows: 100,
            bytes: 4096,
        };
        assert_eq!(lengths(&rows, limits), [1, 1, 1, 2]);
    }

    #[test]
    fn everything_that_people_have_written_is_hexadecimal() {
        let content = LinkContent {
            target: TargetUrl::from_store("';--"),
            redirect: RedirectStatus::Found,
            state: LinkState::Disabled,
            valid_since: None,
            valid_until: Some(7),
            forward_query: true,
            title: Some("\\'\u{e4}".to_owned()),
            tags: Vec::new(),
        };
        let key = "a/c".parse().unwrap();
        let mut row = NewRow::new(
            NewLink {
                id: 1,
                key,
                content,
            },
            2,
            3,
        );
        row.stored.url_hash = -4;
        row.stored.content_hash = -5;
        let gone = Record::Absent { rev: 7 };
        let changes = NewChanges::one(&row.link.key(), &gone);
        assert_eq!(
            script(&MYSQL, &[&row], 8, &changes, 9),
            "START TRANSACTION; INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, \
             valid_since, valid_until, forward_query, title, tags, created_at, updated_at, rev) VALUES (1, 2, X'63', X'273b2d2d', -4, -5, \
             302, 1, NULL, 7, 1, _utf8mb4 X'5c27c3a4', _utf8mb4 X'5b5d', 3, 3, 8); \
             INSERT INTO outbox (link_keys, records, created_at) VALUES (X'00000003612f63', X'00000003018007', 9); \
             SELECT rev_floor, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS now_micros FROM publisher \
             WHERE id = 1"
        );
    }
}
