//! Failed logins in the audit log: one entry for each account and hour counts them.

use super::accounts::lock_tenant;
use super::audit::{Actor, Entry, append};
use super::users;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::net::IpAddr;

const ACTION: &str = "session.fail";

const HOUR_MILLIS: u64 = 60 * 60 * 1000;

/// The account of failed logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FailedAccount {
    /// Its tenant.
    pub tenant_id: u32,
    /// Its user; `None` for all names without a user in the tenant, taken together.
    pub user_id: Option<u64>,
}

/// Failed logins of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedSum {
    /// Logins with wrong credentials.
    pub wrong: u64,
    /// Logins refused because there were too many.
    pub refused: u64,
    /// The address of the last one, or its network, by which attempts are counted.
    pub address: IpAddr,
}

/// [`FailedSum`] as stored in the audit log.
#[derive(Debug, Serialize, Deserialize)]
struct Detail {
    wrong: u64,
    refused: u64,
    address: String,
}

impl Store {
    /// Counts failed logins of an account. `false` if there is no such tenant.
    pub async fn note_failed_logins(
        &self,
        account: FailedAccount,
        sum: FailedSum,
    ) -> Result<bool, StoreError> {
        let call = self
            .write("note_failed_logins", "recording failed logins")
            .of(Class::Accounts);
        run!(call, |session| {
            session.begin().await?;
            // Processes that record them are serialized.
            if !lock_tenant(session, account.tenant_id).await? {
                session.rollback().await?;
                return Ok(false);
            }
            note(session, account, sum).await?;
            session.commit(1).await?;
            Ok(true)
        })
    }
}

async fn note(session: &mut Session, account: FailedAccount, sum: FailedSum) -> Result<(), Fault> {
    let subject = match account.user_id {
        Some(id) => users::subject(id),
        None => "user:-".to_owned(),
    };
    let dialect = session.dialect();
    let (index, now) = (dialect.force_index("audit_of_subject"), dialect.now_millis);
    let hour = format!("at >= {now} - {now} % {HOUR_MILLIS}");
    let last = sql(format!(
        "SELECT id, detail FROM audit{index} WHERE tenant_id = ? AND subject = ? AND action = ? AND {hour} \
         ORDER BY id DESC LIMIT 1"
    ));
    let last = last.bind(account.tenant_id).bind(subject.as_str());
    let last: Option<(u64, String)> = session.fetch_optional(last.bind(ACTION)).await?;
    let Some((id, detail)) = last else {
        let entry = Entry {
            actor: &Actor::command_line(account.tenant_id),
            action: ACTION,
            subject,
            detail: json!(Detail::of(sum)),
        };
        return append(session, &entry).await;
    };
    let before: Detail = serde_json::from_str(&detail)
        .map_err(|error| Fault::corrupt("detail of an audit entry", &error))?;
    let detail = json!(before.with(sum)).to_string();
    let update = sql("UPDATE audit SET detail = ? WHERE id = ?");
    let update = update.bind(Value::Text(&detail)).bind(id);
    session.execute(update).await.map(drop)
}

impl Detail {
    fn of(sum: FailedSum) -> Self {
        Self {
            wrong: sum.wrong,
            refused: sum.refused,
            address: sum.address.to_string(),
        }
    }

    fn with(&self, sum: FailedSum) -> Self {
        Self {
            wrong: self.wrong.saturating_add(sum.wrong),
            refused: self.refused.saturating_add(sum.refused),
            address: sum.address.to_string(),
        }
    }
}
