-- The same tables as in migrations/mysql.

-- Clicks by link and minute (unix time / 60).
CREATE TABLE click_minutes (
    minute INTEGER NOT NULL,
    link_key TEXT NOT NULL,
    clicks INTEGER NOT NULL,
    PRIMARY KEY (minute, link_key)
) STRICT, WITHOUT ROWID;

-- Batches that were counted, so that none is counted twice.
CREATE TABLE click_batches (
    worker BLOB NOT NULL,
    seq INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (worker, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX click_batches_received ON click_batches (received_at);

-- What became of the clicks of each worker of an edge. sent and dropped: as the worker last said.
CREATE TABLE click_workers (
    worker BLOB PRIMARY KEY,
    sent INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
