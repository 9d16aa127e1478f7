-- By which replicas find the ids of keys that they do not know yet.
CREATE INDEX api_keys_by_creation ON api_keys (created_at, id);
