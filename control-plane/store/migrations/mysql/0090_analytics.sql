-- Clicks by link and attribute: see src/analytics.rs. click_minutes and click_totals, in which clicks were counted before, stay
-- for a downgrade, and are neither read nor written any more.

-- Reports that are acknowledged and not written yet. bytes: the length of body. aside: it cannot be read, and stays until it is purged.
CREATE TABLE IF NOT EXISTS click_queue (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    received_at BIGINT UNSIGNED NOT NULL,
    bytes INT UNSIGNED NOT NULL,
    aside BOOLEAN NOT NULL DEFAULT FALSE,
    body MEDIUMBLOB NOT NULL,
    KEY click_queue_waiting (aside, id, bytes)
) ENGINE = InnoDB;

-- Clicks of an hour (unix time / 3600) of a link (kind 1, links.id), a domain of a tenant (2, tenant << 32 | domain) or a tenant (3;
-- 0 has the clicks without a link). doc: see src/analytics/rollup.rs.
CREATE TABLE IF NOT EXISTS click_hours (
    kind TINYINT UNSIGNED NOT NULL,
    hour INT UNSIGNED NOT NULL,
    scope_id BIGINT UNSIGNED NOT NULL,
    doc MEDIUMBLOB NOT NULL,
    PRIMARY KEY (kind, hour, scope_id),
    KEY click_hours_of_scope (kind, scope_id, hour)
) ENGINE = InnoDB;

-- The same for days (unix time / 86400) that are over.
CREATE TABLE IF NOT EXISTS click_days (
    kind TINYINT UNSIGNED NOT NULL,
    scope_id BIGINT UNSIGNED NOT NULL,
    day INT UNSIGNED NOT NULL,
    doc MEDIUMBLOB NOT NULL,
    PRIMARY KEY (kind, scope_id, day),
    KEY click_days_by_day (kind, day, scope_id)
) ENGINE = InnoDB;

-- One row, locked by whatever changes what is kept of clicks. writes: grows with each such change. number: that of the next click. days_until:
-- the first day that is not in click_days.
CREATE TABLE IF NOT EXISTS click_state (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    writes BIGINT UNSIGNED NOT NULL,
    number BIGINT UNSIGNED NOT NULL,
    days_until INT UNSIGNED NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO click_state (id, writes, number, days_until) VALUES (1, 0, 1, UNIX_TIMESTAMP() DIV 86400);

-- Clicks one by one, or several of a link about which nothing else is known: these have the numbers from number on. described: see
-- src/analytics/described.rs. link_key: only of clicks without a link.
CREATE TABLE IF NOT EXISTS click_events (
    number BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    clicks BIGINT UNSIGNED NOT NULL,
    at BIGINT UNSIGNED NOT NULL,
    tenant_id INT UNSIGNED NOT NULL,
    domain_id INT UNSIGNED NOT NULL,
    link_id BIGINT UNSIGNED NOT NULL,
    is_bot BOOLEAN NOT NULL,
    link_key VARBINARY(324) NULL,
    described BLOB NOT NULL,
    KEY click_events_of_link (link_id, at, number),
    KEY click_events_of_tenant (tenant_id, at, number),
    KEY click_events_of_domain (domain_id, tenant_id, at, number)
) ENGINE = InnoDB;

-- Requests that led to no link. kind: 1 the root of a domain, 2 a path like that of a link, 3 any other.
CREATE TABLE IF NOT EXISTS orphan_visits (
    number BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    at BIGINT UNSIGNED NOT NULL,
    tenant_id INT UNSIGNED NOT NULL,
    domain_id INT UNSIGNED NOT NULL,
    kind TINYINT UNSIGNED NOT NULL,
    is_bot BOOLEAN NOT NULL,
    url BLOB NOT NULL,
    described BLOB NOT NULL,
    KEY orphan_visits_of_tenant (tenant_id, at, number)
) ENGINE = InnoDB;

-- How many there were on a day, those that are not kept included.
CREATE TABLE IF NOT EXISTS orphan_days (
    tenant_id INT UNSIGNED NOT NULL,
    day INT UNSIGNED NOT NULL,
    visits BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (tenant_id, day),
    KEY orphan_days_by_day (day)
) ENGINE = InnoDB;

-- All clicks of a link.
CREATE TABLE IF NOT EXISTS link_totals (
    link_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    clicks BIGINT UNSIGNED NOT NULL,
    bots BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO link_totals (link_id, clicks, bots)
SELECT STRAIGHT_JOIN l.id, c.clicks, 0 FROM click_totals c
JOIN domains d ON d.name = SUBSTRING_INDEX(c.link_key, '/', 1)
JOIN links l ON l.domain_id = d.id AND l.code = SUBSTRING(c.link_key, LENGTH(d.name) + 2)
WHERE c.clicks > 0;

-- The links followed most, the hottest first. until: unix seconds after which they are not.
CREATE TABLE IF NOT EXISTS hot_links (
    place INT UNSIGNED NOT NULL PRIMARY KEY,
    link_key VARBINARY(324) NOT NULL,
    clicks BIGINT UNSIGNED NOT NULL,
    until BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- Clicks whose attributes a worker has given up, as it last said.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_workers' AND column_name = 'undescribed'),
    'DO 0',
    'ALTER TABLE click_workers ADD COLUMN undescribed BIGINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

INSERT IGNORE INTO leases (name, owner, lease_until) VALUES ('clicks', '', 0);
