-- The same as in migrations/mysql.
ALTER TABLE visits ADD COLUMN moved_to INTEGER NULL;
CREATE INDEX visit_leases_by_age ON visit_leases (lease_until);
