-- As in migrations/mysql.
CREATE TABLE batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    link_keys BLOB NOT NULL,
    records BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO batches (id, link_keys, records, created_at)
SELECT
    id,
    unhex(printf('%08X', length(CAST(link_key AS BLOB))) || hex(link_key)),
    unhex(printf('%08X', length(record)) || hex(record)),
    created_at
FROM outbox;

DROP TABLE outbox;

ALTER TABLE batches RENAME TO outbox;
