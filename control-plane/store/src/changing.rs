//! Changes, deletes and restores existing links: several in one transaction, each with its own outcome.
//!
//! The rows are locked by domain and code, as creations lock them. Then every change is made in memory, in the order of the
//! call, and the rows are written at once.

use super::audit::Actor;
use super::link_changes::{ChangeFn, ChangeOutcome, CheckFn, LinkChange, SingleChange};
use super::locked_rows::{Contended, LockedRows, TenantsId, WriteContext};
use crate::Store;
use edgelink_database::calls::Call;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::{RowLine, RowTurns};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_wire::LinkKey;
use std::collections::HashSet;

impl Store {
    /// Replaces the content of a link by the result of `change`, with the row locked meanwhile. `None` if there is no such
    /// link. An error of `change` leaves the link unchanged and is the inner error.
    pub async fn update_link(
        &self,
        key: &LinkKey,
        change: ChangeFn,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let change = LinkChange::Update(change);
        self.change_link(key, change, actor).await
    }

    /// Deletes a link if `check` allows it, with the row locked meanwhile. `None` if there is no such link. An error of
    /// `check` deletes nothing and is the inner error.
    pub async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let change = LinkChange::Delete(check);
        self.change_link(key, change, actor).await
    }

    /// Restores a deleted link if `check`, given the link as restored, allows it. `None` if its row is gone,
    /// or not visible to the caller.
    pub async fn restore_link(
        &self,
        key: &LinkKey,
        check: ChangeFn,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let change = LinkChange::Restore(check);
        self.change_link(key, change, actor).await
    }

    /// Makes changes in one transaction; the outcomes are in the order of `changes`. A refused change does not affect the others.
    /// Several changes of the same link are made one after another.
    pub async fn change_links(
        &self,
        changes: &[(LinkKey, LinkChange)],
        actor: &Actor,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let call = self.write("change_links", "changing links");
        let changes = changes
            .iter()
            .map(|(key, change)| SingleChange { key, change, actor });
        let changes: Vec<SingleChange<'_>> = changes.collect();
        self.change_awaited(call, &changes).await
    }

    /// Makes changes of single links, which do not depend on each other, in one transaction that waits for no locked row; the outcomes
    /// are in the order of `changes`. A change is left out, and its outcome is `None`, if another call of this process or another
    /// transaction has the row, also one before it in `changes`, or if it gives the link an external id, which others may claim.
    ///
    /// `turn` ends, by being dropped, as soon as the COMMIT is on its way to the database.
    pub async fn change_free_links<T: Send>(
        &self,
        changes: &[SingleChange<'_>],
        turn: T,
    ) -> Result<Vec<Option<ChangeOutcome>>, StoreError> {
        let turns = self.db.free_turns(lines(changes));
        let free = in_their_turn(changes, &turns);
        if free.is_empty() {
            return Ok(vec![None; changes.len()]);
        }
        let call = self.write("change_free_links", "changing links");
        let call = call.holding(turns);
        let made: Vec<SingleChange<'_>> = free
            .iter()
            .filter_map(|at| changes.get(*at))
            .copied()
            .collect();
        let outcomes = self.change(call, &made, (Contended::LeftOut, turn)).await?;
        let mut all = vec![None; changes.len()];
        for (at, outcome) in free.into_iter().zip(outcomes) {
            if let Some(place) = all.get_mut(at) {
                *place = outcome;
            }
        }
        Ok(all)
    }

    /// Changes a link, with the row locked meanwhile: see [`Self::update_link`], [`Self::delete_link`] and [`Self::restore_link`].
    pub async fn change_link(
        &self,
        key: &LinkKey,
        change: LinkChange,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let call = match change {
            LinkChange::Update(_) => self.write("update_link", "changing a link"),
            LinkChange::Delete(_) => self.write("delete_link", "deleting a link"),
            LinkChange::Restore(_) => self.write("restore_link", "restoring a link"),
        };
        let change = SingleChange {
            key,
            change: &change,
            actor,
        };
        let mut outcomes = self.change_awaited(call, &[change]).await?;
        Ok(outcomes.pop().flatten())
    }

    async fn change_awaited(
        &self,
        call: Call<'_>,
        changes: &[SingleChange<'_>],
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let call = call.locking(lines(changes));
        let made = self.change(call, changes, (Contended::Awaited, ())).await?;
        Ok(made.into_iter().map(Option::flatten).collect())
    }

    /// Makes changes; the outcome of one is `None` if its row is left out.
    async fn change<T: Send>(
        &self,
        call: Call<'_>,
        changes: &[SingleChange<'_>],
        (contended, turn): (Contended, T),
    ) -> Result<Vec<Option<ChangeOutcome>>, StoreError> {
        let context = WriteContext {
            max_bytes: self.db.max_bytes(),
            events: self.events.as_deref(),
            configured: &self.configured,
        };
        let mut turn = Some(turn);
        let changed = run!(call, |session| {
            let sent = || drop(turn.take());
            change(session, changes, (contended, context), sent).await
        });
        let keys: Vec<LinkKey> = changes.iter().map(|change| change.key.clone()).collect();
        self.notify_listener(&keys);
        changed
    }
}

/// The lines of the changed rows.
fn lines(changes: &[SingleChange<'_>]) -> Vec<RowLine> {
    let lines = changes.iter();
    lines
        .map(|change| RowLine::Link(change.key.clone()))
        .collect()
}

/// The indices of the changes whose turn it is; of several changes of one link, the first one has it.
fn in_their_turn(changes: &[SingleChange<'_>], turns: &RowTurns) -> Vec<usize> {
    let mut free: HashSet<&LinkKey> = turns.lines().filter_map(RowLine::link).collect();
    let changes = changes.iter().enumerate();
    let free = changes.filter(|(_, change)| free.remove(change.key));
    free.map(|(at, _)| at).collect()
}

/// The outcomes of changes, `None` for rows that are left out.
fn without_left_out(
    changes: &[SingleChange<'_>],
    outcomes: Vec<ChangeOutcome>,
    rows: &LockedRows,
) -> Vec<Option<ChangeOutcome>> {
    let outcomes = changes.iter().zip(outcomes);
    let outcomes =
        outcomes.map(|(change, outcome)| (!rows.is_left_out(change.key)).then_some(outcome));
    outcomes.collect()
}

/// Most attempts when other transactions take external ids meanwhile.
const MAX_ROUNDS: usize = 4;

async fn change(
    session: &mut Session,
    changes: &[SingleChange<'_>],
    (contended, context): (Contended, WriteContext<'_>),
    mut sent: impl FnMut() + Send,
) -> Result<Vec<Option<ChangeOutcome>>, Fault> {
    let mut taken = HashSet::new();
    for round in 0..MAX_ROUNDS {
        let keys = changes.iter().map(|change| change.key);
        let mut rows = LockedRows::begin_and_lock(session, keys, contended).await?;
        rows.leave_out_gone(session, changes, context.configured)
            .await?;
        let outcomes = rows.change(changes, &taken);
        let outcomes = without_left_out(changes, outcomes, &rows);
        if rows.changed.is_empty() {
            session.rollback().await?;
            return Ok(outcomes);
        }
        match rows.commit(session, context, &mut sent).await {
            Err(fault) if fault.is_duplicate() => {
                // Some of the changes may be written: external ids of others are read without them.
                session.rollback().await?;
                let others = rows.taken_external_ids(session).await?;
                // First the ids that no change gives up: where a link keeps one, changes waiting for it follow.
                let given_up = rows.given_up();
                let kept = others.iter().filter(|id| !given_up.contains(*id));
                let kept: Vec<TenantsId> = kept.cloned().collect();
                let is_progress = round < 2 && kept.iter().any(|id| !taken.contains(id));
                taken.extend(if is_progress { kept } else { others });
            }
            committed => {
                committed?;
                return Ok(outcomes);
            }
        }
    }
    Err(Fault::Contended)
}
