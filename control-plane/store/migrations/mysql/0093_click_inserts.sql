-- click_queue.insert_id: the insert into ClickHouse of which a report is part; NULL before there was one.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_queue' AND column_name = 'insert_id'),
    'DO 0',
    'ALTER TABLE click_queue ADD COLUMN insert_id BIGINT UNSIGNED NULL, DROP INDEX click_queue_waiting,
     ADD INDEX click_queue_waiting (aside, id, bytes, insert_id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
