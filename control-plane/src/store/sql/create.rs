//! Creating many links in one transaction, where a taken code or number fails alone.
//!
//! Nearly always nothing is taken, so everything is inserted at once and only a refusal is looked into: what is taken
//! for good gets its answer, tombstones are revived, and the rest is inserted again.
//!
//! The rows in the way are read without a lock. A refused INSERT has left a shared lock on one of them, and asking for
//! an exclusive one would be a deadlock with everybody else who was refused there; so a tombstone is revived only if it
//! still is as it was read.

use super::fault::{Fault, Remedy};
use super::relay::Announcements;
use super::revisions::{LastRevisions, Revisions};
use super::rows::{NewRow, TakenRow};
use super::sizes::pieces;
use super::statements::Statements;
use crate::store::CreateError;
use edgelink_wire::Code;
use std::collections::{HashMap, HashSet};

/// How often the rest is inserted again. Each round settles every link that stands in the way by then, so a further one
/// is needed only where others commit a clash in between.
const MAX_ROUNDS: usize = 4;

/// How much one INSERT may carry.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct ChunkLimits {
    /// In rows; databases bound the number of parameters.
    pub(in crate::store) rows: usize,
    /// In bytes; MySQL bounds the size of a packet. A single row may be larger.
    pub(in crate::store) bytes: usize,
}

/// The revision of a created link, or why it was not created.
pub(in crate::store) type Outcome = Result<u64, CreateError>;

/// Creates the links; the answers are in the order of `rows`.
pub(in crate::store) async fn create_links<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    limits: ChunkLimits,
    last: &LastRevisions,
    now: u64,
) -> Result<Vec<Outcome>, Fault> {
    let outcomes = begin_and_create(session, rows, limits, last, now).await?;
    session.commit(rows.len()).await?;
    Ok(outcomes)
}

/// Begins a transaction and creates the links in it.
pub(super) async fn begin_and_create<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    limits: ChunkLimits,
    last: &LastRevisions,
    now: u64,
) -> Result<Vec<Outcome>, Fault> {
    if let Some(outcomes) = create_at_once(session, rows, limits, last, now).await? {
        return Ok(outcomes);
    }
    session.begin().await?;
    create_within(session, rows, limits, now).await
}

