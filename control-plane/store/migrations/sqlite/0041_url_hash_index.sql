-- No query needs it any more; see migrations/mysql.
DROP INDEX IF EXISTS links_url_hash;
