-- Until when the first login by a provider of OpenID Connect under the name of a user may be bound to it; NULL where an admin awaits none.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'users' AND column_name = 'awaits_identity_until'),
    'DO 0',
    'ALTER TABLE users ADD COLUMN awaits_identity_until BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
