-- Webhooks, and deliveries of events to them; see migrations/mysql.
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id INTEGER NOT NULL,
    url TEXT NOT NULL,
    events INTEGER NOT NULL,
    secret BLOB NOT NULL,
    previous_secret BLOB,
    previous_until INTEGER,
    state TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    next_at INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, id);
CREATE INDEX webhooks_by_state ON webhooks (state, id);

CREATE TABLE webhook_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id INTEGER NOT NULL,
    waiting INTEGER,
    event TEXT NOT NULL,
    message_id TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    response_status INTEGER,
    error TEXT
) STRICT;

CREATE INDEX deliveries_waiting ON webhook_deliveries (waiting, next_at, id) WHERE waiting IS NOT NULL;
CREATE INDEX deliveries_of_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX deliveries_by_age ON webhook_deliveries (created_at);

INSERT INTO leases (name, owner, lease_until) VALUES ('webhooks', '', 0);
