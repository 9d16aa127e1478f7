-- Conversions, and their sums of days, in the order of time, in which they are purged.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'conversions' AND index_name = 'conversions_by_time'),
    'DO 0',
    'ALTER TABLE conversions ADD INDEX conversions_by_time (at)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'conversion_days' AND index_name = 'conversion_days_by_day'),
    'DO 0',
    'ALTER TABLE conversion_days ADD INDEX conversion_days_by_day (day)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
