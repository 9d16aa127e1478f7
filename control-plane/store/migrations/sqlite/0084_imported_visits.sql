-- The visits that an imported link had before it was imported.
ALTER TABLE links ADD COLUMN imported_visits INTEGER NOT NULL DEFAULT 0;
