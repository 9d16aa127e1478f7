-- What a link has beside its target; see migrations/mysql.
ALTER TABLE links ADD COLUMN details TEXT;
ALTER TABLE links ADD COLUMN external_id TEXT;
ALTER TABLE links ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE links ADD COLUMN tenant_id INTEGER NOT NULL DEFAULT 1;
ALTER TABLE links ADD COLUMN owner_id INTEGER;
CREATE UNIQUE INDEX links_external_id ON links (tenant_id, external_id) WHERE external_id IS NOT NULL;
