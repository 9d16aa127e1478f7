-- Old tombstones are found by links_live_on_domain, one domain after another: an INSERT of many links spent a twentieth of
-- its time on an index that served nothing else.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'links' AND index_name = 'links_live'),
    'ALTER TABLE links DROP INDEX links_live',
    'DO 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
