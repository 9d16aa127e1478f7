//! Normalizes names of accounts from earlier versions to the form of [`AccountName`].

use super::accounts::lock_tenant;
use super::audit::{Actor, Entry, append};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use edgelink_model::tenancy::AccountName;
use serde_json::json;

/// Number of names read at once.
const PAGE: u32 = 1_000;

/// A table with names of accounts.
#[derive(Clone, Copy, Debug)]
struct NamedTable {
    name: &'static str,
    /// The column with the tenant of an account.
    tenant: &'static str,
    kind: &'static str,
}

const TABLES: [NamedTable; 2] = [
    NamedTable {
        name: "tenants",
        tenant: "id",
        kind: "tenant",
    },
    NamedTable {
        name: "users",
        tenant: "tenant_id",
        kind: "user",
    },
];

#[derive(Debug, sqlx_macros::FromRow)]
struct NameColumns {
    id: u64,
    tenant_id: u32,
    name: String,
}

impl NameColumns {
    fn is_normal(&self) -> bool {
        AccountName::parse(&self.name).is_ok_and(|name| name.as_str() == self.name)
    }

    /// The names that it may get, the best first.
    fn candidates(&self, kind: &str) -> impl Iterator<Item = AccountName> {
        let numbered = |stored: &str| AccountName::with_number(stored, kind, self.id);
        let normal = AccountName::parse(&self.name).ok();
        normal
            .into_iter()
            .chain([numbered(&self.name), numbered("")])
    }
}

impl Store {
    /// Renames tenants and users whose name is not in the form of [`AccountName`]. If that name is taken, the number
    /// of the account is added. Each renaming is recorded in the audit log, and logged.
    pub(super) async fn normalize_names(&self) -> Result<(), StoreError> {
        for table in TABLES {
            let mut after = 0;
            loop {
                let call = self.read("read_names", "reading the names of accounts");
                let rows = run!(call, |session| page(session, table, after).await)?;
                let Some(last) = rows.last() else { break };
                after = last.id;
                for row in rows.iter().filter(|row| !row.is_normal()) {
                    self.rename(table, row).await?;
                }
            }
        }
        Ok(())
    }

    async fn rename(&self, table: NamedTable, row: &NameColumns) -> Result<(), StoreError> {
        let call = self
            .write("normalize_name", "normalizing the name of an account")
            .of(Class::Background);
        let renamed = run!(call, |session| {
            session.begin().await?;
            let renamed = rename(session, table, row).await?;
            session.commit(1).await?;
            Ok(renamed)
        })?;
        let NamedTable { kind, .. } = table;
        let (id, tenant, from) = (row.id, row.tenant_id, &row.name);
        match renamed {
            Renaming::To(to) => {
                tracing::warn!(kind, id, tenant, %from, %to, "renamed an account whose name was not normalized");
            }
            Renaming::Meanwhile => {}
            Renaming::Impossible => {
                tracing::error!(kind, id, tenant, %from, "failed to normalize the name of an account, as all candidates are taken; rename it by its id");
            }
        }
        Ok(())
    }
}

async fn page(
    session: &mut Session,
    table: NamedTable,
    after: u64,
) -> Result<Vec<NameColumns>, Fault> {
    let NamedTable { name, tenant, .. } = table;
    let query = sql(format!(
        "SELECT id, {tenant} AS tenant_id, name FROM {name} WHERE id > ? ORDER BY id LIMIT ?"
    ));
    session.fetch_all(query.bind(after).bind(PAGE)).await
}

/// The outcome for an account whose name was not normalized.
enum Renaming {
    To(AccountName),
    /// A request has renamed it meanwhile.
    Meanwhile,
    /// Each name that it could get is taken.
    Impossible,
}

/// Gives an account the first candidate name that is free.
async fn rename(
    session: &mut Session,
    table: NamedTable,
    row: &NameColumns,
) -> Result<Renaming, Fault> {
    lock_tenant(session, row.tenant_id).await?;
    for name in row.candidates(table.kind) {
        let update = sql(format!(
            "UPDATE {} SET name = ? WHERE id = ? AND name = ?",
            table.name
        ));
        let update = update.bind(Value::Text(name.as_str())).bind(row.id);
        match session.execute(update.bind(Value::Text(&row.name))).await {
            Err(fault) if fault.is_duplicate() => continue,
            Err(fault) => return Err(fault),
            Ok(0) => return Ok(Renaming::Meanwhile),
            Ok(_) => {}
        }
        let entry = Entry {
            actor: &Actor::command_line(row.tenant_id),
            action: match table.kind {
                "tenant" => "tenant.update",
                _ => "user.update",
            },
            subject: format!("{}:{}", table.kind, row.id),
            detail: json!({ "name": name.as_str(), "formerly": row.name }),
        };
        append(session, &entry).await?;
        return Ok(Renaming::To(name));
    }
    Ok(Renaming::Impossible)
}
