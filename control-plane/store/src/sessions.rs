//! Sessions of the console, shared by all control planes of the database.

use super::audit::{Actor, Entry, append};
use super::users::{self, Logins, UserRow};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use serde_json::json;
use std::net::IpAddr;
use std::time::Duration;

/// A login to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// SHA-256 of the token in the cookie.
    pub token_hash: [u8; 32],
    /// The user who has logged in.
    pub user_id: u64,
    /// The tenant of that user.
    pub tenant_id: u32,
    /// The API key of the login; `None` if it was by another way.
    pub key_id: Option<String>,
    /// SHA-256 of the login's credentials: see [`StoredSession::proof`].
    pub proof: [u8; 32],
    /// Label of the way of logging in.
    pub way: &'static str,
    /// The address of the login, or its network, by which attempts are counted.
    pub address: IpAddr,
}

/// Limits on the duration and number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Duration since the last request.
    pub idle: Duration,
    /// Duration since the login.
    pub total: Duration,
    /// Sessions of a user; the one that would expire first is removed for a new one.
    pub per_user: u32,
}

/// An active session of a user who is not disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// The user.
    pub user: UserRow,
    /// The ways in which the user may log in.
    pub logins: Logins,
    /// The API key of the login; `None` if it was by another way.
    pub key_id: Option<String>,
    /// SHA-256 of the hash of the secret or password of the login, or of the identity at the OpenID Connect provider. If that
    /// changes, the session ends.
    pub proof: [u8; 32],
}

/// Divisor of the idle time after which a request extends a session, so that not every request is a write.
const EXTENSIONS: u64 = 10;

impl Store {
    /// Stores a new session, and removes sessions of the user beyond the limit. The audit log records who has logged in, how, and from
    /// where.
    pub async fn insert_session(
        &self,
        new: &NewSession,
        limits: SessionLimits,
    ) -> Result<(), StoreError> {
        let call = self
            .write("insert_session", "adding a session of the console")
            .of(Class::Accounts);
        run!(call, |session| {
            session.begin().await?;
            insert(session, new, limits).await?;
            session.commit(1).await
        })
    }

    /// The session with this token. It is not extended: see [`Self::use_session`].
    pub async fn find_session(
        &self,
        token_hash: &[u8; 32],
        limits: SessionLimits,
    ) -> Result<Option<StoredSession>, StoreError> {
        let found = self.find_with_times(token_hash, limits).await?;
        Ok(found.map(|(found, ..)| found))
    }

    /// The session with this token, which is extended.
    pub async fn use_session(
        &self,
        token_hash: &[u8; 32],
        limits: SessionLimits,
    ) -> Result<Option<StoredSession>, StoreError> {
        let found = self.find_with_times(token_hash, limits).await?;
        let Some((found, times, end)) = found else {
            return Ok(None);
        };
        let expires_at = times.now.saturating_add(millis(limits.idle)).min(end);
        if expires_at.abs_diff(times.expires_at) > millis(limits.idle) / EXTENSIONS {
            self.extend_session(token_hash, expires_at).await?;
        }
        Ok(Some(found))
    }

    /// A session, its times, and its latest end.
    async fn find_with_times(
        &self,
        token_hash: &[u8; 32],
        limits: SessionLimits,
    ) -> Result<Option<(StoredSession, SessionTimes, u64)>, StoreError> {
        let call = self
            .read("find_session", "finding a session of the console")
            .of(Class::Accounts);
        let found = run!(call, |session| find(session, token_hash).await)?;
        Ok(found.and_then(|(found, times)| {
            let end = times.created_at.saturating_add(millis(limits.total));
            (times.now < end).then_some((found, times, end))
        }))
    }

    async fn extend_session(
        &self,
        token_hash: &[u8; 32],
        expires_at: u64,
    ) -> Result<(), StoreError> {
        let call = self
            .write("extend_session", "extending a session of the console")
            .of(Class::Accounts);
        run!(call, |session| {
            let extend = sql("UPDATE console_sessions SET expires_at = ? WHERE token_hash = ?");
            let extend = extend.bind(expires_at).bind(token_hash);
            session.autocommit(extend).await.map(drop)
        })
    }

    /// Ends a session, if there is one, and records that in the audit log.
    pub async fn remove_session(&self, token_hash: &[u8; 32]) -> Result<(), StoreError> {
        let call = self.read("find_session", "finding a session of the console");
        let call = call.of(Class::Accounts);
        let owner = run!(call, |session| owner(session, token_hash).await)?;
        let Some(owner) = owner else {
            return Ok(());
        };
        let call = self.write("remove_session", "ending a session of the console");
        let call = call.of(Class::Accounts);
        run!(call, |session| {
            session.begin().await?;
            let remove = sql("DELETE FROM console_sessions WHERE token_hash = ?");
            if session.execute(remove.bind(token_hash)).await? == 0 {
                // Another request was faster.
                return session.rollback().await;
            }
            let entry = Entry {
                actor: &owner,
                action: "session.end",
                subject: users::subject(owner.user_id.unwrap_or_default()),
                detail: json!({}),
            };
            append(session, &entry).await?;
            session.commit(1).await
        })
    }

