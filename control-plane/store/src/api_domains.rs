//! Domains created by the API, and its settings of configured ones. Changes are serialized, each with its row in the
//! outbox and its entry in the audit log.

use super::accounts::lock_tenant;
use super::audit::{Actor, Entry, append};
use super::domains;
use super::outbox::OutboxBatches;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::{name, numbers};
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_settings::domains::model::{DomainDetails, DomainPatch, DomainRow};
use edgelink_wire::Domain;
use edgelink_wire::domain_record::{MAX_DOMAIN_RECORDS, domain_key};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// Most links of a domain counted before its removal.
pub const MAX_COUNTED_LINKS: u64 = 1_000;

/// Reason why a domain is not created, changed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// It does not exist, or belongs to another tenant.
    #[error("there is no such domain")]
    NotFound,
    /// A tenant already has it, or it has older links.
    #[error("the domain is taken")]
    Taken,
    /// The limit on all domains is reached.
    #[error("there are too many domains")]
    TooMany,
    /// The tenant has reached its limit, with this many domains.
    #[error("the tenant has {0} domains")]
    TooManyOfTenant(u64),
    /// The tenant has reached its limit of unverified domains, with this many.
    #[error("the tenant has {0} domains that are not verified")]
    TooManyUnverified(u64),
    /// It still has this many links, counted up to [`MAX_COUNTED_LINKS`].
    #[error("the domain has {0} links")]
    HasLinks(u64),
}

/// A domain to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDomain {
    /// Its name.
    pub domain: Domain,
    /// Its own settings.
    pub details: DomainDetails,
    /// Content expected in its TXT record.
    pub token: String,
    /// True if it is verified from the start.
    pub is_verified: bool,
    /// The most domains that the tenant may have.
    pub max_of_tenant: u64,
    /// The most unverified domains among them.
    pub max_unverified: u64,
}

/// The domain to be changed or removed, with its preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedDomain {
    /// Its name.
    pub domain: Domain,
    /// The tenant that it has to belong to; `None` for any.
    pub tenant_id: Option<u32>,
    /// The token that it has to have; `None` for any.
    pub token: Option<String>,
    /// True for a configured domain, which may have no row yet.
    pub is_configured: bool,
}

/// A verified domain whose TXT record is rechecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedDomain {
    /// Its name.
    pub domain: Domain,
    /// Content expected in its TXT record.
    pub token: String,
    /// Time for which the record has been missing; `None` if the last check found it, or if it was never seen, as with domains that the
    /// operator marked as verified.
    pub missing: Option<Duration>,
}

impl Store {
    /// Verified domains not checked for `due`, the least recently checked first.
    pub async fn domains_to_recheck(
        &self,
        due: Duration,
        limit: u32,
    ) -> Result<Vec<WatchedDomain>, StoreError> {
        let call = self.read(
            "domains_to_recheck",
            "finding domains that are due for a DNS check",
        );
        run!(call, |session| {
            let now = RevisionBasis::read(session).await?.now_millis();
            let due = u64::try_from(due.as_millis()).unwrap_or(u64::MAX);
            let query = sql("SELECT name, token, missing_since FROM domains \
                 WHERE created_at IS NOT NULL AND verified_at IS NOT NULL AND token IS NOT NULL \
                 AND (checked_at IS NULL OR checked_at <= ?) ORDER BY checked_at LIMIT ?");
            let query = query.bind(now.saturating_sub(due)).bind(limit);
            let rows: Vec<WatchedRow> = session.fetch_all(query).await?;
            rows.into_iter().map(|row| row.watched(now)).collect()
        })
    }

