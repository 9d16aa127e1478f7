//! Total clicks of each link.

use crate::ClickStore;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, pieces, sql};
use edgelink_model::counts::rollup::Tally;
use std::collections::HashMap;

/// Joins the total of each link `l`.
pub const JOIN_TOTALS: &str = "LEFT JOIN link_totals c ON c.link_id = l.id";

/// The clicks of a link joined by [`JOIN_TOTALS`], including imported visits.
pub const VISITS: &str = "(l.imported_visits + COALESCE(c.clicks, 0))";

impl ClickStore {
    /// Total clicks of links, and how many of them are by bots; links without clicks are left out.
    pub async fn link_totals(&self, links: &[u64]) -> Result<HashMap<u64, Tally>, StoreError> {
        let call = self.read("link_totals", "reading clicks of links");
        run!(call, |session| {
            let mut totals = HashMap::with_capacity(links.len());
            for links in links.chunks(LONGEST) {
                let query = sql("SELECT link_id, clicks, bots FROM link_totals WHERE link_id IN ");
                let rows: Vec<(u64, u64, u64)> = session.fetch_all(query.list(links)).await?;
                let total = |(id, clicks, bots)| (id, Tally { clicks, bots });
                totals.extend(rows.into_iter().map(total));
            }
            Ok(totals)
        })
    }
}

/// Adds to totals.
pub(super) async fn add(session: &mut Session, totals: &[(u64, Tally)]) -> Result<(), Fault> {
    let dialect = session.dialect();
    let update = dialect.on_duplicate("link_id");
    let [clicks, bots] = ["clicks", "bots"].map(|column| dialect.inserted(column));
    let update = format!("{update} clicks = clicks + {clicks}, bots = bots + {bots}");
    for totals in pieces(totals) {
        let rows = totals
            .iter()
            .map(|(id, tally)| [(*id).into(), tally.clicks.into(), tally.bots.into()]);
        let insert = sql("INSERT INTO link_totals (link_id, clicks, bots) ").rows(rows);
        session.execute(insert.push(&update)).await?;
    }
    Ok(())
}

/// Removes the total of a link whose row another link has replaced. Part of a transaction.
pub async fn forget_total(session: &mut Session, link: u64) -> Result<(), Fault> {
    let delete = sql("DELETE FROM link_totals WHERE link_id = ?");
    session.execute(delete.bind(link)).await.map(drop)
}
