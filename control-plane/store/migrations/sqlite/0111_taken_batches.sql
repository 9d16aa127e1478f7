-- The same as in migrations/mysql.
ALTER TABLE click_workers ADD COLUMN taken BLOB NULL;
