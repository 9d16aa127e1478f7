-- The same tables as in migrations/mysql. SQLite compares text by its bytes, so case never folds.
-- Times are unix milliseconds where named *_at, unix seconds otherwise.

CREATE TABLE domains (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- A deleted link stays as a tombstone (deleted_at), so that its rev is never used again.
CREATE TABLE links (
    id INTEGER PRIMARY KEY,
    domain_id INTEGER NOT NULL REFERENCES domains (id),
    code TEXT NOT NULL,
    url TEXT NOT NULL,
    url_hash INTEGER NOT NULL,
    redirect INTEGER NOT NULL,
    disabled INTEGER NOT NULL,
    valid_since INTEGER,
    valid_until INTEGER,
    forward_query INTEGER NOT NULL,
    title TEXT,
    tags TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    rev INTEGER NOT NULL,
    UNIQUE (domain_id, code)
) STRICT;

CREATE INDEX links_newest ON links (created_at, id);
CREATE INDEX links_domain_newest ON links (domain_id, created_at, id);
CREATE INDEX links_url_hash ON links (url_hash);
CREATE INDEX links_valid_until ON links (valid_until) WHERE valid_until IS NOT NULL;

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    secret_hash BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
