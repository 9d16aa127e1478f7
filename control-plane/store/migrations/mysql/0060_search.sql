-- By which links are found: tags, words, the host of the target, tenant and owner.
--
-- link_tags: the tags of links that are not deleted. links.tags remains what a link says.
CREATE TABLE IF NOT EXISTS link_tags (
    tenant_id INT UNSIGNED NOT NULL,
    tag VARBINARY(256) NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    link_id BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (tenant_id, tag, created_at, link_id),
    KEY link_tags_of_link (link_id)
) ENGINE = InnoDB;

INSERT IGNORE INTO link_tags (tenant_id, tag, created_at, link_id)
SELECT l.tenant_id, t.tag, l.created_at, l.id
FROM links l JOIN JSON_TABLE(l.tags, '$[*]' COLUMNS (tag VARCHAR(64) PATH '$')) t
WHERE l.deleted_at IS NULL AND l.tags <> '[]';

-- The words of titles and tags of such links, in lower case: see src/links/words.rs.
CREATE TABLE IF NOT EXISTS link_words (
    tenant_id INT UNSIGNED NOT NULL,
    word VARBINARY(256) NOT NULL,
    link_id BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (tenant_id, word, link_id),
    KEY link_words_of_link (link_id, word)
) ENGINE = InnoDB;

INSERT IGNORE INTO link_words (tenant_id, word, link_id)
SELECT l.tenant_id, LEFT(w.word, 64), l.id
FROM links l
JOIN JSON_TABLE(CONCAT('[', REPLACE(JSON_QUOTE(LOWER(l.title)), ' ', '","'), ']'), '$[*]' COLUMNS (word VARCHAR(512) PATH '$')) w
WHERE l.deleted_at IS NULL AND l.title IS NOT NULL AND w.word <> '';

INSERT IGNORE INTO link_words (tenant_id, word, link_id)
SELECT l.tenant_id, LEFT(w.word, 64), l.id
FROM links l
JOIN JSON_TABLE(REPLACE(LOWER(l.tags), ' ', '","'), '$[*]' COLUMNS (word VARCHAR(512) PATH '$')) w
WHERE l.deleted_at IS NULL AND l.tags <> '[]' AND w.word <> '';

-- The host of a target, with its port, in lower case; NULL in tombstones. A stored column is added by a copy of the table.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'links' AND column_name = 'host'),
    'DO 0',
    'ALTER TABLE links
        ADD COLUMN host VARBINARY(255) GENERATED ALWAYS AS (IF(deleted_at IS NULL, LEFT(LOWER(CONVERT(
            SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(url, "/", 3), "/", -1), "?", 1), "#", 1)
            USING latin1)), 255), NULL)) STORED,
        ADD INDEX links_host (tenant_id, host),
        ADD INDEX links_of_tenant (tenant_id, deleted_at, created_at, id),
        ADD INDEX links_of_owner (owner_id, deleted_at, created_at, id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