    /// Stores the outcome of a DNS lookup for a domain with this token: `is_there` if it had the record, `None` without an answer.
    pub async fn note_domain_record(
        &self,
        domain: &Domain,
        token: &str,
        is_there: Option<bool>,
    ) -> Result<(), StoreError> {
        let call = self
            .write("note_domain_record", "storing the DNS check of a domain")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let (seen_at, missing_since) = match is_there {
                Some(true) => (now, "NULL".to_owned()),
                Some(false) => {
                    let first = format!("COALESCE(missing_since, {now})");
                    let since = format!("CASE WHEN seen_at IS NULL THEN NULL ELSE {first} END");
                    ("seen_at", since)
                }
                None => ("seen_at", "missing_since".to_owned()),
            };
            let update = sql(format!(
                "UPDATE domains SET checked_at = {now}, missing_since = {missing_since}, seen_at = {seen_at} \
                 WHERE name = ? AND token = ?"
            ));
            session
                .autocommit(update.bind(domain).bind(token))
                .await
                .map(drop)
        })
    }

    /// All domains that the API has created or changed.
    pub async fn domains(&self) -> Result<Vec<DomainRow>, StoreError> {
        run!(
            self.read("domains", "reading the domains")
                .of(Class::Lookups),
            |session| {
                let query = sql(format!(
                    "SELECT {COLUMNS} FROM domains WHERE tenant_id IS NOT NULL"
                ));
                let rows: Vec<DomainColumns> = session.fetch_all(query).await?;
                let rows = rows
                    .into_iter()
                    .filter_map(|row| row.into_domain().transpose());
                rows.collect()
            }
        )
    }

    /// Creates a domain of the actor's tenant. A removed domain gets its old row again.
    pub async fn insert_domain(
        &self,
        new: &NewDomain,
        actor: &Actor,
    ) -> Result<Result<DomainRow, DomainError>, StoreError> {
        let token = self.newest.token();
        let call = self.write("insert_domain", "adding a domain");
        let call = call.locking([RowLine::Tenant(FIRST_TENANT)]);
        let made = run!(call, |session| {
            session.begin().await?;
            let made = insert(session, new, actor, token).await?;
            session.end(made).await
        })?;
        self.notify_listener(&[]);
        Ok(made)
    }

    /// Changes a domain.
    pub async fn change_domain(
        &self,
        which: &ChangedDomain,
        patch: &DomainPatch,
        actor: &Actor,
    ) -> Result<Result<DomainRow, DomainError>, StoreError> {
        let token = self.newest.token();
        let call = self.write("change_domain", "changing a domain");
        let call = call.locking([RowLine::Tenant(FIRST_TENANT)]);
        let changed = run!(call, |session| {
            session.begin().await?;
            let changed = change(session, (which, patch), actor, token).await?;
            session.end(changed).await
        })?;
        self.notify_listener(&[]);
        Ok(changed)
    }

    /// Removes a domain that has no links. Its row stays, for the revision and for the tombstones of its links.
    pub async fn delete_domain(
        &self,
        which: &ChangedDomain,
        actor: &Actor,
    ) -> Result<Result<DomainRow, DomainError>, StoreError> {
        let token = self.newest.token();
        let call = self.write("delete_domain", "removing a domain");
        let call = call.locking([RowLine::Tenant(FIRST_TENANT)]);
        let removed = run!(call, |session| {
            session.begin().await?;
            let removed = delete(session, which, actor, token).await?;
            session.end(removed).await
        })?;
        self.notify_listener(&[]);
        Ok(removed)
    }
}

const COLUMNS: &str = "id, name, tenant_id, details, token, verified_at, created_at, rev";

#[derive(Debug, sqlx_macros::FromRow)]
struct WatchedRow {
    name: Vec<u8>,
    token: Vec<u8>,
    missing_since: Option<u64>,
}

