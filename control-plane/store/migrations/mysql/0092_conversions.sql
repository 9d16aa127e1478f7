-- Conversions: what visitors did after they had followed a link that tracks them. Times are unix seconds.
--
-- The ids of clicks that targets were given, while a conversion may still come.
CREATE TABLE IF NOT EXISTS click_ids (
    id VARBINARY(16) NOT NULL PRIMARY KEY,
    link_id BIGINT UNSIGNED NOT NULL,
    tenant_id INT UNSIGNED NOT NULL,
    domain_id INT UNSIGNED NOT NULL,
    at BIGINT UNSIGNED NOT NULL,
    KEY click_ids_by_time (at),
    KEY click_ids_of_link (link_id)
) ENGINE = InnoDB;

-- hash: of the external id, or else of click and event. value: in the smallest unit of the currency, which is empty for none.
CREATE TABLE IF NOT EXISTS conversions (
    tenant_id INT UNSIGNED NOT NULL,
    hash VARBINARY(32) NOT NULL,
    click_id VARBINARY(16) NOT NULL,
    link_id BIGINT UNSIGNED NOT NULL,
    event VARBINARY(255) NOT NULL,
    external_id VARBINARY(255) NULL,
    value BIGINT UNSIGNED NOT NULL,
    currency VARBINARY(3) NOT NULL,
    at BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (tenant_id, hash),
    KEY conversions_of_click (click_id),
    KEY conversions_of_link (link_id)
) ENGINE = InnoDB;

-- Their numbers and sums by day (unix time / 86400).
CREATE TABLE IF NOT EXISTS conversion_days (
    link_id BIGINT UNSIGNED NOT NULL,
    day INT UNSIGNED NOT NULL,
    event VARBINARY(255) NOT NULL,
    currency VARBINARY(3) NOT NULL,
    tenant_id INT UNSIGNED NOT NULL,
    domain_id INT UNSIGNED NOT NULL,
    conversions BIGINT UNSIGNED NOT NULL,
    value BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (link_id, day, event, currency),
    KEY conversion_days_of_tenant (tenant_id, day),
    KEY conversion_days_of_domain (tenant_id, domain_id, day)
) ENGINE = InnoDB;
