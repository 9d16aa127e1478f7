-- The same as in migrations/mysql.
ALTER TABLE publisher ADD COLUMN outbox_mark INTEGER NOT NULL DEFAULT 0;
ALTER TABLE click_state ADD COLUMN queue_mark INTEGER NOT NULL DEFAULT 0;
