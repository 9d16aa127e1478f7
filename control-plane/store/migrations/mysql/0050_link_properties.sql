-- What a link has beside its target. details: a JSON object of rarely used properties, NULL if all have their defaults.
-- external_id: the id of the link in another system, unique in its tenant; NULL in tombstones.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'links' AND column_name = 'external_id'),
    'DO 0',
    'ALTER TABLE links
        ADD COLUMN details MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
        ADD COLUMN external_id VARBINARY(255) NULL,
        ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE,
        ADD COLUMN tenant_id INT UNSIGNED NOT NULL DEFAULT 1,
        ADD COLUMN owner_id BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- A statement of its own: columns alone are added without a copy of the table.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'links' AND index_name = 'links_external_id'),
    'DO 0',
    'ALTER TABLE links ADD UNIQUE INDEX links_external_id (tenant_id, external_id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
