-- Clicks by link and minute (unix time / 60).
CREATE TABLE click_minutes (
    minute INT UNSIGNED NOT NULL,
    link_key VARBINARY(324) NOT NULL,
    clicks BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (minute, link_key)
) ENGINE = InnoDB;

-- Batches that were counted, so that none is counted twice.
CREATE TABLE click_batches (
    worker BINARY(16) NOT NULL,
    seq BIGINT UNSIGNED NOT NULL,
    received_at BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (worker, seq),
    KEY click_batches_received (received_at)
) ENGINE = InnoDB;

-- What became of the clicks of each worker of an edge. sent and dropped: as the worker last said.
CREATE TABLE click_workers (
    worker BINARY(16) NOT NULL PRIMARY KEY,
    sent BIGINT UNSIGNED NOT NULL,
    dropped BIGINT UNSIGNED NOT NULL,
    counted BIGINT UNSIGNED NOT NULL,
    seen_at BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;
