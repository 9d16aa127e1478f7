-- next: the first sequence that nobody has drawn. owner: who holds the lease, NULL after a clean release.
-- lease_until: unix milliseconds on the database's clock.
CREATE TABLE issuers (
    issuer INTEGER PRIMARY KEY,
    next INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX issuers_owner ON issuers (owner);

WITH RECURSIVE numbers (number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number < 999
)
INSERT INTO issuers (issuer) SELECT number FROM numbers;
