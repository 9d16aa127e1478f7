-- How the workers of edges are doing; see migrations/mysql.
CREATE TABLE edge_health (
    worker BLOB NOT NULL PRIMARY KEY,
    edge TEXT NOT NULL,
    reported_at INTEGER NOT NULL,
    feed_lag_ms INTEGER,
    admitting INTEGER NOT NULL,
    lru INTEGER NOT NULL,
    shared_data INTEGER NOT NULL,
    admission INTEGER NOT NULL,
    redis INTEGER NOT NULL,
    control_plane INTEGER NOT NULL,
    stale INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX edge_health_reported_at ON edge_health (reported_at);
