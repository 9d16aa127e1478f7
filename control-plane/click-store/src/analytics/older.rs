//! Clicks counted by control planes older than rollups, running beside newer ones or after a downgrade.

use crate::ClickStore;
use crate::clicks::{insert_reports, settle_accounts};
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::clock;
use edgelink_wire::clicks::{ClickBatch, encode};

/// The most links whose clicks are taken over at once.
const MAX_LINKS: u32 = 512;

impl ClickStore {
    /// Moves clicks that older control planes counted, of some links, into the queue, as clicks of now without attributes. Returns their
    /// number. From then on, the accounts include them.
    pub async fn take_older_clicks(&self) -> Result<u64, StoreError> {
        let call = self
            .write("take_older_clicks", "taking clicks of older control planes")
            .of(Class::Background);
        run!(call, |session| take(session).await)
    }
}

async fn take(session: &mut Session) -> Result<u64, Fault> {
    let dialect = session.dialect();
    let (index, for_update) = (
        dialect.force_index("click_totals_behind"),
        dialect.for_update,
    );
    let from = format!("FROM click_totals{index} WHERE behind = 1 LIMIT");
    let is_any = sql(format!("SELECT link_key {from} 1"));
    let is_any: Option<(Vec<u8>,)> = session.fetch_optional(is_any).await?;
    if is_any.is_none() {
        return Ok(0);
    }
    session.begin().await?;
    let query = sql(format!(
        "SELECT link_key, clicks - taken {from} ?{for_update}"
    ));
    let rows: Vec<(Vec<u8>, u64)> = session.fetch_all(query.bind(MAX_LINKS)).await?;
    let mut clicks: Vec<(String, u64)> = Vec::with_capacity(rows.len());
    for (key, count) in rows {
        clicks.push((String::from_utf8_lossy(&key).into_owned(), count));
    }
    if clicks.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let keys: Vec<&str> = clicks.iter().map(|(key, _)| key.as_str()).collect();
    let taken = sql("UPDATE click_totals SET taken = clicks WHERE link_key IN ").list(&keys);
    session.execute(taken).await?;
    let now = clock::unix_millis();
    let batch = ClickBatch {
        at: now / 1000,
        clicks: clicks
            .iter()
            .map(|(key, count)| (key.as_str(), *count))
            .collect(),
        ..ClickBatch::default()
    };
    insert_reports(session, &[(now, encode(&[batch]).into())]).await?;
    settle_accounts(session).await?;
    session.commit(clicks.len()).await?;
    Ok(clicks.iter().map(|(_, count)| *count).sum())
}
