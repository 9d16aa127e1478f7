//! Transactions on single rows.

use super::fault::{Fault, Remedy};
use super::relay::Announcements;
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
    now: u64,
) -> Result<Option<Result<Link, ChangeError>>, Fault> {
    session.begin().await?;
    let answer = change_locked(session, key, change, now).await?;
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
    now: u64,
) -> Result<Option<Result<Link, ChangeError>>, Fault> {
    let Some((id, mut link)) = locked(session, key).await? else {
        return Ok(None);
    };
    link.content = match change(&link) {
        Ok(content) => content,
        Err(error) => return Ok(Some(Err(error))),
    };
    link.updated_at = now;
    link.rev += 1;
    session.update_link(id, &link.content, now).await?;
    let change = Announcements::one(key, &link.record());
    session.announce(&change, now).await?;
    Ok(Some(Ok(link)))
}

/// Makes a tombstone of a link that passes the check with its row locked.
pub(in crate::store) async fn delete_link<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    check: &CheckFn,
    now: u64,
) -> Result<Option<Result<(), ChangeError>>, Fault> {
    session.begin().await?;
    let answer = delete_locked(session, key, check, now).await?;
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
    now: u64,
) -> Result<Option<Result<(), ChangeError>>, Fault> {
    let Some((id, link)) = locked(session, key).await? else {
        return Ok(None);
    };
    if let Err(error) = check(&link) {
        return Ok(Some(Err(error)));
    }
    session.delete_link(id, now).await?;
    let absent = Record::Absent { rev: link.rev + 1 };
    session
        .announce(&Announcements::one(key, &absent), now)
        .await?;
    Ok(Some(Ok(())))
}

/// A link that lives, with its row locked.
async fn locked<S: Statements>(
    session: &mut S,
    key: &LinkKey,
) -> Result<Option<(u64, Link)>, Fault> {
    let Some(id) = session.lock_link(key).await? else {
        return Ok(None);
    };
    let row = session.find_link(key).await?;
    row.map(|row| Ok((id, row.into_link()?))).transpose()
}
