//! The statements for creating links with care.

use super::relay::now;
use crate::store::sql::creation::{CreationStatements, NewReceipt, ReceiptRow};
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::LinkRow;
use crate::store::sql::select_links;
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use sqlx::{MySql, QueryBuilder, query, query_as};
use std::collections::BTreeSet;
use std::ops::Range;

/// How many rows there are to lock targets by, which share them.
const TARGET_BUCKETS: u64 = 64;

impl CreationStatements for Session<MySql> {
    async fn links_by_hash(&mut self, hashes: &[i64], limit: u32) -> Result<Vec<LinkRow>, Fault> {
        let mut select = QueryBuilder::<MySql>::new(select_links!("WHERE l.url_hash IN ("));
        let mut values = select.separated(", ");
        for hash in padded(hashes) {
            values.push_bind(*hash);
        }
        select.push(") AND l.deleted_at IS NULL ORDER BY l.id LIMIT ");
        select.push_bind(limit);
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    async fn lock_targets(&mut self, hashes: &[i64]) -> Result<(), Fault> {
        let buckets: BTreeSet<u64> = hashes
            .iter()
            .map(|hash| hash.cast_unsigned() % TARGET_BUCKETS)
            .collect();
        let buckets: Vec<u64> = buckets.into_iter().collect();
        // In the order of their index, which everybody locks them in.
        let mut select =
            QueryBuilder::<MySql>::new("SELECT bucket FROM target_locks WHERE bucket IN (");
        let mut list = select.separated(", ");
        for bucket in padded(&buckets) {
            list.push_bind(*bucket);
        }
        select.push(") ORDER BY bucket FOR UPDATE");
        let query = select.build();
        self.run(|c| query.fetch_all(c)).await?;
        Ok(())
    }

    async fn insert_receipts(&mut self, receipts: &[NewReceipt<'_>]) -> Result<(), Fault> {
        let mut insert = QueryBuilder::<MySql>::new(
            "INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at) ",
        );
        insert.push_values(receipts, |mut values, new| {
            values
                .push_bind(new.receipt.request.as_slice())
                .push_bind(new.receipt.item)
                .push_bind(new.receipt.fingerprint.as_slice())
                .push_bind(new.link.id)
                .push_bind(new.link.key().to_string().into_bytes())
                .push_bind(new.rev)
                .push_bind(new.link.created_at);
        });
        let query = insert.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn find_receipts(
        &mut self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<ReceiptRow>, Fault> {
        let query = query_as(
            "SELECT item, fingerprint, link_id, link_key, rev, created_at FROM receipts \
             WHERE request = ? AND item >= ? AND item < ?",
        )
        .bind(request.as_slice())
        .bind(items.start)
        .bind(items.end);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn purge_receipts(&mut self, kept: u64, limit: u32) -> Result<u64, Fault> {
        let query = query(concat!(
            "DELETE FROM receipts WHERE created_at < CAST(",
            now!(),
            " AS SIGNED) - ? LIMIT ?"
        ))
        .bind(kept.cast_signed())
        .bind(limit);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected())
    }
}
