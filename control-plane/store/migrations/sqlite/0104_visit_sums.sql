-- The same as in migrations/mysql.
ALTER TABLE visits ADD COLUMN leased INTEGER NOT NULL DEFAULT 0;
ALTER TABLE visits ADD COLUMN summed INTEGER NULL;
ALTER TABLE visits ADD COLUMN demand_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE visits ADD COLUMN demand_workers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE visits ADD COLUMN demand_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE visit_leases ADD COLUMN holder BLOB NULL;
ALTER TABLE visit_leases ADD COLUMN asked_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE visit_leases ADD COLUMN back_at INTEGER NULL;
CREATE INDEX visit_leases_by_return ON visit_leases (link_id, back_at) WHERE back_at IS NOT NULL;

CREATE TABLE visit_workers (
    worker BLOB NOT NULL PRIMARY KEY,
    heard_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX visit_workers_by_age ON visit_workers (heard_at);
