-- Logins by a provider of OpenID Connect; see migrations/mysql.
ALTER TABLE users ADD COLUMN identity BLOB;

CREATE UNIQUE INDEX users_identity ON users (tenant_id, identity);
