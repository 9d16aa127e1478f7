-- The same as in migrations/mysql.
ALTER TABLE click_totals ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
