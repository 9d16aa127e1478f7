-- Lists pass over no tombstones: deleted_at, which is NULL in links that live, is in front of what they are sorted by.
-- The index serves those who look for old tombstones as well.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'links' AND index_name = 'links_live'),
    'DO 0',
    'ALTER TABLE links
        ADD INDEX links_live (deleted_at, created_at, id),
        ADD INDEX links_live_on_domain (domain_id, deleted_at, created_at, id),
        DROP INDEX links_newest,
        DROP INDEX links_domain_newest,
        DROP INDEX links_deleted_at'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- Tombstones do not stand in the way of those who look for links past their validity.
UPDATE links SET valid_until = NULL WHERE deleted_at IS NOT NULL AND valid_until IS NOT NULL;
