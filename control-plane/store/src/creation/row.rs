//! A link to be created: properties it shares with others, and its outcome in a transaction.

use super::conflicts::{Conflicts, TakenRow};
use crate::domains::{Configured, required_tenant};
use crate::receipts::{Receipt, StoredReceipt};
use crate::rows::{ROW_COLUMNS, ROW_LENGTH, StoredContent, set_content};
use crate::terms::Terms;
use crate::twins::{Twin, TwinCandidate, Wanted};
use crate::visits;
use edgelink_database::error::{Fault, Remedy, StoreError};
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use edgelink_model::links::model::{History, Link, LinkContent};
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_wire::{Code, Domain, LinkKey};
use std::sync::Arc;

/// Checks the bound of 2^63 - 1, which databases without unsigned numbers impose on all of them.
pub(super) fn check_numbers(link: &NewLink) -> Result<(), StoreError> {
    let times = [
        link.content.valid_since,
        link.content.valid_until,
        link.history.created_at,
    ];
    let numbers = [link.id, link.history.visits];
    let numbers = times.into_iter().flatten().chain(numbers);
    match numbers.max() {
        Some(largest) if i64::try_from(largest).is_err() => {
            let reason = format!("{largest} is larger than any number of a link");
            Err(Fault::Refused(reason).into_error("creating links", Remedy::GiveUp))
        }
        _ => Ok(()),
    }
}

/// A link to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// The number of the link; its primary key.
    pub id: u64,
    /// Domain and code.
    pub key: LinkKey,
    /// The creator's scope: the tenant of the link, and the links that may be twins.
    pub scope: Arc<Scope>,
    /// The owner, a user.
    pub owner_id: Option<u64>,
    /// The rest.
    pub content: LinkContent,
    /// Its history, if it is imported.
    pub history: History,
    /// The receipt to store with the link.
    pub receipt: Option<Receipt>,
    /// Twins that are allowed.
    pub twin: Twin,
}

impl NewLink {
    /// A link of the first tenant that has no owner, receipt or forbidden twin.
    #[must_use]
    pub fn new(id: u64, key: LinkKey, content: LinkContent) -> Self {
        Self {
            id,
            key,
            scope: Scope::tenant(FIRST_TENANT).into(),
            owner_id: None,
            content,
            history: History::default(),
            receipt: None,
            twin: Twin::Allowed,
        }
    }
}

/// The names wanted for a new link, which other links may have.
#[derive(Clone, Copy, Debug)]
pub struct WantedNames<'a> {
    /// The tenant, within which an external id is unique.
    pub tenant_id: u32,
    /// The domain.
    pub domain: &'a Domain,
    /// The code, if it is chosen.
    pub code: Option<&'a Code>,
    /// The external id.
    pub external_id: Option<&'a str>,
}

impl WantedNames<'_> {
    /// The external id with its tenant.
    pub(super) fn external_id(&self) -> Option<(u32, String)> {
        let id = self.external_id?;
        Some((self.tenant_id, id.to_owned()))
    }
}

/// Reason why one link of several was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The code is taken on this domain.
    #[error("the code is taken")]
    CodeTaken,
    /// Another link has the number, or a link of the same call that this one waited for was not created. The caller takes
    /// the next number.
    #[error("the number is taken")]
    NumberTaken,
    /// Another link of the tenant has the external id.
    #[error("the external id is taken")]
    ExternalIdTaken,
    /// The tenant of the link no longer owns the domain.
    #[error("the domain is gone")]
    DomainGone,
    /// There is a twin, which is not allowed. The receipt is stored for it.
    #[error("there is a link like it")]
    Found(Box<Link>),
    /// The receipt was stored before.
    #[error("the request was answered before")]
    Repeated(Box<StoredReceipt>),
}