impl WatchedRow {
    fn watched(self, now: u64) -> Result<WatchedDomain, Fault> {
        let domain = Domain::parse(&name(&self.name)?);
        let missing = self.missing_since.map(|since| now.saturating_sub(since));
        Ok(WatchedDomain {
            domain: domain.map_err(|error| Fault::corrupt("domain", &error))?,
            token: name(&self.token)?,
            missing: missing.map(Duration::from_millis),
        })
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
struct DomainColumns {
    id: u32,
    name: Vec<u8>,
    tenant_id: Option<u32>,
    details: Option<String>,
    token: Option<Vec<u8>>,
    verified_at: Option<u64>,
    created_at: Option<u64>,
    rev: u64,
}

impl DomainColumns {
    /// The domain; `None` if the row only gives links their domain.
    fn into_domain(self) -> Result<Option<DomainRow>, Fault> {
        let Some(tenant_id) = self.tenant_id else {
            return Ok(None);
        };
        let details = self.details.as_deref().map(serde_json::from_str);
        let details = details.transpose();
        let details = details.map_err(|error| Fault::corrupt("details", &error))?;
        let domain = Domain::parse(&name(&self.name)?);
        Ok(Some(DomainRow {
            id: self.id,
            domain: domain.map_err(|error| Fault::corrupt("domain", &error))?,
            tenant_id,
            details: details.unwrap_or_default(),
            token: self.token.as_deref().map(name).transpose()?,
            verified_at: self.verified_at,
            created_at: self.created_at,
            rev: self.rev,
        }))
    }
}

async fn find(session: &mut Session, domain: &Domain) -> Result<Option<DomainColumns>, Fault> {
    let query = sql(format!("SELECT {COLUMNS} FROM domains WHERE name = ?"));
    session.fetch_optional(query.bind(domain)).await
}

async fn insert(
    session: &mut Session,
    new: &NewDomain,
    actor: &Actor,
    token: u64,
) -> Result<Result<DomainRow, DomainError>, Fault> {
    lock_tenant(session, FIRST_TENANT).await?;
    let old = find(session, &new.domain).await?;
    if let Some(old) = &old
        && (old.created_at.is_some() || count_links(session, old.id, 1).await? > 0)
    {
        return Ok(Err(DomainError::Taken));
    }
    if count_domains(session).await? >= MAX_DOMAIN_RECORDS as u64 {
        return Ok(Err(DomainError::TooMany));
    }
    let (of_tenant, unverified) = count_of_tenant(session, actor.tenant_id).await?;
    if of_tenant >= new.max_of_tenant {
        return Ok(Err(DomainError::TooManyOfTenant(of_tenant)));
    }
    if !new.is_verified && unverified >= new.max_unverified {
        return Ok(Err(DomainError::TooManyUnverified(unverified)));
    }
    let revisions = RevisionBasis::read(session).await?;
    let now = revisions.now_millis();
    let row = DomainRow {
        id: row_id(session, &new.domain, old.as_ref(), token).await?,
        domain: new.domain.clone(),
        tenant_id: actor.tenant_id,
        details: new.details.clone(),
        token: Some(new.token.clone()),
        verified_at: new.is_verified.then_some(now),
        created_at: Some(now),
        rev: revisions.after(old.map_or(0, |old| old.rev)),
    };
    write(session, Some(&row), &row, now).await?;
    let mut detail = Map::new();
    detail.insert("verified".to_owned(), new.is_verified.into());
    note_details(&mut detail, &new.details);
    note(session, actor, &row, "domain.create", detail).await?;
    Ok(Ok(row))
}

async fn change(
    session: &mut Session,
    (which, patch): (&ChangedDomain, &DomainPatch),
    actor: &Actor,
    token: u64,
) -> Result<Result<DomainRow, DomainError>, Fault> {
    lock_tenant(session, FIRST_TENANT).await?;
    let old = match find_changed(session, which, token).await? {
        Ok(old) => old,
        Err(error) => return Ok(Err(error)),
    };
    let revisions = RevisionBasis::read(session).await?;
    let now = revisions.now_millis();
    let verified_at = match patch.verified {
        Some(true) => old.verified_at.or(Some(now)),
        Some(false) => None,
        None => old.verified_at,
    };
    let new = DomainRow {
        details: patch.apply(&old.details),
        verified_at,
        rev: revisions.after(old.rev),
        ..old.clone()
    };
    let is_same = new.details == old.details && new.verified_at == old.verified_at;
    if is_same {
        return Ok(Ok(old));
    }
    write(session, Some(&new), &new, now).await?;
    if patch.verified == Some(true) {
        // If the DNS has the record, that is stored next. Otherwise the operator vouches for it, and no record can go missing.
        let unwatched = sql("UPDATE domains SET seen_at = NULL, missing_since = NULL WHERE id = ?");
        session.execute(unwatched.bind(new.id)).await?;
    }
    let mut detail = Map::new();
    if new.verified_at.is_some() != old.verified_at.is_some() {
        detail.insert("verified".to_owned(), new.verified_at.is_some().into());
    }
    note_details(&mut detail, &new.details);
    note(session, actor, &new, "domain.update", detail).await?;
    Ok(Ok(new))
}

async fn delete(
    session: &mut Session,
    which: &ChangedDomain,
    actor: &Actor,
    token: u64,
) -> Result<Result<DomainRow, DomainError>, Fault> {
    lock_tenant(session, FIRST_TENANT).await?;
    let old = match find_changed(session, which, token).await? {
        Ok(old) => old,
        Err(error) => return Ok(Err(error)),
    };
    // Waits for creations of links in progress there; later ones find the domain removed.
    let for_update = session.dialect().for_update;
    let locking = sql(format!("SELECT id FROM domains WHERE id = ?{for_update}"));
    numbers(session, locking.bind(old.id)).await?;
    let links = count_links(session, old.id, MAX_COUNTED_LINKS).await?;
    if links > 0 {
        return Ok(Err(DomainError::HasLinks(links)));
    }
    let revisions = RevisionBasis::read(session).await?;
    // Published as unverified, it is absent at the edges.
    let removed = DomainRow {
        verified_at: None,
        rev: revisions.after(old.rev),
        ..old
    };
    write(session, None, &removed, revisions.now_millis()).await?;
    note(session, actor, &removed, "domain.delete", Map::new()).await?;
    Ok(Ok(removed))
}

/// Finds the domain to be changed or removed. A configured one gets a row if it has none.
async fn find_changed(
    session: &mut Session,
    which: &ChangedDomain,
    token: u64,
) -> Result<Result<DomainRow, DomainError>, Fault> {
    let row = find(session, &which.domain).await?;
    let (id, rev) = (
        row.as_ref().map(|row| row.id),
        row.as_ref().map(|row| row.rev),
    );
    let found = row.map(DomainColumns::into_domain).transpose()?.flatten();
    let is_known = |row: &DomainRow| row.is_made() || which.is_configured;
    if let Some(found) = found.filter(is_known) {
        let is_tenants = which.tenant_id.is_none_or(|id| id == found.tenant_id);
        let is_it = which.token.is_none() || which.token == found.token;
        return Ok(if is_tenants && is_it {
            Ok(found)
        } else {
            Err(DomainError::NotFound)
        });
    }
    if !which.is_configured {
        return Ok(Err(DomainError::NotFound));
    }
    let id = match id {
        Some(id) => id,
        None => row_id(session, &which.domain, None, token).await?,
    };
    Ok(Ok(DomainRow {
        id,
        domain: which.domain.clone(),
        tenant_id: FIRST_TENANT,
        details: DomainDetails::default(),
        token: None,
        verified_at: None,
        created_at: None,
        rev: rev.unwrap_or(0),
    }))
}

/// The id of a domain's row, which is added if missing.
async fn row_id(
    session: &mut Session,
    domain: &Domain,
    old: Option<&DomainColumns>,
    token: u64,
) -> Result<u32, Fault> {
    if let Some(old) = old {
        return Ok(old.id);
    }
    match domains::insert(session, domain, token).await {
        Err(fault) if fault.is_duplicate() => return Err(Fault::Contended),
        inserted => inserted?,
    };
    let row = find(session, domain).await?;
    row.map(|row| row.id).ok_or(Fault::Contended)
}

/// Writes a row, or clears it, and publishes its new state.
async fn write(
    session: &mut Session,
    row: Option<&DomainRow>,
    published: &DomainRow,
    now: u64,
) -> Result<(), Fault> {
    let details = row.map(|row| &row.details);
    let details = details.filter(|details| **details != DomainDetails::default());
    // Writing JSON to a string does not fail.
    let details = details.and_then(|details| serde_json::to_string(details).ok());
    let update = sql(
        "UPDATE domains SET tenant_id = ?, details = ?, token = ?, verified_at = ?, created_at = ?, rev = ? WHERE id = ?",
    );
    let update = update
        .bind(row.map(|row| row.tenant_id))
        .bind(details.as_deref().map(Value::Text))
        .bind(row.and_then(|row| row.token.as_deref()))
        .bind(row.and_then(|row| row.verified_at))
        .bind(row.and_then(|row| row.created_at))
        .bind(published.rev)
        .bind(published.id);
    session.execute(update).await?;
    let mut outbox = OutboxBatches::default();
    let record = published.record();
    outbox.push(&domain_key(&published.domain), &record.as_deref());
    outbox.append_outbox(session, now).await
}

async fn count_links(session: &mut Session, id: u32, most: u64) -> Result<u64, Fault> {
    let query = sql(
        "SELECT COUNT(*) FROM (SELECT id FROM links WHERE domain_id = ? AND deleted_at IS NULL LIMIT ?) AS live",
    );
    let (count,): (i64,) = session.fetch_one(query.bind(id).bind(most)).await?;
    Ok(count.cast_unsigned())
}

async fn count_domains(session: &mut Session) -> Result<u64, Fault> {
    let query = sql("SELECT COUNT(*) FROM domains WHERE tenant_id IS NOT NULL");
    let (count,): (i64,) = session.fetch_one(query).await?;
    Ok(count.cast_unsigned())
}

/// Number of domains that a tenant has created, and number of unverified ones among them.
async fn count_of_tenant(session: &mut Session, tenant_id: u32) -> Result<(u64, u64), Fault> {
    let query = sql(
        "SELECT COUNT(*) AS domains, COUNT(*) - COUNT(verified_at) AS unverified FROM domains \
         WHERE tenant_id = ? AND created_at IS NOT NULL",
    );
    let (domains, unverified): (i64, i64) = session.fetch_one(query.bind(tenant_id)).await?;
    Ok((domains.cast_unsigned(), unverified.cast_unsigned()))
}

/// Replaces the content of a data URL by its size.
fn shorten(logo: &mut String) {
    if let Some((kind, data)) = logo.split_once(";base64,") {
        *logo = format!("{kind} ({} bytes)", data.len());
    }
}

fn note_details(detail: &mut Map<String, Json>, details: &DomainDetails) {
    if let Json::Object(mut details) = json!(details) {
        if let Some(Json::String(logo)) = details.get_mut("brandLogo") {
            shorten(logo);
        }
        detail.extend(details);
    }
}

/// Writes the audit log of the domain's tenant, and also of the actor's tenant if it is another one.
async fn note(
    session: &mut Session,
    actor: &Actor,
    row: &DomainRow,
    action: &'static str,
    detail: Map<String, Json>,
) -> Result<(), Fault> {
    let within = Actor {
        tenant_id: row.tenant_id,
        user_id: actor.user_id.filter(|_| actor.tenant_id == row.tenant_id),
        ..actor.clone()
    };
    let actors = [Some(&within), Some(actor).filter(|actor| **actor != within)];
    for actor in actors.into_iter().flatten() {
        let entry = Entry {
            actor,
            action,
            subject: format!("domain:{}", row.domain),
            detail: Json::Object(detail.clone()),
        };
        append(session, &entry).await?;
    }
    Ok(())
}
