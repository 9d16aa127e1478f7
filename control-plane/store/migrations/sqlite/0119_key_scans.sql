-- How far the scans of all keys have come; see migrations/mysql.
CREATE TABLE key_scans (
    process TEXT NOT NULL PRIMARY KEY,
    noted_at INTEGER NOT NULL,
    keys_read INTEGER NOT NULL,
    per_mille INTEGER NOT NULL,
    complete INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX key_scans_noted_at ON key_scans (noted_at);
