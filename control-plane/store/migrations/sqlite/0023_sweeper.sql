-- One replica sweeps at a time, and finds old tombstones without a scan.
INSERT INTO leases (name, owner, lease_until) VALUES ('sweeper', '', 0);
CREATE INDEX links_deleted_at ON links (deleted_at) WHERE deleted_at IS NOT NULL;
