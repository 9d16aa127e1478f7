-- How the workers of edges are doing, as each has said last: see src/store/edge_health.rs. reported_at is unix time in milliseconds;
-- feed_lag_ms is NULL where the worker had read no feed. Requests by tier are those of the minute before the report.
CREATE TABLE IF NOT EXISTS edge_health (
    worker BINARY(16) NOT NULL PRIMARY KEY,
    edge VARBINARY(64) NOT NULL,
    reported_at BIGINT UNSIGNED NOT NULL,
    feed_lag_ms INT UNSIGNED NULL,
    admitting TINYINT UNSIGNED NOT NULL,
    lru INT UNSIGNED NOT NULL,
    shared_data INT UNSIGNED NOT NULL,
    admission INT UNSIGNED NOT NULL,
    redis INT UNSIGNED NOT NULL,
    control_plane INT UNSIGNED NOT NULL,
    stale INT UNSIGNED NOT NULL,
    KEY edge_health_reported_at (reported_at)
) ENGINE = InnoDB;
