-- The same as in migrations/mysql. A process has the database for itself while it migrates.
ALTER TABLE click_totals ADD COLUMN taken INTEGER NOT NULL DEFAULT 0;
UPDATE click_totals SET taken = clicks;
ALTER TABLE click_totals ADD COLUMN behind INTEGER AS (clicks > taken) VIRTUAL;
CREATE INDEX click_totals_behind ON click_totals (behind);

CREATE TABLE click_marks (
    day INTEGER PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT;

ALTER TABLE click_state ADD COLUMN is_building INTEGER NOT NULL DEFAULT 0;
