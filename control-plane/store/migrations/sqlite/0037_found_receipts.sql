-- A receipt may be of a link that was there already; see migrations/mysql.
ALTER TABLE receipts ADD COLUMN found INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN link_created_at INTEGER;
ALTER TABLE receipts ADD COLUMN link_updated_at INTEGER;