/// Begins a transaction and creates all links with as few messages to the server as there can be. Nothing is begun where
/// they are too many for that, or where something stands in the way of one of them.
///
/// Their revision is a guess by what the database has said last, and it counts if it still fits in the end. The floor is
/// read after the links are there: had one of them waited for its own tombstone to be purged, that is seen.
async fn create_at_once<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    limits: ChunkLimits,
    last: &LastRevisions,
    now: u64,
) -> Result<Option<Vec<Outcome>>, Fault> {
    let Some(rev) = last.guess().map(|guess| guess.first()) else {
        return Ok(None);
    };
    let mut creation = Creation::new(rows, rev);
    let order = creation.order();
    let mut changes = Announcements::default();
    for row in rows {
        changes.push_new(row, rev);
    }
    if order.len() < rows.len() || !fits_at_once(rows, &changes, limits) {
        return Ok(None);
    }
    match session
        .begin_with(&creation.rows_of(&order), rev, &changes, now)
        .await
    {
        Ok(revisions) => {
            last.note(revisions);
            if revisions.allow(rev) {
                return Ok(Some(vec![Ok(rev); rows.len()]));
            }
            session.rollback().await?;
            Ok(None)
        }
        Err(fault) if S::remedy(&fault) == Remedy::Duplicate => {
            session.rollback().await?;
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

fn fits_at_once(rows: &[NewRow], changes: &Announcements, limits: ChunkLimits) -> bool {
    let links: usize = rows.iter().map(NewRow::wire_size).sum();
    // As text, each byte takes two.
    rows.len() <= limits.rows && (links + changes.size()) * 2 <= limits.bytes
}

/// Creates the links within a transaction that has begun.
pub(super) async fn create_within<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    limits: ChunkLimits,
    now: u64,
) -> Result<Vec<Outcome>, Fault> {
    let revisions = session.revisions().await?;
    let mut creation = Creation::new(rows, revisions.first());
    let order = creation.order();
    for chunk in chunks(rows, &order, limits).into_iter().flat_map(pieces) {
        creation.add(session, chunk.to_vec()).await?;
    }
    let outcomes = creation.into_outcomes()?;
    announce(session, rows, &outcomes, now).await?;
    check_floor(session, &revisions).await?;
    Ok(outcomes)
}

/// Refuses revisions above which the floor was raised meanwhile.
async fn check_floor<S: Statements>(session: &mut S, revisions: &Revisions) -> Result<(), Fault> {
    let first = revisions.first();
    if session.revisions().await?.effective(first) > first {
        return Err(Fault::Contended);
    }
    Ok(())
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

    async fn add<S: Statements>(
        &mut self,
        session: &mut S,
        mut pending: Vec<usize>,
    ) -> Result<(), Fault> {
        for _ in 0..MAX_ROUNDS {
            if pending.is_empty() {
                return Ok(());
            }
            let rows = self.rows_of(&pending);
            match session.insert_links(&rows, self.first).await {
                Ok(()) => {
                    self.settle(&pending, &Ok(self.first));
                    return Ok(());
                }
                Err(fault) if S::remedy(&fault) == Remedy::Duplicate => {}
                Err(fault) => return Err(fault),
            }
            self.settle_numbers(session, &pending).await?;
            pending = self.unsettled(pending);
            self.settle_codes(session, &pending).await?;
            pending = self.unsettled(pending);
        }
        Err(Fault::Contended)
    }

    async fn settle_numbers<S: Statements>(
        &mut self,
        session: &mut S,
        pending: &[usize],
    ) -> Result<(), Fault> {
        let ids: Vec<u64> = self
            .rows_of(pending)
            .iter()
            .map(|row| row.link.id)
            .collect();
        let taken = session.taken_numbers(&ids).await?;
        let taken: HashSet<u64> = taken.into_iter().collect();
        for index in pending {
            if taken.contains(&self.rows[*index].link.id) {
                self.outcomes[*index] = Some(Err(CreateError::NumberTaken));
            }
        }
        Ok(())
    }

    async fn settle_codes<S: Statements>(
        &mut self,
        session: &mut S,
        pending: &[usize],
    ) -> Result<(), Fault> {
        let rows = self.rows;
        let same_domain = |a: &usize, b: &usize| rows[*a].domain_id == rows[*b].domain_id;
        for group in pending.chunk_by(same_domain) {
            let domain_id = rows[group[0]].domain_id;
            let codes: Vec<&Code> = group.iter().map(|index| &rows[*index].link.code).collect();
            let taken = session.find_taken(domain_id, &codes).await?;
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

    fn settle(&mut self, indices: &[usize], outcome: &Outcome) {
        for index in indices {
            self.outcomes[*index] = Some(outcome.clone());
        }
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
pub(super) async fn are_taken<S: Statements>(
    session: &mut S,
    links: &[(u64, u32, &Code)],
) -> Result<Vec<bool>, Fault> {
    let mut numbers = HashSet::new();
    let mut codes = HashSet::new();
    for links in pieces(links) {
        let ids: Vec<u64> = links.iter().map(|(id, ..)| *id).collect();
        numbers.extend(session.taken_numbers(&ids).await?);
        for group in links.chunk_by(|(_, a, _), (_, b, _)| a == b) {
            let domain_id = group[0].1;
            let of_group: Vec<&Code> = group.iter().map(|(.., code)| *code).collect();
            let taken = session.find_taken(domain_id, &of_group).await?;
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

/// Puts the new links into the outbox.
async fn announce<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    outcomes: &[Outcome],
    now: u64,
) -> Result<(), Fault> {
    let mut changes = Announcements::default();
    for (row, outcome) in rows.iter().zip(outcomes) {
        if let Ok(rev) = outcome {
            changes.push_new(row, *rev);
        }
    }
    session.announce(&changes, now).await
}

/// What becomes of a link whose code is in `taken`; nothing where that has changed meanwhile.
async fn settle_code<S: Statements>(
    session: &mut S,
    taken: &TakenRow,
    row: &NewRow,
    first: u64,
) -> Result<Option<Outcome>, Fault> {
    if taken.deleted_at.is_none() {
        return Ok(Some(Err(CreateError::CodeTaken)));
    }
    let rev = first.max(taken.rev.0 + 1);
    match session.revive(taken, row, rev).await {
        Ok(true) => Ok(Some(Ok(rev))),
        Ok(false) => Ok(None),
        Err(fault) if S::remedy(&fault) == Remedy::Duplicate => {
            Ok(Some(Err(CreateError::NumberTaken)))
        }
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
    use crate::model::LinkContent;
    use crate::store::NewLink;
    use crate::target::TargetUrl;
    use edgelink_wire::{LinkKey, LinkState, RedirectStatus};

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
}
