-- Text that must never fold case (domains, codes, targets) is VARBINARY; text for people is utf8mb4 with a binary
-- collation, which MySQL and MariaDB both have. Times are unix milliseconds where named *_at, unix seconds otherwise.

CREATE TABLE domains (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(259) NOT NULL,
    UNIQUE KEY domains_name (name)
) ENGINE = InnoDB;

-- A deleted link stays as a tombstone (deleted_at), so that its rev is never used again.
CREATE TABLE links (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    domain_id INT UNSIGNED NOT NULL,
    code VARBINARY(64) NOT NULL,
    url VARBINARY(8000) NOT NULL,
    url_hash BIGINT NOT NULL,
    redirect SMALLINT UNSIGNED NOT NULL,
    disabled BOOLEAN NOT NULL,
    valid_since BIGINT UNSIGNED NULL,
    valid_until BIGINT UNSIGNED NULL,
    forward_query BOOLEAN NOT NULL,
    title VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    tags TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    updated_at BIGINT UNSIGNED NOT NULL,
    deleted_at BIGINT UNSIGNED NULL,
    rev BIGINT UNSIGNED NOT NULL,
    UNIQUE KEY links_domain_code (domain_id, code),
    KEY links_newest (created_at, id),
    KEY links_domain_newest (domain_id, created_at, id),
    KEY links_url_hash (url_hash),
    KEY links_valid_until (valid_until),
    CONSTRAINT links_domain FOREIGN KEY (domain_id) REFERENCES domains (id)
) ENGINE = InnoDB;

CREATE TABLE api_keys (
    id VARBINARY(64) NOT NULL PRIMARY KEY,
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    secret_hash BINARY(32) NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;
