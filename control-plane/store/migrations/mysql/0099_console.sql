-- The console: passwords of users, and sessions. password_hash: a PHC string; NULL where the user has no password.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'users' AND column_name = 'password_hash'),
    'DO 0',
    'ALTER TABLE users ADD COLUMN password_hash VARBINARY(255) NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

-- token_hash: SHA-256 of the token in the cookie. key_id: the API key of the login; NULL if it was by password. proof: SHA-256 of the
-- key's or the password's hash at the login: a session is over when that is another one. Times are unix milliseconds.
CREATE TABLE IF NOT EXISTS console_sessions (
    token_hash BINARY(32) NOT NULL PRIMARY KEY,
    user_id BIGINT UNSIGNED NOT NULL,
    key_id VARBINARY(64) NULL,
    proof BINARY(32) NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    expires_at BIGINT UNSIGNED NOT NULL,
    KEY console_sessions_of_user (user_id, expires_at),
    KEY console_sessions_expiry (expires_at)
) ENGINE = InnoDB;
