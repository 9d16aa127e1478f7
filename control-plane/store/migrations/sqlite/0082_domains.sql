-- Domains that the API has made; see migrations/mysql.
ALTER TABLE domains ADD COLUMN tenant_id INTEGER;
ALTER TABLE domains ADD COLUMN details TEXT;
ALTER TABLE domains ADD COLUMN token TEXT;
ALTER TABLE domains ADD COLUMN verified_at INTEGER;
ALTER TABLE domains ADD COLUMN created_at INTEGER;
ALTER TABLE domains ADD COLUMN rev INTEGER NOT NULL DEFAULT 0;
CREATE INDEX domains_of_tenant ON domains (tenant_id);
