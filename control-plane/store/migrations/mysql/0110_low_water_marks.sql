-- Low-water marks of queues: rows up to there were removed, and reads begin behind them, because an open snapshot (a dump, a long
-- transaction) keeps what was removed in the tables, and every read would walk it. A transaction that commits later than others may leave a
-- row below its mark: see src/store/outbox.rs and src/store/analytics/queue.rs.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'publisher' AND column_name = 'outbox_mark'),
    'DO 0',
    'ALTER TABLE publisher ADD COLUMN outbox_mark BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_state' AND column_name = 'queue_mark'),
    'DO 0',
    'ALTER TABLE click_state ADD COLUMN queue_mark BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
