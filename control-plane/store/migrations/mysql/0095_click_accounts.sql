-- What became of clicks, by hour (unix time / 3600) of when their report was taken, edge and worker: see
-- src/store/clicks/accounts.rs. The sums of sent and dropped are what workers have said last. grain: 0 workers by hour, 1 edges by
-- hour (worker is empty), 2 edges by day, 3 (one row) what is older, and what was counted before there was this table.
CREATE TABLE IF NOT EXISTS click_accounts (
    grain TINYINT UNSIGNED NOT NULL,
    hour INT UNSIGNED NOT NULL,
    edge VARBINARY(64) NOT NULL,
    worker VARBINARY(16) NOT NULL,
    sent BIGINT UNSIGNED NOT NULL,
    counted BIGINT UNSIGNED NOT NULL,
    dropped BIGINT UNSIGNED NOT NULL,
    undescribed BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (grain, hour, edge, worker)
) ENGINE = InnoDB;

INSERT IGNORE INTO click_accounts (grain, hour, edge, worker, sent, counted, dropped, undescribed)
SELECT 3, 0, '', '', SUM(sent), SUM(counted), SUM(dropped), SUM(undescribed)
FROM click_workers GROUP BY NULL;
