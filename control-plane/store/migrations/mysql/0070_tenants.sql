-- Tenants, their users, what API keys may do, and who did what. Times are unix milliseconds. Tenant 1 is that of links and
-- keys from before; their user is its first admin.
--
-- revision: grows with every change of a user or key of the tenant, which thus come one after another, on the nodes of a
-- cluster too.
CREATE TABLE IF NOT EXISTS tenants (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    revision BIGINT UNSIGNED NOT NULL DEFAULT 0,
    created_at BIGINT UNSIGNED NOT NULL,
    UNIQUE KEY tenants_name (name)
) ENGINE = InnoDB;

INSERT IGNORE INTO tenants (id, name, created_at) VALUES (1, 'default', CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED));

CREATE TABLE IF NOT EXISTS users (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id INT UNSIGNED NOT NULL,
    name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    role VARBINARY(16) NOT NULL,
    disabled BOOLEAN NOT NULL DEFAULT FALSE,
    created_at BIGINT UNSIGNED NOT NULL,
    updated_at BIGINT UNSIGNED NOT NULL,
    UNIQUE KEY users_name (tenant_id, name),
    KEY users_of_tenant (tenant_id, id),
    CONSTRAINT users_tenant FOREIGN KEY (tenant_id) REFERENCES tenants (id)
) ENGINE = InnoDB;

INSERT IGNORE INTO users (id, tenant_id, name, role, created_at, updated_at) VALUES
    (1, 1, 'admin', 'admin', CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED), CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED));

-- domains, tags: JSON lists to which the key is bound; NULL if it is not. quota: how many links it may create; used: how
-- many it has created, counted for keys with a quota only. previous_hash: the secret before the last rotation, which works
-- until previous_until.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'api_keys' AND column_name = 'tenant_id'),
    'DO 0',
    'ALTER TABLE api_keys
        ADD COLUMN tenant_id INT UNSIGNED NOT NULL DEFAULT 1,
        ADD COLUMN user_id BIGINT UNSIGNED NOT NULL DEFAULT 1,
        ADD COLUMN role VARBINARY(16) NOT NULL DEFAULT \'admin\',
        ADD COLUMN domains TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
        ADD COLUMN tags TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
        ADD COLUMN expires_at BIGINT UNSIGNED NULL,
        ADD COLUMN quota BIGINT UNSIGNED NULL,
        ADD COLUMN used BIGINT UNSIGNED NOT NULL DEFAULT 0,
        ADD COLUMN previous_hash BINARY(32) NULL,
        ADD COLUMN previous_until BIGINT UNSIGNED NULL,
        ADD COLUMN last_used_at BIGINT UNSIGNED NULL,
        ADD COLUMN revoked_at BIGINT UNSIGNED NULL,
        ADD INDEX api_keys_of_tenant (tenant_id, created_at, id)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- actor: the id of an API key, or '-' for the command line. subject: such as link:go.example/abc, key:0123456789abcdef.
CREATE TABLE IF NOT EXISTS audit (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at BIGINT UNSIGNED NOT NULL,
    tenant_id INT UNSIGNED NOT NULL,
    actor VARBINARY(64) NOT NULL,
    user_id BIGINT UNSIGNED NULL,
    action VARBINARY(64) NOT NULL,
    subject VARBINARY(400) NOT NULL,
    detail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    KEY audit_of_tenant (tenant_id, id),
    KEY audit_of_subject (tenant_id, subject, id),
    KEY audit_of_actor (tenant_id, actor, id),
    KEY audit_of_action (tenant_id, action, id),
    KEY audit_at (at)
) ENGINE = InnoDB;
