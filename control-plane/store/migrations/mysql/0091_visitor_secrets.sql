-- The secrets of visitor tokens, one for each UTC day (unix time / 86400) that is not over: see src/analytics/visitors.rs. In
-- SQLite they are in files of their own.
CREATE TABLE IF NOT EXISTS visitor_secrets (
    day INT UNSIGNED NOT NULL PRIMARY KEY,
    secret BINARY(16) NOT NULL
) ENGINE = InnoDB;
