-- The visits that an imported link had before it was imported.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'links' AND column_name = 'imported_visits'),
    'DO 0',
    'ALTER TABLE links ADD COLUMN imported_visits BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
