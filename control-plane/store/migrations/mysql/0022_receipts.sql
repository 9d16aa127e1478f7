-- Which link a request with an Idempotency-Key has created, so that the same request again creates none.
-- request: SHA-256 of the API key's id and the idempotency key. item: the place in a bulk request.
CREATE TABLE receipts (
    request BINARY(32) NOT NULL,
    item INT UNSIGNED NOT NULL,
    fingerprint BINARY(32) NOT NULL,
    link_id BIGINT UNSIGNED NOT NULL,
    link_key VARBINARY(324) NOT NULL,
    rev BIGINT UNSIGNED NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (request, item),
    KEY receipts_created_at (created_at)
) ENGINE = InnoDB;
