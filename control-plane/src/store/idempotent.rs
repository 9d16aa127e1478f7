//! Creating links once for a request that may come twice, and only if there is none like them.

use super::calls::{Store, run};
use super::creation::{CreateError, NewLink, NewRows, Outcome};
use super::error::{Fault, StoreError};
use super::receipts::{NewReceipt, Receipt, insert_receipts};
use super::session::Session;
use super::twins::{Candidate, Wanted, find_like, lock_targets};
use crate::model::Link;
use edgelink_wire::LinkKey;

impl Store {
    /// As [`Store::create_links`], and each created link leaves its receipt in the same transaction. If one of the
    /// receipts is there already, or a twin that is not allowed, no link is created and the answer is `None`: another
    /// call was faster. Of concurrent calls that allow no twin, one creates.
    pub async fn create_links_once(
        &self,
        new: Vec<OnceLink>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError> {
        let links: Vec<NewLink> = new.iter().map(|new| new.link.clone()).collect();
        let keys: Vec<LinkKey> = links.iter().map(|link| link.key.clone()).collect();
        let rows = self.new_rows(links).await?;
        let call = self.write("create_links_once", "creating links once");
        let created = run!(call, |session| create_once(session, &rows, &new).await);
        self.changed(&keys);
        Ok(created?.map(|outcomes| rows.into_answers(outcomes)))
    }
}

/// A link to create once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceLink {
    /// The link.
    pub link: NewLink,
    /// The receipt to leave.
    pub receipt: Option<Receipt>,
    /// Whether there may be another one like it.
    pub twin: Twin,
}

/// Whether a link may be created beside another one with the same domain and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// It may.
    Allowed,
    /// Not beside one with the same code.
    NotWithThisCode,
    /// Not beside one with any code.
    NotWithAnyCode,
}

impl OnceLink {
    /// The twin that is not allowed.
    fn unwanted(&self) -> Option<Wanted<'_>> {
        let code = match self.twin {
            Twin::Allowed => return None,
            Twin::NotWithThisCode => Some(&self.link.key.code),
            Twin::NotWithAnyCode => None,
        };
        Some(Wanted {
            domain: &self.link.key.domain,
            code,
            content: &self.link.content,
        })
    }
}

impl From<(NewLink, Option<Receipt>)> for OnceLink {
    /// A link that may have twins.
    fn from((link, receipt): (NewLink, Option<Receipt>)) -> Self {
        Self {
            link,
            receipt,
            twin: Twin::Allowed,
        }
    }
}

/// Creates the links, and with each of them its receipt. `None` if a receipt is there already, or a twin that is not
/// allowed.
async fn create_once(
    session: &mut Session,
    rows: &NewRows,
    new: &[OnceLink],
) -> Result<Option<Vec<Outcome>>, Fault> {
    let outcomes = if new.iter().all(|new| new.twin == Twin::Allowed) {
        rows.begin_and_create(session).await?
    } else {
        session.begin().await?;
        if meet_twins(session, rows, new).await? {
            session.rollback().await?;
            return Ok(None);
        }
        rows.create(session).await?
    };
    let created = rows.rows.iter().zip(new).zip(&outcomes);
    let receipts = created.filter_map(|((row, new), outcome)| {
        let (receipt, rev) = (new.receipt.as_ref()?, *outcome.as_ref().ok()?);
        Some(NewReceipt::new(
            receipt,
            &row.link,
            rev,
            row.link.created_at,
            false,
        ))
    });
    let receipts: Vec<NewReceipt<'_>> = receipts.collect();
    if !insert_receipts(session, &receipts).await? {
        session.rollback().await?;
        return Ok(None);
    }
    session.commit(rows.rows.len()).await?;
    Ok(Some(outcomes))
}

/// Whether one of these links has a twin that is not allowed. Others create none until the transaction ends.
async fn meet_twins(
    session: &mut Session,
    rows: &NewRows,
    new: &[OnceLink],
) -> Result<bool, Fault> {
    let mut candidates = Vec::new();
    for (row, new) in rows.rows.iter().zip(new) {
        if let Some(wanted) = new.unwanted() {
            candidates.push(Candidate::new(&wanted, row.domain_id));
        }
    }
    lock_targets(session, &candidates).await?;
    let twins = find_like(session, &candidates).await?;
    Ok(twins.iter().any(Option::is_some))
}