    /// Removes up to `limit` expired sessions. Returns their number.
    pub async fn purge_sessions(&self, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_sessions", "purging sessions of the console")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let ended = sql(format!("expires_at <= {now} ORDER BY expires_at"));
            session
                .purge("console_sessions", "token_hash", ended, limit)
                .await
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn insert(
    session: &mut Session,
    new: &NewSession,
    limits: SessionLimits,
) -> Result<(), Fault> {
    let now = session.dialect().now_millis;
    let lasts = limits.idle.min(limits.total);
    let insert = sql(format!(
        "INSERT INTO console_sessions (token_hash, user_id, key_id, proof, created_at, expires_at) \
         VALUES (?, ?, ?, ?, {now}, {now} + ?)"
    ));
    let insert = insert.bind(&new.token_hash).bind(new.user_id);
    let insert = insert.bind(new.key_id.as_deref()).bind(&new.proof);
    session.execute(insert.bind(millis(lasts))).await?;
    let entry = Entry {
        actor: &Actor::of_session(new.tenant_id, new.user_id, new.key_id.clone()),
        action: "session.begin",
        subject: users::subject(new.user_id),
        detail: json!({ "way": new.way, "address": new.address.to_string() }),
    };
    append(session, &entry).await?;
    let beyond = sql(
        "SELECT token_hash FROM console_sessions WHERE user_id = ? AND token_hash <> ? \
         ORDER BY expires_at DESC LIMIT 1000 OFFSET ?",
    );
    let beyond = beyond.bind(new.user_id).bind(&new.token_hash);
    let beyond = beyond.bind(limits.per_user.saturating_sub(1));
    let beyond: Vec<(Vec<u8>,)> = session.fetch_all(beyond).await?;
    for (token_hash,) in &beyond {
        let remove = sql("DELETE FROM console_sessions WHERE token_hash = ?");
        session.execute(remove.bind(token_hash.as_slice())).await?;
    }
    Ok(())
}

/// The actor of a session, for the audit log.
async fn owner(session: &mut Session, token_hash: &[u8; 32]) -> Result<Option<Actor>, Fault> {
    let query = sql(
        "SELECT u.tenant_id, s.user_id, s.key_id FROM console_sessions s JOIN users u ON u.id = s.user_id \
         WHERE s.token_hash = ?",
    );
    let row: Option<(u32, u64, Option<Vec<u8>>)> =
        session.fetch_optional(query.bind(token_hash)).await?;
    let Some((tenant_id, user_id, key_id)) = row else {
        return Ok(None);
    };
    let key_id = key_id.as_deref().map(name).transpose()?;
    Ok(Some(Actor::of_session(tenant_id, user_id, key_id)))
}

/// Begin and end of a session, and the present time, in unix milliseconds by the database's clock.
struct SessionTimes {
    created_at: u64,
    expires_at: u64,
    now: u64,
}

async fn find(
    session: &mut Session,
    token_hash: &[u8; 32],
) -> Result<Option<(StoredSession, SessionTimes)>, Fault> {
    let now = session.dialect().now_millis;
    let query = sql(format!(
        "SELECT user_id, key_id, proof, created_at, expires_at, {now} AS now FROM console_sessions \
         WHERE token_hash = ? AND expires_at > {now}"
    ));
    let row: Option<SessionColumns> = session.fetch_optional(query.bind(token_hash)).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let user = users::select("id = ? AND NOT disabled").bind(row.user_id);
    let Some((user, logins)) = users::with_logins(session, user).await? else {
        return Ok(None);
    };
    let wrong = |_| Fault::Corrupt("proof of a session".to_owned());
    let found = StoredSession {
        user,
        logins,
        key_id: row.key_id.as_deref().map(name).transpose()?,
        proof: row.proof.try_into().map_err(wrong)?,
    };
    let times = SessionTimes {
        created_at: row.created_at,
        expires_at: row.expires_at,
        now: row.now,
    };
    Ok(Some((found, times)))
}

#[derive(Debug, sqlx_macros::FromRow)]
struct SessionColumns {
    user_id: u64,
    key_id: Option<Vec<u8>>,
    proof: Vec<u8>,
    created_at: u64,
    expires_at: u64,
    now: u64,
}
