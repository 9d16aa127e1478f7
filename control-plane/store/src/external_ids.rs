//! External ids: the ids of links in other systems, unique among the links of a tenant.

use super::rows::{LINK_COLUMNS, LinkRow};
use crate::Store;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::links::model::Link;

impl Store {
    /// The link of a tenant with this external id, if there is one.
    pub async fn find_by_external_id(
        &self,
        tenant_id: u32,
        external_id: &str,
    ) -> Result<Option<Link>, StoreError> {
        let call = self.read("find_by_external_id", "finding a link by its external id");
        run!(call, |session| {
            let index = session.dialect().force_index("links_external_id");
            let query = sql(format!(
                "SELECT {LINK_COLUMNS} FROM links l{index} JOIN domains d ON d.id = l.domain_id \
                 WHERE l.tenant_id = ? AND l.external_id = ?"
            ));
            let query = query.bind(tenant_id).bind(external_id);
            let row: Option<LinkRow> = session.fetch_optional(query).await?;
            let live = row.filter(|row| !row.is_tombstone());
            live.map(LinkRow::into_link).transpose()
        })
    }
}

/// Filters the `external_ids` that links of a tenant have.
pub(super) async fn external_ids(
    session: &mut Session,
    tenant_id: u32,
    external_ids: &[&str],
) -> Result<Vec<String>, Fault> {
    let index = session.dialect().force_index("links_external_id");
    let query = sql(format!(
        "SELECT external_id FROM links{index} WHERE tenant_id = ? AND external_id IN "
    ));
    let query = query.bind(tenant_id).list(external_ids);
    let taken: Vec<(Vec<u8>,)> = session.fetch_all(query).await?;
    taken.iter().map(|(taken,)| name(taken)).collect()
}
