-- installation: tells this database from others, so that two installations notice when they were given the same Redis. A
-- restored or copied database keeps it.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'publisher' AND column_name = 'installation'),
    'DO 0',
    'ALTER TABLE publisher ADD COLUMN installation VARBINARY(64) NOT NULL DEFAULT \'\''
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

UPDATE publisher SET installation = LEFT(SHA2(CONCAT(UUID(), RAND(), NOW(6)), 256), 32) WHERE installation = '';

-- A control plane that knows only this lease would publish beside the fence. As long as it has the lease, it may do so.
UPDATE publisher SET lease_until =
    GREATEST(lease_until, COALESCE((SELECT leases.lease_until FROM leases WHERE name = 'relay'), 0));

DELETE FROM leases WHERE name = 'relay';
