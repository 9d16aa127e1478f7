//! Clicks in MariaDB.

use super::{DAYS, Sizes, number};
use crate::rows::database::Database;
use edgelink_tests::stack::edgelink_binary;
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Fills the rollups, with the product's code; returns the seconds it took.
pub(super) fn fill(database: &Database, domain_id: u32, sizes: Sizes) -> f64 {
    database.execute(&format!(
        "SET GLOBAL innodb_flush_log_at_trx_commit = 2; \
         UPDATE click_state SET days_until = UNIX_TIMESTAMP() DIV 86400 - {}",
        DAYS - 1
    ));
    let links: Vec<u64> = (0..sizes.links)
        .map(|rank| number(rank, sizes.links))
        .collect();
    let spec = json!({
        "url": database.url(),
        "domain_id": domain_id,
        "links": links,
        "clicks": sizes.sql,
        "days": DAYS,
        "orphans": 12_000,
    });
    let start = Instant::now();
    let mut filling = Command::new(edgelink_binary().with_file_name("edgelink-bench-clicks"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("edgelink-bench-clicks");
    let mut input = filling.stdin.take().expect("its input");
    input
        .write_all(spec.to_string().as_bytes())
        .expect("what it fills in");
    drop(input);
    assert!(filling.wait().expect("an end").success());
    database.execute(
        "ANALYZE TABLE click_hours, click_days, click_events, orphan_visits, link_totals; \
         SET GLOBAL innodb_flush_log_at_trx_commit = 1",
    );
    start.elapsed().as_secs_f64()
}

/// Sizes of the tables.
pub(super) fn bytes(database: &Database) -> String {
    let tables = database.execute(
        "SELECT CONCAT(table_name, ' ', table_rows, ' rows ', (data_length + index_length) DIV 1048576, ' MiB') \
         FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND table_name IN ('click_hours', 'click_days', 'click_events', 'orphan_visits', 'link_totals') ORDER BY table_name",
    );
    tables.trim().replace('\n', ", ")
}

/// Has the server count the rows it reads.
pub(super) fn watch(database: &Database) {
    database.execute("SET GLOBAL userstat = 1");
}

/// Number of rows of single clicks read since then.
pub(super) fn single_clicks_read(database: &Database) -> u64 {
    let read = database.execute(
        "SELECT COALESCE(SUM(rows_read), 0) FROM information_schema.table_statistics WHERE table_name = 'click_events'",
    );
    read.trim().parse().expect("a number")
}
