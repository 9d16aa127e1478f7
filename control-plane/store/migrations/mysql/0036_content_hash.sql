-- By which a link like another one is found: the hash of domain and content (see store::sql::rows). NULL in rows from
-- before, until the sweeper comes by: SQL alone cannot compute it in every database. Then such a link is still found by
-- its target. The hash of the target stands behind it for those, and tombstones are not among them.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'links' AND column_name = 'content_hash'),
    'DO 0',
    'ALTER TABLE links
        ADD COLUMN content_hash BIGINT NULL,
        ADD INDEX links_content (content_hash, deleted_at, url_hash)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
