-- A receipt may be of a link that was there already. Its times are those of the link; created_at is that of the receipt.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'receipts' AND column_name = 'found'),
    'DO 0',
    'ALTER TABLE receipts
        ADD COLUMN found BOOLEAN NOT NULL DEFAULT FALSE,
        ADD COLUMN link_created_at BIGINT UNSIGNED NULL,
        ADD COLUMN link_updated_at BIGINT UNSIGNED NULL'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;
