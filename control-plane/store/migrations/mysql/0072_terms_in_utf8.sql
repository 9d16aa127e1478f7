-- 0060 has read tags and titles in the character set of the database: where that is not utf8mb4, letters are lost or are not
-- UTF-8. There they are read once more.
SET @is_utf8 = (SELECT default_character_set_name = 'utf8mb4' FROM information_schema.schemata WHERE schema_name = DATABASE());

SET @change = IF(@is_utf8, 'DO 0', 'DELETE FROM link_tags');
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

SET @change = IF(@is_utf8, 'DO 0', 'DELETE FROM link_words');
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

SET @change = IF(@is_utf8, 'DO 0',
    'INSERT IGNORE INTO link_tags (tenant_id, tag, created_at, link_id)
    SELECT l.tenant_id, t.tag, l.created_at, l.id
    FROM links l JOIN JSON_TABLE(l.tags, \'$[*]\' COLUMNS (tag VARCHAR(64) CHARACTER SET utf8mb4 PATH \'$\')) t
    WHERE l.deleted_at IS NULL AND l.tags <> \'[]\''
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

SET @change = IF(@is_utf8, 'DO 0',
    'INSERT IGNORE INTO link_words (tenant_id, word, link_id)
    SELECT l.tenant_id, LEFT(w.word, 64), l.id
    FROM links l
    JOIN JSON_TABLE(CONCAT(\'[\', REPLACE(JSON_QUOTE(LOWER(l.title)), \' \', \'","\'), \']\'),
        \'$[*]\' COLUMNS (word VARCHAR(512) CHARACTER SET utf8mb4 PATH \'$\')) w
    WHERE l.deleted_at IS NULL AND l.title IS NOT NULL AND w.word <> \'\''
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

SET @change = IF(@is_utf8, 'DO 0',
    'INSERT IGNORE INTO link_words (tenant_id, word, link_id)
    SELECT l.tenant_id, LEFT(w.word, 64), l.id
    FROM links l
    JOIN JSON_TABLE(REPLACE(LOWER(l.tags), \' \', \'","\'),
        \'$[*]\' COLUMNS (word VARCHAR(512) CHARACTER SET utf8mb4 PATH \'$\')) w
    WHERE l.deleted_at IS NULL AND l.tags <> \'[]\' AND w.word <> \'\''
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
