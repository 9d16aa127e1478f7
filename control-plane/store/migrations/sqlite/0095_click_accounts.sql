-- The same as in migrations/mysql.
CREATE TABLE click_accounts (
    grain INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    edge TEXT NOT NULL,
    worker BLOB NOT NULL,
    sent INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    undescribed INTEGER NOT NULL,
    PRIMARY KEY (grain, hour, edge, worker)
) STRICT, WITHOUT ROWID;

INSERT INTO click_accounts (grain, hour, edge, worker, sent, counted, dropped, undescribed)
SELECT 3, 0, '', x'', SUM(sent), SUM(counted), SUM(dropped), SUM(undescribed)
FROM click_workers GROUP BY NULL;
