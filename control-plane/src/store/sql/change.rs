//! Transactions on single rows.

use super::fault::{Fault, Remedy};
use super::relay::Announcements;
use super::revisions::Revisions;
use super::rows::FoundRow;
use super::statements::Statements;
use crate::model::Link;
use crate::store::{ChangeError, ChangeFn, CheckFn};
use edgelink_wire::{Domain, LinkKey, Record};

/// Adds a domain unless it is there; somebody else may add it in between.
pub(in crate::store) async fn add_domain<S: Statements>(
    session: &mut S,
    domain: &Domain,
) -> Result<u32, Fault> {
    if let Some(id) = session.find_domain(domain).await? {
        return Ok(id);
    }
    match session.insert_domain(domain).await {
        Err(fault) if S::remedy(&fault) != Remedy::Duplicate => return Err(fault),
        _ => {}
    }
    session.find_domain(domain).await?.ok_or(Fault::Contended)
}

/// Replaces the content of a link with its row locked.
pub(in crate::store) async fn update_link<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    change: &ChangeFn,
) -> Result<Option<Result<Link, ChangeError>>, Fault> {
    session.begin().await?;
    let answer = change_locked(session, key, change).await?;
    match answer {
        Some(Ok(_)) => session.commit(1).await?,
        _ => session.rollback().await?,
    }
    Ok(answer)
}

async fn change_locked<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    change: &ChangeFn,
) -> Result<Option<Result<Link, ChangeError>>, Fault> {
    let Some((mut link, revisions)) = locked(session, key).await? else {
        return Ok(None);
    };
    link.content = match change(&link) {
        Ok(content) => content,
        Err(error) => return Ok(Some(Err(error))),
    };
    let now = revisions.now_millis();
    link.updated_at = now;
    link.rev = revisions.after(link.rev);
    session.update_link(&link).await?;
    let change = Announcements::one(key, &link.record());
    session.announce(&change, now).await?;
    Ok(Some(Ok(link)))
}

/// Makes a tombstone of a link that passes the check with its row locked.
pub(in crate::store) async fn delete_link<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    check: &CheckFn,
) -> Result<Option<Result<(), ChangeError>>, Fault> {
    session.begin().await?;
    let answer = delete_locked(session, key, check).await?;
    match answer {
        Some(Ok(())) => session.commit(1).await?,
        _ => session.rollback().await?,
    }
    Ok(answer)
}

async fn delete_locked<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    check: &CheckFn,
) -> Result<Option<Result<(), ChangeError>>, Fault> {
    let Some((link, revisions)) = locked(session, key).await? else {
        return Ok(None);
    };
    if let Err(error) = check(&link) {
        return Ok(Some(Err(error)));
    }
    let (rev, now) = (revisions.after(link.rev), revisions.now_millis());
    session.delete_link(link.id, rev, now).await?;
    let absent = Record::Absent { rev };
    session
        .announce(&Announcements::one(key, &absent), now)
        .await?;
    Ok(Some(Ok(())))
}

/// A link that lives, with its row locked, and what its next revision follows from.
async fn locked<S: Statements>(
    session: &mut S,
    key: &LinkKey,
) -> Result<Option<(Link, Revisions)>, Fault> {
    if !session.lock_link(key).await? {
        return Ok(None);
    }
    let FoundRow { revisions, link } = session.look_up(key).await?;
    link.map(|row| Ok((row.into_link()?, revisions)))
        .transpose()
}
