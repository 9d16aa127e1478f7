-- Visits of links that have a limit; see migrations/mysql.
CREATE TABLE visits (
    link_id INTEGER PRIMARY KEY,
    used INTEGER NOT NULL,
    reached INTEGER
) STRICT;

CREATE TABLE visit_leases (
    link_id INTEGER NOT NULL,
    worker BLOB NOT NULL,
    number INTEGER NOT NULL,
    size INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    PRIMARY KEY (link_id, worker)
) STRICT, WITHOUT ROWID;
