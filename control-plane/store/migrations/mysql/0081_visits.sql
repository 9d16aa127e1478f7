-- Visits of links that have a limit: see src/visits.rs.
--
-- visits: how many visits of a link were used, without those that are leased. reached: the limit, once it was said that it is
-- reached; NULL before.
CREATE TABLE IF NOT EXISTS visits (
    link_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    used BIGINT UNSIGNED NOT NULL,
    reached BIGINT UNSIGNED NULL
) ENGINE = InnoDB;

-- The last block of each worker of an edge. number: that of its last request. size: visits that are out, 0 once the block was
-- settled or has come back. lease_until: unix milliseconds.
CREATE TABLE IF NOT EXISTS visit_leases (
    link_id BIGINT UNSIGNED NOT NULL,
    worker BINARY(16) NOT NULL,
    number BIGINT UNSIGNED NOT NULL,
    size BIGINT UNSIGNED NOT NULL,
    settled BOOLEAN NOT NULL,
    lease_until BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (link_id, worker)
) ENGINE = InnoDB;
