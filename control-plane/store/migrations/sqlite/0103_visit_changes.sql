-- The same as in migrations/mysql.
ALTER TABLE visits ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
