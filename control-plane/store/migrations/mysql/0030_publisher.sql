-- From here on every migration can be run again, for one that was cut off is (see store::mysql), and leaves what versions
-- before it can work with: they may start on a newer schema.
--
-- What the replicas have to agree on about publishing, in the only row.
-- owner, lease_until: which replica publishes; unix milliseconds on the database's clock. It replaces the lease 'relay'.
-- token: grows with every take and renewal of the lease.
-- generation: what of the feed and its caches counts; position_*: the entry of the feed that was published last.
-- kind: where the owner publishes to, 'local' or 'redis'; '' until there was an owner.
-- rev_floor: no cache was told of a greater revision of a link that has no row. Revisions are microseconds of the
-- database's clock at least, and so is the first floor: caches may remember links of a database that was here before.
CREATE TABLE IF NOT EXISTS publisher (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL DEFAULT '',
    lease_until BIGINT UNSIGNED NOT NULL DEFAULT 0,
    token BIGINT UNSIGNED NOT NULL DEFAULT 0,
    generation BIGINT UNSIGNED NOT NULL DEFAULT 0,
    position_millis BIGINT UNSIGNED NOT NULL DEFAULT 0,
    position_sequence BIGINT UNSIGNED NOT NULL DEFAULT 0,
    rev_floor BIGINT UNSIGNED NOT NULL DEFAULT 0,
    kind VARBINARY(16) NOT NULL DEFAULT ''
) ENGINE = InnoDB;

INSERT IGNORE INTO publisher (id, rev_floor) VALUES (1, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED));
