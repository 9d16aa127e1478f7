-- The console: passwords of users, and sessions; see migrations/mysql.
ALTER TABLE users ADD COLUMN password_hash TEXT;

CREATE TABLE console_sessions (
    token_hash BLOB NOT NULL PRIMARY KEY,
    user_id INTEGER NOT NULL,
    key_id TEXT,
    proof BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX console_sessions_of_user ON console_sessions (user_id, expires_at);
CREATE INDEX console_sessions_expiry ON console_sessions (expires_at);
