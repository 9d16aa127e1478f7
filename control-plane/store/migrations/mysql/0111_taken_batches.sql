-- click_workers.taken: the numbers of the batches that were taken of a worker, as ranges, of which there is one while none is missing (see
-- src/store/clicks/taken.rs); NULL before the first control plane that keeps them. It takes the place of click_batches, which had a row for
-- each batch, and is only written while control planes from before this migration run as well (src/store/clicks/older.rs).
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'click_workers' AND column_name = 'taken'),
    'DO 0',
    'ALTER TABLE click_workers ADD COLUMN taken BLOB NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
