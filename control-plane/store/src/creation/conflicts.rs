//! Rows that conflict with new links.

use crate::external_ids::external_ids;
use edgelink_database::columns::numbers;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, sql};
use edgelink_wire::Code;
use std::collections::{HashMap, HashSet};

/// Rows with the numbers or codes of new links.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    pub(super) numbers: HashSet<u64>,
    codes: HashMap<(u32, Vec<u8>), TakenRow>,
    /// With their tenants.
    pub(super) external_ids: HashSet<(u32, String)>,
}

/// A row that has the code of a new link.
#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct TakenRow {
    pub(super) id: u64,
    code: Vec<u8>,
    pub(super) rev: u64,
    pub(super) deleted_at: Option<u64>,
}

impl Conflicts {
    /// Finds the rows with these numbers, or domains and codes.
    pub(super) async fn find(
        session: &mut Session,
        links: &[(u64, u32, &Code)],
    ) -> Result<Self, Fault> {
        let mut found = Self::default();
        for links in links.chunks(LONGEST) {
            let ids: Vec<u64> = links.iter().map(|(id, ..)| *id).collect();
            let query = sql("SELECT id FROM links WHERE id IN ").list(&ids);
            found.numbers.extend(numbers(session, query).await?);
        }
        let codes = links.iter().map(|(_, domain_id, code)| (*domain_id, *code));
        let codes: Vec<(u32, &Code)> = codes.collect();
        found.find_codes(session, &codes).await?;
        Ok(found)
    }

    /// Finds the rows with these domains and codes.
    pub(super) async fn find_codes(
        &mut self,
        session: &mut Session,
        codes: &[(u32, &Code)],
    ) -> Result<(), Fault> {
        for codes in codes.chunks(LONGEST) {
            for group in codes.chunk_by(|(a, _), (b, _)| a == b) {
                let domain_id = group[0].0;
                let codes: Vec<&Code> = group.iter().map(|(_, code)| *code).collect();
                let query = sql("SELECT id, code, rev, deleted_at FROM links \
                     WHERE domain_id = ? AND code IN ");
                let query = query.bind(domain_id).list(&codes);
                let rows: Vec<TakenRow> = session.fetch_all(query).await?;
                let keyed = |row: TakenRow| ((domain_id, row.code.clone()), row);
                self.codes.extend(rows.into_iter().map(keyed));
            }
        }
        Ok(())
    }

    /// Finds the external ids, given with their tenants, that links already have.
    pub(super) async fn find_external_ids(
        &mut self,
        session: &mut Session,
        wanted: impl Iterator<Item = (u32, String)>,
    ) -> Result<(), Fault> {
        let mut wanted: Vec<(u32, String)> = wanted.collect();
        wanted.sort_unstable();
        for of_tenant in wanted.chunk_by(|(a, _), (b, _)| a == b) {
            for some in of_tenant.chunks(LONGEST) {
                let tenant_id = some[0].0;
                let ids: Vec<&str> = some.iter().map(|(_, id)| id.as_str()).collect();
                let taken = external_ids(session, tenant_id, &ids).await?;
                let taken = taken.into_iter().map(|id| (tenant_id, id));
                self.external_ids.extend(taken);
            }
        }
        Ok(())
    }

    /// The row with this code.
    pub(super) fn of_code(&self, domain_id: u32, code: &Code) -> Option<&TakenRow> {
        self.codes.get(&(domain_id, code.as_str().into()))
    }
}
