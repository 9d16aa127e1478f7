-- Named numbers that move by compare-and-set: how far a number source has come.
CREATE TABLE counters (
    name VARBINARY(64) NOT NULL PRIMARY KEY,
    value BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;
