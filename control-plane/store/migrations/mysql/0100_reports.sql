-- Reports of abuse by visitors. target: where the link led when it was reported. reason: phishing, malware, spam, illegal or other. text,
-- email: what the visitor says, NULL if nothing. closed_at: NULL while the report is open. Times are unix milliseconds.
CREATE TABLE IF NOT EXISTS abuse_reports (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id INT UNSIGNED NOT NULL,
    domain VARBINARY(255) NOT NULL,
    code VARBINARY(64) NOT NULL,
    target BLOB NOT NULL,
    reason VARBINARY(16) NOT NULL,
    text TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    email VARBINARY(254) NULL,
    created_at BIGINT UNSIGNED NOT NULL,
    closed_at BIGINT UNSIGNED NULL,
    KEY abuse_reports_of_tenant (tenant_id, id),
    KEY abuse_reports_of_link (domain, code, closed_at),
    KEY abuse_reports_closed (closed_at)
) ENGINE = InnoDB;
