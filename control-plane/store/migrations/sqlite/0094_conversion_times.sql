-- The same as in migrations/mysql.
CREATE INDEX conversions_by_time ON conversions (at);
CREATE INDEX conversion_days_by_day ON conversion_days (day);
