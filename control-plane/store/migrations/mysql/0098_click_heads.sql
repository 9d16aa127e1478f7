-- Rollups in two parts. clicks, bots: all of them; head: the clicks of each hour, and the visitors; doc: the values. The three are NULL
-- where doc has everything, as it was before. See src/analytics/rollup.rs.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_hours' AND column_name = 'head'),
    'DO 0',
    'ALTER TABLE click_hours ADD COLUMN clicks BIGINT UNSIGNED NULL, ADD COLUMN bots BIGINT UNSIGNED NULL, ADD COLUMN head MEDIUMBLOB NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_days' AND column_name = 'head'),
    'DO 0',
    'ALTER TABLE click_days ADD COLUMN clicks BIGINT UNSIGNED NULL, ADD COLUMN bots BIGINT UNSIGNED NULL, ADD COLUMN head MEDIUMBLOB NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
