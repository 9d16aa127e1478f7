-- Reports of abuse are closed twice: closed_at by those who operate the installation, tenant_closed_at by the tenant of the link, each NULL
-- while the report is open for them. shares_email: 1 if the visitor lets the tenant see the address. Reports that were closed before are
-- closed for both.
SET @change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'abuse_reports' AND column_name = 'tenant_closed_at'),
    'DO 0',
    'ALTER TABLE abuse_reports
        ADD COLUMN tenant_closed_at BIGINT UNSIGNED NULL,
        ADD COLUMN shares_email TINYINT UNSIGNED NOT NULL DEFAULT 0'
);
PREPARE change_once FROM @change;
EXECUTE change_once;
DEALLOCATE PREPARE change_once;

UPDATE abuse_reports SET tenant_closed_at = closed_at WHERE closed_at IS NOT NULL AND tenant_closed_at IS NULL;
