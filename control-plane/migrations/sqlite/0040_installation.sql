-- As in migrations/mysql.
ALTER TABLE publisher ADD COLUMN installation TEXT NOT NULL DEFAULT '';

UPDATE publisher SET installation = lower(hex(randomblob(16)));

DELETE FROM leases WHERE name = 'relay';
