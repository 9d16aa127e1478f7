-- Webhooks, and deliveries of events to them. Times are unix milliseconds.
--
-- events: a bit for each kind of event. secret: the key that signs; the one before the last rotation signs as well until
-- previous_until. state: active, paused or disabled (after failures). failures, failing_since: their number and the first one since the last
-- success; next_at: when it may be tried again.
CREATE TABLE IF NOT EXISTS webhooks (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id INT UNSIGNED NOT NULL,
    url VARBINARY(2000) NOT NULL,
    events INT UNSIGNED NOT NULL,
    secret VARBINARY(64) NOT NULL,
    previous_secret VARBINARY(64) NULL,
    previous_until BIGINT UNSIGNED NULL,
    state VARBINARY(16) NOT NULL,
    failures INT UNSIGNED NOT NULL DEFAULT 0,
    failing_since BIGINT UNSIGNED NULL,
    next_at BIGINT UNSIGNED NOT NULL DEFAULT 0,
    created_at BIGINT UNSIGNED NOT NULL,
    updated_at BIGINT UNSIGNED NOT NULL,
    KEY webhooks_of_tenant (tenant_id, id),
    KEY webhooks_by_state (state, id)
) ENGINE = InnoDB;

-- waiting: the webhook, while the delivery waits for its first or next attempt, which is due at next_at; then NULL.
-- state: pending, delivered or failed.
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    webhook_id BIGINT UNSIGNED NOT NULL,
    waiting BIGINT UNSIGNED NULL,
    event VARBINARY(32) NOT NULL,
    message_id VARBINARY(64) NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    state VARBINARY(16) NOT NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    next_at BIGINT UNSIGNED NOT NULL,
    attempts INT UNSIGNED NOT NULL DEFAULT 0,
    response_status INT UNSIGNED NULL,
    error VARBINARY(200) NULL,
    KEY deliveries_waiting (waiting, next_at, id),
    KEY deliveries_of_webhook (webhook_id, id),
    KEY deliveries_by_age (created_at)
) ENGINE = InnoDB;

INSERT IGNORE INTO leases (name, owner, lease_until) VALUES ('webhooks', '', 0);
