-- How far the scans of all keys have come, each in a process of its own: see src/store/key_scans.rs. noted_at is unix time in
-- milliseconds; per_mille is the share of all keys that it has read, by an estimate of their number.
CREATE TABLE IF NOT EXISTS key_scans (
    process VARBINARY(64) NOT NULL PRIMARY KEY,
    noted_at BIGINT UNSIGNED NOT NULL,
    keys_read BIGINT UNSIGNED NOT NULL,
    per_mille SMALLINT UNSIGNED NOT NULL,
    complete BOOLEAN NOT NULL,
    KEY key_scans_noted_at (noted_at)
) ENGINE = InnoDB;
