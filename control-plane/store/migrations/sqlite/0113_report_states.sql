-- The states of reports of abuse; see migrations/mysql.
ALTER TABLE abuse_reports ADD COLUMN tenant_closed_at INTEGER;
ALTER TABLE abuse_reports ADD COLUMN shares_email INTEGER NOT NULL DEFAULT 0;
UPDATE abuse_reports SET tenant_closed_at = closed_at;
