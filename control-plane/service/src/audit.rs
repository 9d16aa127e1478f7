//! Use cases of the audit log.

use super::caller::{Caller, Right};
use super::fields::{Fields, Reason};
use super::links::Links;
use super::page::{self, Page};
use crate::problem::Problem;
use edgelink_model::timestamp::Time;
pub use edgelink_store::AuditEntry;
use edgelink_store::{AuditQuery, subject};
use edgelink_wire::LinkKey;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// An entry as the API shows it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct EntryView {
    #[schema(value_type = String)]
    pub at: Time,
    pub actor: String,
    pub(crate) user_id: Option<u64>,
    pub action: String,
    pub subject: String,
    pub detail: Value,
}

impl EntryView {
    /// Builds the view of a stored entry, whose actor is the id of an API key.
    pub fn new(entry: AuditEntry) -> Self {
        Self {
            at: Time::of_millis(entry.at),
            actor: entry.actor.key_id,
            user_id: entry.actor.user_id,
            action: entry.action,
            subject: entry.subject,
            detail: entry.detail,
        }
    }
}

/// Reads the parameters of a list of changes in the caller's tenant.
///
/// # Errors
/// A problem that names each wrong parameter.
pub fn list_of(caller: &Caller, query: Option<&str>) -> Result<AuditQuery, Problem> {
    let mut fields = Fields::of_query(query)?;
    let limit = page::limit(&mut fields);
    let query = AuditQuery {
        subject: fields.optional("subject", filter),
        actor: fields.optional("actor", filter),
        action: fields.optional("action", filter),
        before: fields.optional("cursor", page::cursor),
        ..AuditQuery::of_tenant(caller.tenant_id(), limit)
    };
    fields.finish().map(|()| query)
}

/// A filter of a query: any text.
fn filter(value: &Value) -> Result<String, Reason> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or(Reason::Borrowed("must be a string"))
}

impl Links {
    /// A page of the audit log of the caller's tenant, newest first.
    pub async fn audit(
        &self,
        caller: &Caller,
        mut query: AuditQuery,
    ) -> Result<Page<AuditEntry>, Problem> {
        caller.require(Right::Administer)?;
        let limit = query.limit;
        query.limit += 1;
        Ok(page_of(self.store.audit_entries(&query).await?, limit))
    }

    /// A page of the changes of a link, newest first, before the entry with that number.
    pub async fn history(
        &self,
        caller: &Caller,
        key: &LinkKey,
        limit: u32,
        before: Option<u64>,
    ) -> Result<Page<AuditEntry>, Problem> {
        let link = self.find(caller, key).await?;
        let query = AuditQuery {
            before,
            ..AuditQuery::of_tenant(caller.tenant_id(), limit + 1)
        };
        let subject = subject(key);
        let history = self.store.link_history(&query, &subject, link.created_at);
        Ok(page_of(history.await?, limit))
    }
}

/// A page of `limit` entries; one more was read.
fn page_of(mut items: Vec<AuditEntry>, limit: u32) -> Page<AuditEntry> {
    let next = page::cut(&mut items, limit).map(|entry| page::place(entry.id));
    Page { items, next }
}
