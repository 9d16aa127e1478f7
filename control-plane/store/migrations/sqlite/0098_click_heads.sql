-- The same as in migrations/mysql.
ALTER TABLE click_hours ADD COLUMN clicks INTEGER NULL;
ALTER TABLE click_hours ADD COLUMN bots INTEGER NULL;
ALTER TABLE click_hours ADD COLUMN head BLOB NULL;
ALTER TABLE click_days ADD COLUMN clicks INTEGER NULL;
ALTER TABLE click_days ADD COLUMN bots INTEGER NULL;
ALTER TABLE click_days ADD COLUMN head BLOB NULL;
