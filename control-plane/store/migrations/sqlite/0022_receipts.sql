-- Which link a request with an Idempotency-Key has created, so that the same request again creates none.
-- request: SHA-256 of the API key's id and the idempotency key. item: the place in a bulk request.
CREATE TABLE receipts (
    request BLOB NOT NULL,
    item INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    link_id INTEGER NOT NULL,
    link_key TEXT NOT NULL,
    rev INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (request, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_created_at ON receipts (created_at);
