-- visits.moved_to: the link that a deleted link has become by a move. Blocks that were leased of the one count for the other.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'visits' AND column_name = 'moved_to'),
    'DO 0',
    'ALTER TABLE visits ADD COLUMN moved_to BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- For those who look for leases of which nothing more is expected.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'visit_leases' AND index_name = 'visit_leases_by_age'),
    'DO 0',
    'ALTER TABLE visit_leases ADD INDEX visit_leases_by_age (lease_until)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
