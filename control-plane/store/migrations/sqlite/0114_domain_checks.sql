-- When the TXT records of domains were looked at; see migrations/mysql.
ALTER TABLE domains ADD COLUMN checked_at INTEGER;
ALTER TABLE domains ADD COLUMN seen_at INTEGER;
ALTER TABLE domains ADD COLUMN missing_since INTEGER;
INSERT OR IGNORE INTO leases (name, owner, lease_until) VALUES ('domains', '', 0);
