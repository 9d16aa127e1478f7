-- Changes that caches and edges have not been told of yet. A row is written in the transaction of the change, and deleted
-- once it is published, so the order of commits does not matter. record: as in the wire crate.
CREATE TABLE outbox (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    link_key VARBINARY(324) NOT NULL,
    rev BIGINT UNSIGNED NOT NULL,
    record VARBINARY(8100) NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- Work that one replica does at a time. lease_until: unix milliseconds on the database's clock.
CREATE TABLE leases (
    name VARBINARY(64) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    lease_until BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

INSERT INTO leases (name, owner, lease_until) VALUES ('relay', '', 0);

-- No number at or above the greatest bound was issued. published_at: unix milliseconds on the database's clock, NULL until
-- the edges were told. The first bound counts at once: no edge can know a lower one.
CREATE TABLE bounds (
    bound BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    published_at BIGINT UNSIGNED NULL
) ENGINE = InnoDB;

INSERT INTO bounds (bound, published_at)
SELECT COALESCE(MAX(next), 0) * 1000 + 1000000000, 0 FROM issuers;
