-- Tenants, their users, what API keys may do, and who did what; see migrations/mysql.
CREATE TABLE tenants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO tenants (id, name, created_at) VALUES (1, 'default', CAST(unixepoch('subsec') * 1000 AS INTEGER));

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant_id, name)
) STRICT;

CREATE INDEX users_of_tenant ON users (tenant_id, id);

INSERT INTO users (id, tenant_id, name, role, created_at, updated_at) VALUES
    (1, 1, 'admin', 'admin', CAST(unixepoch('subsec') * 1000 AS INTEGER), CAST(unixepoch('subsec') * 1000 AS INTEGER));

ALTER TABLE api_keys ADD COLUMN tenant_id INTEGER NOT NULL DEFAULT 1;
ALTER TABLE api_keys ADD COLUMN user_id INTEGER NOT NULL DEFAULT 1;
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT 'admin';
ALTER TABLE api_keys ADD COLUMN domains TEXT;
ALTER TABLE api_keys ADD COLUMN tags TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN quota INTEGER;
ALTER TABLE api_keys ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN previous_hash BLOB;
ALTER TABLE api_keys ADD COLUMN previous_until INTEGER;
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
ALTER TABLE api_keys ADD COLUMN revoked_at INTEGER;
CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, created_at, id);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    tenant_id INTEGER NOT NULL,
    actor TEXT NOT NULL,
    user_id INTEGER,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX audit_of_tenant ON audit (tenant_id, id);
CREATE INDEX audit_of_subject ON audit (tenant_id, subject, id);
CREATE INDEX audit_of_actor ON audit (tenant_id, actor, id);
CREATE INDEX audit_of_action ON audit (tenant_id, action, id);
CREATE INDEX audit_at ON audit (at);
