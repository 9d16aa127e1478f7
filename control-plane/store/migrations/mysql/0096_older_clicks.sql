-- click_totals.taken: how many of its clicks are counted by now, as migration 0090 has copied them, or the click writer has taken them.
-- What control planes from before 0090 count beside newer ones, or after going back, is more: see src/store/analytics/older.rs.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_totals' AND column_name = 'taken'),
    'DO 0',
    'ALTER TABLE click_totals ADD COLUMN taken BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- Where clicks were written since 0090, totals are not what was copied any more, and what came between the two cannot be told.
UPDATE click_totals c
LEFT JOIN domains d ON d.name = SUBSTRING_INDEX(c.link_key, '/', 1)
LEFT JOIN links l ON l.domain_id = d.id AND l.code = SUBSTRING(c.link_key, LENGTH(d.name) + 2)
LEFT JOIN link_totals t ON t.link_id = l.id
SET c.taken = IF(
    l.id IS NULL OR (SELECT writes FROM click_state WHERE id = 1) > 0, c.clicks, LEAST(c.clicks, COALESCE(t.clicks, 0))
);

SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_totals' AND column_name = 'behind'),
    'DO 0',
    'ALTER TABLE click_totals ADD COLUMN behind BOOLEAN AS (clicks > taken) VIRTUAL, ADD INDEX click_totals_behind (behind)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- The number of the next click when a day (unix time / 86400) began: single clicks with lower numbers are older.
CREATE TABLE IF NOT EXISTS click_marks (
    day INT UNSIGNED NOT NULL PRIMARY KEY,
    number BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- Whether a part of the rollups of the day days_until is made.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_state' AND column_name = 'is_building'),
    'DO 0',
    'ALTER TABLE click_state ADD COLUMN is_building BOOLEAN NOT NULL DEFAULT FALSE'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
