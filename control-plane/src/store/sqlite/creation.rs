//! The statements for creating links with care.

use super::relay::now;
use crate::store::sql::creation::{CreationStatements, NewReceipt, ReceiptRow};
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::LinkRow;
use crate::store::sql::select_links;
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use sqlx::{QueryBuilder, Sqlite, query, query_as};
use std::ops::Range;

impl CreationStatements for Session<Sqlite> {
    async fn links_by_hash(&mut self, hashes: &[i64], limit: u32) -> Result<Vec<LinkRow>, Fault> {
        let mut select = QueryBuilder::<Sqlite>::new(select_links!("WHERE l.url_hash IN ("));
        let mut values = select.separated(", ");
        for hash in padded(hashes) {
            values.push_bind(*hash);
        }
        select.push(") AND l.deleted_at IS NULL ORDER BY l.id LIMIT ");
        select.push_bind(limit);
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    /// Every transaction that writes has the whole file for itself.
    async fn lock_targets(&mut self, _hashes: &[i64]) -> Result<(), Fault> {
        Ok(())
    }

    async fn insert_receipts(&mut self, receipts: &[NewReceipt<'_>]) -> Result<(), Fault> {
        let mut insert = QueryBuilder::<Sqlite>::new(
            "INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at) ",
        );
        insert.push_values(receipts, |mut values, new| {
            values
                .push_bind(new.receipt.request.as_slice())
                .push_bind(new.receipt.item)
                .push_bind(new.receipt.fingerprint.as_slice())
                .push_bind(new.link.id.cast_signed())
                .push_bind(new.link.key().to_string())
                .push_bind(new.rev.cast_signed())
                .push_bind(new.link.created_at.cast_signed());
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
            "DELETE FROM receipts WHERE (request, item) IN \
             (SELECT request, item FROM receipts WHERE created_at < ",
            now!(),
            " - ? LIMIT ?)"
        ))
        .bind(kept.cast_signed())
        .bind(limit);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected())
    }
}
