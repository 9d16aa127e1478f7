-- By which a link like another one is found; see migrations/mysql.
ALTER TABLE links ADD COLUMN content_hash INTEGER;
CREATE INDEX links_content ON links (content_hash, url_hash) WHERE deleted_at IS NULL;
