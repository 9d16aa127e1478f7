-- The TXT records of verified domains are looked at again: checked_at says when the DNS last answered, seen_at when it last had the record,
-- missing_since when it first had none after that, in unix milliseconds. seen_at is NULL where the record was never seen, as where the operator
-- says that a domain is verified; then none can go missing.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'domains' AND column_name = 'checked_at'),
    'DO 0',
    'ALTER TABLE domains
        ADD COLUMN checked_at BIGINT UNSIGNED NULL,
        ADD COLUMN seen_at BIGINT UNSIGNED NULL,
        ADD COLUMN missing_since BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

INSERT IGNORE INTO leases (name, owner, lease_until) VALUES ('domains', '', 0);
