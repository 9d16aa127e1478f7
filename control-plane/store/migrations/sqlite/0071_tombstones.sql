-- No query needs it; see migrations/mysql.
DROP INDEX links_live;
