-- By which replicas find the ids of keys that they do not know yet.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'api_keys' AND index_name = 'api_keys_by_creation'),
    'DO 0',
    'ALTER TABLE api_keys ADD INDEX api_keys_by_creation (created_at, id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
