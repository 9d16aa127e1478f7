//! Changes, deletes and restores existing links: several in one transaction, each with its own outcome.
//!
//! The rows are locked by domain and code, as creations lock them. Then every change is made in memory, in the order of the
//! call, and the rows are written at once.

use super::audit::Actor;
use super::link_changes::{ChangeFn, ChangeOutcome, CheckFn, LinkChange};
use super::locked_rows::{LockedRows, WriteContext};
use crate::Store;
use edgelink_database::calls::Call;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
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
        let call = self.write("update_link", "changing a link");
        let change = LinkChange::Update(change);
        self.change_one(call, key, change, actor).await
    }

    /// Deletes a link if `check` allows it, with the row locked meanwhile. `None` if there is no such link. An error of
    /// `check` deletes nothing and is the inner error.
    pub async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let call = self.write("delete_link", "deleting a link");
        let change = LinkChange::Delete(check);
        self.change_one(call, key, change, actor).await
    }

    /// Restores a deleted link if `check`, given the link as restored, allows it. `None` if its row is gone,
    /// or not visible to the caller.
    pub async fn restore_link(
        &self,
        key: &LinkKey,
        check: ChangeFn,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let call = self.write("restore_link", "restoring a link");
        let change = LinkChange::Restore(check);
        self.change_one(call, key, change, actor).await
    }

    /// Makes changes in one transaction; the outcomes are in the order of `changes`. A refused change does not affect the others.
    /// Several changes of the same link are made one after another.
    pub async fn change_links(
        &self,
        changes: &[(LinkKey, LinkChange)],
        actor: &Actor,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let call = self.write("change_links", "changing links");
        self.change(call, changes, actor).await
    }

    async fn change_one(
        &self,
        call: Call<'_>,
        key: &LinkKey,
        change: LinkChange,
        actor: &Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        let changes = [(key.clone(), change)];
        let mut outcomes = self.change(call, &changes, actor).await?;
        Ok(outcomes.pop().flatten())
    }

    async fn change(
        &self,
        call: Call<'_>,
        changes: &[(LinkKey, LinkChange)],
        actor: &Actor,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let written = WriteContext {
            actor,
            max_bytes: self.db.max_bytes(),
            events: self.events.as_deref(),
            configured: &self.configured,
        };
        let keys: Vec<LinkKey> = changes.iter().map(|(key, _)| key.clone()).collect();
        let call = call.locking(keys.iter().cloned().map(RowLine::Link));
        let changed = run!(call, |session| change(session, changes, written).await);
        self.notify_listener(&keys);
        changed
    }
}

/// Most attempts when other transactions take external ids meanwhile.
const MAX_ROUNDS: usize = 4;

async fn change(
    session: &mut Session,
    changes: &[(LinkKey, LinkChange)],
    written: WriteContext<'_>,
) -> Result<Vec<ChangeOutcome>, Fault> {
    let mut taken = HashSet::new();
    for round in 0..MAX_ROUNDS {
        session.begin().await?;
        let mut rows = LockedRows::lock(session, changes.iter().map(|(key, _)| key)).await?;
        rows.leave_out_gone(session, changes, written.configured)
            .await?;
        let outcomes = rows.change(changes, &taken);
        if rows.changed.is_empty() {
            session.rollback().await?;
            return Ok(outcomes);
        }
        match rows.write(session, written).await {
            Err(fault) if fault.is_duplicate() => {
                // Some of the changes may be written: external ids of others are read without them.
                session.rollback().await?;
                let tenant_id = written.actor.tenant_id;
                let others = rows.taken_external_ids(session, tenant_id).await?;
                // First the ids that no change gives up: where a link keeps one, changes waiting for it follow.
                let given_up = rows.given_up();
                let kept = others.iter().filter(|id| !given_up.contains(id.as_str()));
                let kept: Vec<String> = kept.cloned().collect();
                let is_progress = round < 2 && kept.iter().any(|id| !taken.contains(id));
                taken.extend(if is_progress { kept } else { others });
            }
            written => {
                written?;
                session.commit(changes.len()).await?;
                return Ok(outcomes);
            }
        }
    }
    Err(Fault::Contended)
}
