-- The same as in migrations/mysql.
CREATE TABLE click_ids (
    id BLOB NOT NULL PRIMARY KEY,
    link_id INTEGER NOT NULL,
    tenant_id INTEGER NOT NULL,
    domain_id INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX click_ids_by_time ON click_ids (at);
CREATE INDEX click_ids_of_link ON click_ids (link_id);

CREATE TABLE conversions (
    tenant_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    click_id BLOB NOT NULL,
    link_id INTEGER NOT NULL,
    event TEXT NOT NULL,
    external_id TEXT NULL,
    value INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX conversions_of_click ON conversions (click_id);
CREATE INDEX conversions_of_link ON conversions (link_id);

CREATE TABLE conversion_days (
    link_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    event TEXT NOT NULL,
    currency TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    domain_id INTEGER NOT NULL,
    conversions INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (link_id, day, event, currency)
) STRICT, WITHOUT ROWID;
CREATE INDEX conversion_days_of_tenant ON conversion_days (tenant_id, day);
CREATE INDEX conversion_days_of_domain ON conversion_days (tenant_id, domain_id, day);
