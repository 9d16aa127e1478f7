//! Transactions on single rows.

use super::fault::{Fault, Remedy};
use super::relay::Announcement;
use super::statements::Statements;
use crate::model::Link;
use crate::store::{ChangeError, ChangeFn};
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
    let Some(id) = session.lock_link(key).await? else {
        return Ok(None);
    };
    let Some(row) = session.find_link(key).await? else {
        return Ok(None);
    };
    let mut link = row.into_link()?;
    link.content = match change(&link.content) {
        Ok(content) => content,
        Err(error) => return Ok(Some(Err(error))),
    };
    link.updated_at = now;
    link.rev += 1;
    session.update_link(id, &link.content, now).await?;
    let change = Announcement::new(key.to_string(), &link.record());
    session.announce(&[change], now).await?;
    Ok(Some(Ok(link)))
}

/// Makes a tombstone of a link; `false` where there is none.
pub(in crate::store) async fn delete_link<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    now: u64,
) -> Result<bool, Fault> {
    session.begin().await?;
    let is_deleted = delete_locked(session, key, now).await?;
    if is_deleted {
        session.commit(1).await?;
    } else {
        session.rollback().await?;
    }
    Ok(is_deleted)
}

async fn delete_locked<S: Statements>(
    session: &mut S,
    key: &LinkKey,
    now: u64,
) -> Result<bool, Fault> {
    let Some(id) = session.lock_link(key).await? else {
        return Ok(false);
    };
    let Some(row) = session.find_link(key).await? else {
        return Ok(false);
    };
    session.delete_link(id, now).await?;
    let absent = Record::Absent { rev: row.rev() + 1 };
    session
        .announce(&[Announcement::new(key.to_string(), &absent)], now)
        .await?;
    Ok(true)
}
