-- What the replicas have to agree on about publishing, in the only row; see migrations/mysql.
CREATE TABLE publisher (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL DEFAULT '',
    lease_until INTEGER NOT NULL DEFAULT 0,
    token INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    position_millis INTEGER NOT NULL DEFAULT 0,
    position_sequence INTEGER NOT NULL DEFAULT 0,
    rev_floor INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL DEFAULT ''
) STRICT;

INSERT INTO publisher (id, rev_floor) VALUES (1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
