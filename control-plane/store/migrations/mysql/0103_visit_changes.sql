-- visits.changes: grows with each change of a link's visits, those of its leases among them. On two nodes of a Galera cluster row
-- locks do not keep transactions apart: those conflict that write the same row, and so each of them writes this one.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'visits' AND column_name = 'changes'),
    'DO 0',
    'ALTER TABLE visits ADD COLUMN changes BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
