-- Domains that the API has made, and what it has set of those that are configured. A row without a tenant only gives links their
-- domain: it was configured once, or removed.
--
-- details: JSON of what has no default. token: what a TXT record has to say before the domain counts as verified. created_at:
-- NULL for a configured domain. rev: grows with every change, and is not lower than any that caches have, as that of a link.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'domains' AND column_name = 'tenant_id'),
    'DO 0',
    'ALTER TABLE domains
        ADD COLUMN tenant_id INT UNSIGNED NULL,
        ADD COLUMN details TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
        ADD COLUMN token VARBINARY(64) NULL,
        ADD COLUMN verified_at BIGINT UNSIGNED NULL,
        ADD COLUMN created_at BIGINT UNSIGNED NULL,
        ADD COLUMN rev BIGINT UNSIGNED NOT NULL DEFAULT 0,
        ADD INDEX domains_of_tenant (tenant_id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
