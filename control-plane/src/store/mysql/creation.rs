//! The statements for creating links with care.

use super::relay::now;
use crate::store::sql::creation::{
    ContentHash, CreationStatements, NewReceipt, ReceiptRow, WHOLE_REQUEST,
};
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::Unsigned;
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use edgelink_wire::Code;
use sqlx::{MySql, QueryBuilder, query, query_as, query_scalar};
use std::collections::BTreeSet;
use std::ops::Range;

/// How many rows there are to lock targets by, which share them.
const TARGET_BUCKETS: u64 = 64;

impl CreationStatements for Session<MySql> {
    async fn ids_by_content(&mut self, hashes: &[ContentHash]) -> Result<Vec<u64>, Fault> {
        let mut select = QueryBuilder::<MySql>::new("");
        for (index, hash) in hashes.iter().enumerate() {
            select.push(if index == 0 { "" } else { " UNION ALL " });
            select.push("(SELECT id FROM links FORCE INDEX (links_content) WHERE content_hash = ");
            select.push_bind(hash.content);
            select.push(" AND deleted_at IS NULL AND url_hash = ");
            select.push_bind(hash.target);
            select.push(" ORDER BY id LIMIT 1)");
        }
        let query = select.build_query_scalar();
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn ids_by_code(&mut self, keys: &[(u32, &Code)]) -> Result<Vec<u64>, Fault> {
        let mut select = QueryBuilder::<MySql>::new("");
        for (index, key) in keys.iter().enumerate() {
            select.push(if index == 0 { "" } else { " UNION ALL " });
            select.push("SELECT id FROM links WHERE domain_id = ");
            select.push_bind(key.0);
            select.push(" AND code = ");
            select.push_bind(key.1.as_str().as_bytes());
            select.push(" AND deleted_at IS NULL");
        }
        let query = select.build_query_scalar();
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn has_unhashed(&mut self) -> Result<bool, Fault> {
        let query = query_scalar(
            "SELECT EXISTS (SELECT 1 FROM links FORCE INDEX (links_content) WHERE content_hash IS NULL AND deleted_at IS NULL)",
        );
        self.run(|c| query.fetch_one(c)).await
    }

    async fn unhashed_ids(&mut self, targets: &[i64], limit: u32) -> Result<Vec<u64>, Fault> {
        let mut select = QueryBuilder::<MySql>::new("");
        for (index, target) in targets.iter().enumerate() {
            select.push(if index == 0 { "" } else { " UNION ALL " });
            select.push(
                "(SELECT id FROM links FORCE INDEX (links_content) \
                 WHERE content_hash IS NULL AND deleted_at IS NULL AND url_hash = ",
            );
            select.push_bind(*target);
            select.push(" ORDER BY id LIMIT ");
            select.push_bind(limit);
            select.push(")");
        }
        let query = select.build_query_scalar();
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn lock_unhashed(&mut self, limit: u32) -> Result<Vec<u64>, Fault> {
        let query = query_scalar(
            "SELECT id FROM links FORCE INDEX (links_content) WHERE content_hash IS NULL AND deleted_at IS NULL LIMIT ? FOR UPDATE",
        )
        .bind(limit);
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn set_hashes(&mut self, hashes: &[(u64, i64)]) -> Result<(), Fault> {
        let mut update = QueryBuilder::<MySql>::new("UPDATE links SET content_hash = CASE id");
        for (id, hash) in hashes {
            update.push(" WHEN ").push_bind(*id);
            update.push(" THEN ").push_bind(*hash);
        }
        update.push(" END WHERE id IN (");
        let mut ids = update.separated(", ");
        for (id, _) in hashes {
            ids.push_bind(*id);
        }
        update.push(")");
        let query = update.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
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
            "INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at, found, link_created_at, \
             link_updated_at) ",
        );
        insert.push_values(receipts, |mut values, new| {
            values
                .push_bind(new.receipt.request.as_slice())
                .push_bind(new.receipt.item)
                .push_bind(new.receipt.fingerprint.as_slice())
                .push_bind(new.link.id)
                .push_bind(new.link.key().to_string().into_bytes())
                .push_bind(new.rev)
                .push_bind(new.created_at)
                .push_bind(new.found)
                .push_bind(new.link.created_at)
                .push_bind(new.link.updated_at);
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
            "SELECT item, fingerprint, link_id, link_key, rev, created_at, found, link_created_at, link_updated_at \
             FROM receipts \
             WHERE request = ? AND item >= ? AND item < ?",
        )
        .bind(request.as_slice())
        .bind(items.start)
        .bind(items.end);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn claim_request(
        &mut self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, Fault> {
        let claim = query(concat!(
            "INSERT IGNORE INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at) \
             VALUES (?, ?, ?, 0, '', 0, ",
            now!(),
            ")"
        ))
        .bind(request.as_slice())
        .bind(WHOLE_REQUEST)
        .bind(fingerprint.as_slice());
        self.about_to_last();
        self.run(|c| claim.execute(c)).await?;
        let query = query_scalar("SELECT fingerprint FROM receipts WHERE request = ? AND item = ?")
            .bind(request.as_slice())
            .bind(WHOLE_REQUEST);
        let stored: Option<Vec<u8>> = self.run(|c| query.fetch_optional(c)).await?;
        Ok(stored.is_some_and(|stored| stored == fingerprint))
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
