-- Users whose first login by a provider is awaited; see migrations/mysql.
ALTER TABLE users ADD COLUMN awaits_identity_until INTEGER;