/// A link being created.
#[derive(Debug)]
pub(super) struct NewRow {
    /// From the cache, until the transaction has checked it.
    pub(super) domain_id: u32,
    pub(super) link: Link,
    pub(super) stored: StoredContent,
    pub(super) scope: Arc<Scope>,
    pub(super) receipt: Option<Receipt>,
    pub(super) twin: Twin,
    /// Its outcome in the transaction.
    pub(super) outcome: Option<Result<(), CreateError>>,
    /// The earlier link of the same call from which its outcome follows.
    pub(super) leader: Option<usize>,
}

/// A property that at most one link has.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Dependency<'a> {
    Receipt([u8; 32], u32),
    Content(i64),
    ContentWithCode(i64, &'a Code),
}

impl NewRow {
    pub(super) fn new(new: NewLink, domain_id: u32, now: u64) -> Self {
        Self {
            domain_id,
            stored: StoredContent::new(new.scope.tenant_id, &new.key.domain, &new.content),
            link: Link {
                id: new.id,
                domain: new.key.domain,
                code: new.key.code,
                tenant_id: new.scope.tenant_id,
                owner_id: new.owner_id,
                content: new.content,
                imported_visits: new.history.visits,
                created_at: new.history.created_at.unwrap_or(now),
                updated_at: now,
                rev: 0,
            },
            scope: new.scope,
            receipt: new.receipt,
            twin: new.twin,
            outcome: None,
            leader: None,
        }
    }

    /// Approximate number of bytes of the row in a packet to the server.
    pub(super) fn wire_size(&self) -> usize {
        const RECEIPT: usize = 256;
        let receipt = self.receipt.as_ref().map_or(0, |_| RECEIPT);
        self.stored.wire_size(&self.link) + Terms::wire_size(&self.link.content) + receipt
    }

    /// The tenant that has to own the domain.
    pub(super) fn required_tenant(&self, configured: &Configured) -> Option<u32> {
        required_tenant(configured, &self.link.domain, self.link.tenant_id)
    }

    /// The values of the row.
    pub(super) fn values(&self) -> [Value<'_>; ROW_LENGTH] {
        self.stored.row(self.domain_id, &self.link)
    }

