-- Logins by a provider of OpenID Connect. identity: SHA-256 of issuer and subject; NULL where the user has never logged in so.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'users' AND column_name = 'identity'),
    'DO 0',
    'ALTER TABLE users ADD COLUMN identity BINARY(32) NULL, ADD UNIQUE KEY users_identity (tenant_id, identity)'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
