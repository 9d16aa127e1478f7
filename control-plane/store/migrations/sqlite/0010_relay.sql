-- The same tables as in migrations/mysql.

-- Changes that caches and edges have not been told of yet. A row is written in the transaction of the change, and deleted
-- once it is published, so the order of commits does not matter. record: as in the wire crate.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    link_key TEXT NOT NULL,
    rev INTEGER NOT NULL,
    record BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Work that one replica does at a time. lease_until: unix milliseconds on the database's clock.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO leases (name, owner, lease_until) VALUES ('relay', '', 0);

-- No number at or above the greatest bound was issued. published_at: unix milliseconds on the database's clock, NULL until
-- the edges were told. The first bound counts at once: no edge can know a lower one.
CREATE TABLE bounds (
    bound INTEGER PRIMARY KEY,
    published_at INTEGER
) STRICT;

INSERT INTO bounds (bound, published_at)
SELECT COALESCE(MAX(next), 0) * 1000 + 1000000000, 0 FROM issuers;
