-- The same as in migrations/mysql.
CREATE TABLE click_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    aside INTEGER NOT NULL DEFAULT FALSE,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX click_queue_waiting ON click_queue (aside, id, bytes);

CREATE TABLE click_hours (
    kind INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    scope_id INTEGER NOT NULL,
    doc BLOB NOT NULL,
    PRIMARY KEY (kind, hour, scope_id)
) STRICT;
CREATE INDEX click_hours_of_scope ON click_hours (kind, scope_id, hour);

CREATE TABLE click_days (
    kind INTEGER NOT NULL,
    scope_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    doc BLOB NOT NULL,
    PRIMARY KEY (kind, scope_id, day)
) STRICT;
CREATE INDEX click_days_by_day ON click_days (kind, day, scope_id);

CREATE TABLE click_state (
    id INTEGER PRIMARY KEY,
    writes INTEGER NOT NULL,
    number INTEGER NOT NULL,
    days_until INTEGER NOT NULL
) STRICT;

INSERT INTO click_state (id, writes, number, days_until) VALUES (1, 0, 1, unixepoch() / 86400);

CREATE TABLE click_events (
    number INTEGER PRIMARY KEY,
    clicks INTEGER NOT NULL,
    at INTEGER NOT NULL,
    tenant_id INTEGER NOT NULL,
    domain_id INTEGER NOT NULL,
    link_id INTEGER NOT NULL,
    is_bot INTEGER NOT NULL,
    link_key TEXT NULL,
    described BLOB NOT NULL
) STRICT;
CREATE INDEX click_events_of_link ON click_events (link_id, at, number);
CREATE INDEX click_events_of_tenant ON click_events (tenant_id, at, number);
CREATE INDEX click_events_of_domain ON click_events (domain_id, tenant_id, at, number);

CREATE TABLE orphan_visits (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    tenant_id INTEGER NOT NULL,
    domain_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    is_bot INTEGER NOT NULL,
    url TEXT NOT NULL,
    described BLOB NOT NULL
) STRICT;
CREATE INDEX orphan_visits_of_tenant ON orphan_visits (tenant_id, at, number);

CREATE TABLE orphan_days (
    tenant_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    visits INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX orphan_days_by_day ON orphan_days (day);

CREATE TABLE link_totals (
    link_id INTEGER PRIMARY KEY,
    clicks INTEGER NOT NULL,
    bots INTEGER NOT NULL
) STRICT;

INSERT INTO link_totals (link_id, clicks, bots)
SELECT l.id, c.clicks, 0 FROM click_totals c
JOIN domains d ON d.name = substr(c.link_key, 1, instr(c.link_key, '/') - 1)
JOIN links l ON l.domain_id = d.id AND l.code = substr(c.link_key, instr(c.link_key, '/') + 1)
WHERE c.clicks > 0;

CREATE TABLE hot_links (
    place INTEGER PRIMARY KEY,
    link_key TEXT NOT NULL,
    clicks INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;

ALTER TABLE click_workers ADD COLUMN undescribed INTEGER NOT NULL DEFAULT 0;

INSERT INTO leases (name, owner, lease_until) VALUES ('clicks', '', 0);
