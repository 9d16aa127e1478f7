-- Links like another one are found by the hash of their content (0036), and those without one by links_content, which has the
-- hash of the target too. No query needs this index any more, and an INSERT of many links spent a seventh of its time on it.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'links' AND index_name = 'links_url_hash'),
    'ALTER TABLE links DROP INDEX links_url_hash',
    'DO 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
