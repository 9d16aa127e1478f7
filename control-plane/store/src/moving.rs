//! Moves a link to another code or domain: one transaction creates the new link, and deletes or keeps the old one.

use super::audit::{Actor, NewEntry};
use super::domains;
use super::link_changes::{ChangeError, ChangeFn, LinkChange, SingleChange, subject};
use super::locked_rows::{LockedRows, WriteContext};
use super::visits;
use crate::Store;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_wire::LinkKey;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashSet};

impl Store {
    /// Moves a link if `check`, which returns its new content, allows it. `None` if there is no such link. It gets the number `id`, even
    /// if it takes over the row of a deleted link; only if uses of either of these are limited, it gets the number of the deleted
    /// one.
    pub async fn move_link(
        &self,
        wanted: &LinkMove,
        id: u64,
        check: ChangeFn,
        actor: &Actor,
    ) -> Result<Option<Result<Moved, MoveError>>, StoreError> {
        // Inserts the row of the domain, if missing, before links are locked.
        self.remembered_domain_key(&wanted.to.domain).await?;
        let call = self.write("move_link", "moving a link").locking([
            RowLine::Link(wanted.from.clone()),
            RowLine::Link(wanted.to.clone()),
            RowLine::Visits(wanted.from.clone()),
        ]);
        let place = Place {
            id,
            token: self.newest.token(),
            actor,
            written: WriteContext {
                max_bytes: self.db.max_bytes(),
                events: self.events.as_deref(),
                configured: &self.configured,
            },
        };
        let moved = run!(call, |session| relocate(session, wanted, &place, &check)
            .await);
        self.notify_listener(&[wanted.from.clone(), wanted.to.clone()]);
        moved
    }
}

/// Request to move a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkMove {
    /// Its present key.
    pub from: LinkKey,
    /// Its new key.
    pub to: LinkKey,
    /// True to keep the old link to the same target, without the external id.
    pub keeps_old: bool,
}

/// A link that has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The link under its new key.
    pub link: Link,
    /// The link under its old key, with the revision of its deletion if it was deleted. `None` if it is unchanged.
    pub old: Option<Link>,
}

/// Reason why a link is not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// The link does not allow it.
    #[error(transparent)]
    Refused(ChangeError),
    /// Another link has the new key.
    #[error("the code is taken")]
    CodeTaken,
    /// The tenant of the link no longer owns the domain.
    #[error("the domain is gone")]
    DomainGone,
    /// Another link has the number. The caller takes the next one.
    #[error("the number is taken")]
    NumberTaken,
}

/// The number of the moved link, and the context for writing it.
struct Place<'a> {
    id: u64,
    /// The greatest token of the publisher read by this process.
    token: u64,
    actor: &'a Actor,
    written: WriteContext<'a>,
}

async fn relocate(
    session: &mut Session,
    wanted: &LinkMove,
    place: &Place<'_>,
    check: &ChangeFn,
) -> Result<Option<Result<Moved, MoveError>>, Fault> {
    session.begin().await?;
    let moved = relocate_locked(session, wanted, place, check).await;
    match moved {
        Ok(Some(Ok(_))) => session.commit(2).await?,
        // The connection is unusable after any other fault.
        Err(fault) if !fault.is_duplicate() => return Err(fault),
        _ => session.rollback().await?,
    }
    match moved {
        // A code that was taken meanwhile is found by the next attempt.
        Err(_) => Ok(Some(Err(MoveError::NumberTaken))),
        moved => moved,
    }
}

async fn relocate_locked(
    session: &mut Session,
    wanted: &LinkMove,
    place: &Place<'_>,
    check: &ChangeFn,
) -> Result<Option<Result<Moved, MoveError>>, Fault> {
    let LinkMove {
        from,
        to,
        keeps_old,
    } = wanted;
    let mut rows = LockedRows::lock(session, [from, to]).await?;
    let Some(original) = rows.live(from).cloned() else {
        return Ok(None);
    };
    let content = match check(&original) {
        Ok(content) => content.into_content(),
        Err(error) => return Ok(Some(Err(MoveError::Refused(error)))),
    };
    let names = BTreeSet::from([&to.domain]);
    let stored = domains::lock_or_add(session, &names, place.token).await?;
    let configured = place.written.configured;
    let required = domains::required_tenant(configured, &to.domain, original.tenant_id);
    let domain = stored
        .get(&to.domain)
        .filter(|domain| domain.admits(required));
    let Some(domain) = domain else {
        return Ok(Some(Err(MoveError::DomainGone)));
    };
    if rows.live(to).is_some() {
        return Ok(Some(Err(MoveError::CodeTaken)));
    }
    let release = match (keeps_old, &original.content.external_id) {
        (true, None) => None,
        (true, Some(_)) => Some(LinkChange::Update(Box::new(without_external_id))),
        (false, _) => Some(LinkChange::Delete(Box::new(|_| Ok(())))),
    };
    let actor = place.actor;
    let mut old = None;
    if let Some(change) = &release {
        let release = SingleChange {
            key: from,
            change,
            actor,
        };
        let changed = rows.change_row(&release, &HashSet::new());
        old = changed.and_then(Result::ok);
        rows.set_entries(Vec::new());
        // First, so that the external id is free.
        rows.write(session, place.written).await?;
    }
    if let Some(tombstone) = rows.tombstone(to)
        && !visits::is_any(session, &[tombstone, original.id]).await?
    {
        // It may have many clicks: they stay with its number until purged, as when a new link takes over its row.
        rows.renumber(session, to, place.id).await?;
        edgelink_click_store::forget_total(session, tombstone).await?;
    }
    let moved_from = original.clone();
    let link = Link {
        id: place.id,
        domain: to.domain.clone(),
        code: to.code.clone(),
        content,
        // Imported visits are counted only once.
        imported_visits: if *keeps_old {
            0
        } else {
            original.imported_visits
        },
        ..original
    };
    let link = rows.put(domain.id, link);
    rows.set_entries(entries(wanted, actor));
    rows.write(session, place.written).await?;
    if let Some(link) = &link {
        visits::carry(session, &moved_from, link.id, *keeps_old).await?;
        if link.id != place.id {
            // Removes the clicks of the deleted link. Uses of limited links, which workers return, refer to its number.
            while !edgelink_click_store::remove(session, &[link.id]).await? {}
        }
    }
    Ok(link.map(|link| Ok(Moved { link, old })))
}

/// The entries in the audit log for both keys.
fn entries(wanted: &LinkMove, actor: &Actor) -> Vec<NewEntry> {
    let entry = |key: &LinkKey, detail: Json| NewEntry {
        actor: actor.clone(),
        action: "link.move",
        subject: subject(key),
        detail: detail.to_string(),
    };
    let LinkMove {
        from,
        to,
        keeps_old,
    } = wanted;
    vec![
        entry(from, json!({ "to": to.to_string(), "keepOld": keeps_old })),
        entry(to, json!({ "from": from.to_string() })),
    ]
}

fn without_external_id(link: &Link) -> Result<CheckedContent, ChangeError> {
    let mut content = CheckedContent::existing(link);
    content.change_others(|others| others.external_id = None);
    Ok(content)
}
