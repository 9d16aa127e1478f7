-- The same as in migrations/mysql.
ALTER TABLE click_queue ADD COLUMN insert_id INTEGER NULL;
DROP INDEX click_queue_waiting;
CREATE INDEX click_queue_waiting ON click_queue (aside, id, bytes, insert_id);
