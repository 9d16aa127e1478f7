-- The same as in migrations/mysql.

CREATE TABLE click_totals (
    link_key TEXT NOT NULL PRIMARY KEY,
    clicks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO click_totals (link_key, clicks)
SELECT link_key, SUM(clicks) FROM click_minutes GROUP BY link_key;

CREATE INDEX click_minutes_of_link ON click_minutes (link_key, minute);
