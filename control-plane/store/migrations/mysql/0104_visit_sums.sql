-- Sums of a link's visits in its row, so that a lease reads no other worker's. leased: visits that are out. demand_*: how many workers
-- ask, see src/visits.rs. summed: the value of changes for which the sums are right. A control plane that does not know them changes
-- visits without it; the next one that does adds them up again, as for the rows that are there already.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'visits' AND column_name = 'summed'),
    'DO 0',
    'ALTER TABLE visits ADD COLUMN leased BIGINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN summed BIGINT UNSIGNED NULL,
     ADD COLUMN demand_since BIGINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN demand_workers BIGINT UNSIGNED NOT NULL DEFAULT 0,
     ADD COLUMN demand_before BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- holder: the worker whose word keeps the block from coming back, where it is not the row's. asked_at: when it asked last.
-- back_at: from when on the block may come back; NULL if nothing is out. Both unix milliseconds.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'visit_leases' AND column_name = 'back_at'),
    'DO 0',
    'ALTER TABLE visit_leases ADD COLUMN holder BINARY(16) NULL, ADD COLUMN asked_at BIGINT UNSIGNED NOT NULL DEFAULT 0,
     ADD COLUMN back_at BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'visit_leases' AND index_name = 'visit_leases_by_return'),
    'DO 0',
    'ALTER TABLE visit_leases ADD INDEX visit_leases_by_return (link_id, back_at)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- When workers that hold blocks were heard of last: unix milliseconds, noted once in a part of visits.grace_ms.
CREATE TABLE IF NOT EXISTS visit_workers (
    worker BINARY(16) NOT NULL PRIMARY KEY,
    heard_at BIGINT UNSIGNED NOT NULL,
    KEY visit_workers_by_age (heard_at)
) ENGINE = InnoDB;
