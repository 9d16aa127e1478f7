-- Reports of abuse by visitors; see migrations/mysql.
CREATE TABLE abuse_reports (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id INTEGER NOT NULL,
    domain TEXT NOT NULL,
    code TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL,
    text TEXT,
    email TEXT,
    created_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT;

CREATE INDEX abuse_reports_of_tenant ON abuse_reports (tenant_id, id);
CREATE INDEX abuse_reports_of_link ON abuse_reports (domain, code, closed_at);
CREATE INDEX abuse_reports_closed ON abuse_reports (closed_at);
