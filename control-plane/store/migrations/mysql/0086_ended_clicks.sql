-- click_totals.since: minutes before this one (unix time / 60) are not those of the link any more: they were deleted, or are those
-- of a deleted link with the same code.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_totals' AND column_name = 'since'),
    'DO 0',
    'ALTER TABLE click_totals ADD COLUMN since INT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
