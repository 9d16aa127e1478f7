//! The queries that MariaDB has had, by its general log.

use edgelink_tests::servers::MariaDb;

/// Logs queries from now on.
pub(crate) fn record(database: &MariaDb) {
    database.execute("SET GLOBAL log_output = 'TABLE'");
    database.execute("TRUNCATE TABLE mysql.general_log");
    database.execute("SET GLOBAL general_log = 1");
}

/// How many queries of links had `text` in them since.
pub(crate) fn of_links(database: &MariaDb, text: &str) -> u64 {
    let count = database.execute(&format!(
        "SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ('Execute', 'Query') \
         AND argument LIKE '%links%' AND argument NOT LIKE '%general_log%' AND argument LIKE '%{text}%'"
    ));
    count.trim().parse().expect("a number")
}
