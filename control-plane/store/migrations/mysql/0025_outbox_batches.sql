-- A row of the outbox holds the changes of a transaction, or a part of them: to write, read and delete a row for each link
-- costs the database as much as the links themselves. link_keys, records: one behind another, each with its length in
-- front (four bytes, big-endian). What was not published yet becomes batches of one.
ALTER TABLE outbox
    DROP COLUMN rev,
    CHANGE COLUMN link_key link_keys MEDIUMBLOB NOT NULL,
    CHANGE COLUMN record records MEDIUMBLOB NOT NULL;

UPDATE outbox SET
    link_keys = UNHEX(CONCAT(LPAD(HEX(LENGTH(link_keys)), 8, '0'), HEX(link_keys))),
    records = UNHEX(CONCAT(LPAD(HEX(LENGTH(records)), 8, '0'), HEX(records)));
