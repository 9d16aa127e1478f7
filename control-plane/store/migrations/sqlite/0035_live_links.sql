-- Lists pass over no tombstones; see migrations/mysql.
CREATE INDEX links_live ON links (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX links_live_on_domain ON links (domain_id, created_at, id) WHERE deleted_at IS NULL;
DROP INDEX links_newest;
DROP INDEX links_domain_newest;

UPDATE links SET valid_until = NULL WHERE deleted_at IS NOT NULL AND valid_until IS NOT NULL;
