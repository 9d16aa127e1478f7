-- Clicks by link since they are counted: click_minutes has those of the last days only. What it has when this table is made
-- is where the totals begin.
CREATE TABLE IF NOT EXISTS click_totals (
    link_key VARBINARY(324) NOT NULL PRIMARY KEY,
    clicks BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO click_totals (link_key, clicks)
SELECT link_key, SUM(clicks) FROM click_minutes GROUP BY link_key;

-- The minutes of a link.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'click_minutes' AND index_name = 'click_minutes_of_link'),
    'DO 0',
    'ALTER TABLE click_minutes ADD INDEX click_minutes_of_link (link_key, minute)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