    /// The twin that is not allowed, if any.
    pub(super) fn forbidden_twin(&self) -> Option<TwinCandidate<'_>> {
        let code = match self.twin {
            Twin::Allowed | Twin::Known(_) => return None,
            Twin::NotWithThisCode => Some(&self.link.code),
            Twin::NotWithAnyCode => None,
        };
        let wanted = Wanted {
            scope: &self.scope,
            domain: &self.link.domain,
            code,
            content: &self.link.content,
        };
        Some(TwinCandidate::new(&wanted))
    }

    /// Properties it shares with other links of the call, each with true if it waits for an earlier link that shares it.
    pub(super) fn dependencies(&self) -> [Option<(Dependency<'_>, bool)>; 3] {
        let (content, code) = (self.stored.content_hash, &self.link.code);
        let of_receipt =
            |receipt: &Receipt| (Dependency::Receipt(receipt.request, receipt.item), true);
        let any_code = (
            Dependency::Content(content),
            self.twin == Twin::NotWithAnyCode,
        );
        let this_code = (
            Dependency::ContentWithCode(content, code),
            self.twin == Twin::NotWithThisCode,
        );
        let receipt = self.receipt.as_ref().map(of_receipt);
        [receipt, Some(any_code), Some(this_code)]
    }

    /// The receipt of its outcome, if it stores one.
    pub(super) fn new_receipt(&self) -> Option<StoredReceipt> {
        let receipt = self.receipt.as_ref()?;
        match &self.outcome {
            Some(Ok(())) => Some(StoredReceipt::new(receipt, &self.link, false)),
            Some(Err(CreateError::Found(link))) => Some(StoredReceipt::new(receipt, link, true)),
            _ => None,
        }
    }

    /// Its external id, with its tenant.
    pub(super) fn external_id(&self) -> Option<(u32, String)> {
        let id = self.link.content.external_id.clone()?;
        Some((self.link.tenant_id, id))
    }

    /// Number, domain and code.
    pub(super) fn place(&self) -> (u64, u32, &Code) {
        (self.link.id, self.domain_id, &self.link.code)
    }

    /// Sets the outcome of a link by its conflicts. A tombstone with its code is revived, unless it has changed since
    /// it was read.
    pub(super) async fn resolve_conflict(
        &mut self,
        session: &mut Session,
        conflicts: &Conflicts,
    ) -> Result<(), Fault> {
        let (id, domain_id, code) = self.place();
        let has_taken_id = |id| conflicts.external_ids.contains(&id);
        let external_id = self.external_id();
        self.outcome = match conflicts.of_code(domain_id, code) {
            // First, so that requests for the same link learn that there is one.
            _ if external_id.is_some_and(has_taken_id) => Some(Err(CreateError::ExternalIdTaken)),
            _ if conflicts.numbers.contains(&id) => Some(Err(CreateError::NumberTaken)),
            None => None,
            Some(taken) if taken.deleted_at.is_none() => Some(Err(CreateError::CodeTaken)),
            Some(tombstone) => {
                let rev = self.link.rev.max(tombstone.rev + 1);
                match self.revive(session, tombstone, rev).await {
                    Ok(0) => None,
                    Ok(_) => {
                        self.link.rev = rev;
                        Some(Ok(()))
                    }
                    Err(fault) if fault.is_duplicate() => Some(Err(CreateError::NumberTaken)),
                    Err(fault) => return Err(fault),
                }
            }
        };
        Ok(())
    }

    /// Overwrites a tombstone with the link, at revision `rev`. Returns the number of rows: 0 if it has changed. The uses and
    /// clicks of the deleted link are not carried over.
    pub(super) async fn revive(
        &self,
        session: &mut Session,
        tombstone: &TakenRow,
        rev: u64,
    ) -> Result<u64, Fault> {
        let revive = sql("UPDATE links SET id = ?, tenant_id = ?, owner_id = ?, ")
            .bind(self.link.id)
            .bind(self.link.tenant_id)
            .bind(self.link.owner_id);
        let revive = set_content(revive, &self.stored, &self.link.content)
            .push(
                ", imported_visits = ?, created_at = ?, updated_at = ?, deleted_at = NULL, rev = ?",
            )
            .push(" WHERE id = ? AND rev = ? AND deleted_at IS NOT NULL")
            .bind_all([self.link.imported_visits, self.link.created_at])
            .bind_all([self.link.updated_at, rev])
            .bind_all([tombstone.id, tombstone.rev]);
        let revived = session.execute(revive).await?;
        if revived > 0 {
            visits::remove(session, &[tombstone.id]).await?;
            edgelink_click_store::forget_total(session, tombstone.id).await?;
        }
        Ok(revived)
    }

    /// The outcome of a link that waits for this one.
    pub(super) fn outcome_for(&self, follower: &Self) -> CreateError {
        let key = |row: &Self| row.receipt.as_ref().map(Receipt::key);
        let (link, other) = (&self.link, &follower.link);
        let is_same = (&link.domain, &link.content) == (&other.domain, &other.content);
        let is_like = |link: &Link| is_same && link.is_in(&follower.scope);
        match (self.new_receipt(), &self.outcome) {
            (Some(receipt), _) if key(self) == key(follower) => {
                CreateError::Repeated(Box::new(receipt))
            }
            (_, Some(Ok(()))) if is_like(link) => CreateError::Found(Box::new(link.clone())),
            (_, Some(Err(CreateError::Found(link)))) if is_like(link) => {
                CreateError::Found(link.clone())
            }
            _ => CreateError::NumberTaken,
        }
    }
}

pub(super) fn insert_links() -> String {
    format!("INSERT INTO links ({ROW_COLUMNS}) ")
}
