-- As in migrations/mysql.
ALTER TABLE publisher ADD COLUMN installation TEXT NOT NULL DEFAULT '';

UPDATE publisher SET installation = lower(hex(randomblob(16)));

UPDATE publisher SET lease_until =
    MAX(lease_until, COALESCE((SELECT leases.lease_until FROM leases WHERE name = 'relay'), 0));

DELETE FROM leases WHERE name = 'relay';
