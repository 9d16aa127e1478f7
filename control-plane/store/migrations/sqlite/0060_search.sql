-- By which links are found; see migrations/mysql.
CREATE TABLE link_tags (
    tenant_id INTEGER NOT NULL,
    tag TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    link_id INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, tag, created_at, link_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_tags_of_link ON link_tags (link_id);

INSERT INTO link_tags (tenant_id, tag, created_at, link_id)
SELECT l.tenant_id, t.value, l.created_at, l.id
FROM links l JOIN json_each(l.tags) t
WHERE l.deleted_at IS NULL AND l.tags <> '[]';

CREATE TABLE link_words (
    tenant_id INTEGER NOT NULL,
    word TEXT NOT NULL,
    link_id INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, word, link_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_words_of_link ON link_words (link_id, word);

INSERT OR IGNORE INTO link_words (tenant_id, word, link_id)
SELECT l.tenant_id, substr(w.value, 1, 64), l.id
FROM links l JOIN json_each('[' || replace(json_quote(lower(l.title)), ' ', '","') || ']') w
WHERE l.deleted_at IS NULL AND l.title IS NOT NULL AND w.value <> '';

INSERT OR IGNORE INTO link_words (tenant_id, word, link_id)
SELECT l.tenant_id, substr(w.value, 1, 64), l.id
FROM links l JOIN json_each(replace(lower(l.tags), ' ', '","')) w
WHERE l.deleted_at IS NULL AND l.tags <> '[]' AND w.value <> '';

ALTER TABLE links ADD COLUMN host TEXT GENERATED ALWAYS AS (CASE WHEN deleted_at IS NULL THEN lower(substr(
    replace(replace(substr(url, instr(url, '//') + 2), '?', '/'), '#', '/'), 1,
    instr(replace(replace(substr(url, instr(url, '//') + 2), '?', '/'), '#', '/') || '/', '/') - 1)) END) VIRTUAL;

CREATE INDEX links_host ON links (tenant_id, host) WHERE deleted_at IS NULL;
CREATE INDEX links_of_tenant ON links (tenant_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX links_of_owner ON links (owner_id, created_at, id) WHERE deleted_at IS NULL AND owner_id IS NOT NULL;
