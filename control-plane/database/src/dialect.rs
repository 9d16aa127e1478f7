//! Differences between the databases.

use super::sql::Sql;
use edgelink_model::clock;

/// A scalar query with two rows: an error of the statement that evaluates it, which ends a script. Servers evaluate it only where they
/// need its value.
pub const GUARD: &str = "(SELECT 1 UNION ALL SELECT 2)";

/// Fragments of SQL in which the databases differ. All other SQL is shared.
#[derive(Debug)]
pub struct Dialect {
    /// The database's clock in unix microseconds. SQLite reads it with the first row, not before.
    pub now_micros: &'static str,
    /// The database's clock in unix milliseconds.
    pub now_millis: &'static str,
    /// The database's clock in unix seconds.
    pub now_seconds: &'static str,
    /// Begins a transaction that will write.
    pub begin: &'static str,
    /// Locks the rows of a query. In SQLite, a writing transaction has the whole file to itself.
    pub for_update: &'static str,
    /// Locks the rows of a query that no other transaction has locked; the others are left out.
    pub skip_locked: &'static str,
    /// Locks the rows of a query against changes until the transaction ends, and lets others read them.
    pub for_share: &'static str,
    /// The greater of two values.
    pub greatest: &'static str,
    /// The smaller of two values.
    pub least: &'static str,
    /// The id assigned to the last INSERT of the session.
    pub last_id: &'static str,
    /// Inserts rows unless they exist.
    pub insert_ignore: &'static str,
    /// Joins in the order of the text. MySQL may prefer to start from the domains, and to sort all links for every
    /// page.
    pub join_in_order: &'static str,
    /// Approximate number of links.
    pub estimated_links: &'static str,
    /// Opens a part of a UNION that has its own ORDER BY and LIMIT; a parenthesis closes it.
    pub part: &'static str,
    system: System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    MySql,
    Sqlite,
}

/// The dialect that MySQL and MariaDB share.
pub static MYSQL: Dialect = Dialect {
    now_micros: "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)",
    now_millis: "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)",
    now_seconds: "CAST(UNIX_TIMESTAMP() AS SIGNED)",
    begin: "START TRANSACTION",
    for_update: " FOR UPDATE",
    skip_locked: " FOR UPDATE SKIP LOCKED",
    // MariaDB has no FOR SHARE.
    for_share: " LOCK IN SHARE MODE",
    greatest: "GREATEST",
    least: "LEAST",
    last_id: "CAST(LAST_INSERT_ID() AS UNSIGNED)",
    insert_ignore: "INSERT IGNORE INTO",
    join_in_order: "STRAIGHT_JOIN",
    estimated_links: "SELECT CAST(COALESCE(MAX(table_rows), 0) AS SIGNED) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = 'links'",
    part: "(",
    system: System::MySql,
};

/// The dialect of SQLite.
pub static SQLITE: Dialect = Dialect {
    now_micros: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    now_millis: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    now_seconds: "unixepoch()",
    // A transaction that starts as a reader and then writes can fail as busy at once, without waiting.
    begin: "BEGIN IMMEDIATE",
    for_update: "",
    skip_locked: "",
    for_share: "",
    greatest: "MAX",
    least: "MIN",
    last_id: "last_insert_rowid()",
    insert_ignore: "INSERT OR IGNORE INTO",
    join_in_order: "JOIN",
    estimated_links: "SELECT COUNT(*) FROM links",
    part: "SELECT * FROM (",
    system: System::Sqlite,
};

impl Dialect {
    /// The name of the database in the semantic conventions of OpenTelemetry. MariaDB counts as MySQL.
    pub fn name(&self) -> &'static str {
        match self.system {
            System::MySql => "mysql",
            System::Sqlite => "sqlite",
        }
    }

    /// True if the server takes several statements as one text, which saves round trips.
    pub fn takes_scripts(&self) -> bool {
        self.system == System::MySql
    }

    /// True if an UPDATE can return a column (RETURNING).
    pub fn has_returning(&self) -> bool {
        self.system == System::Sqlite
    }

    /// True if writing transactions have to lock the rows that they read: SQLite runs one at a time.
    pub fn has_row_locks(&self) -> bool {
        self.system == System::MySql
    }

    /// True if each table remembers the greatest id that it has assigned. Some tables in SQLite assign the one after the greatest of
    /// existing rows.
    pub fn keeps_ids(&self) -> bool {
        self.system == System::MySql
    }

    /// The id of a new row of a table: the next one never assigned before. `floor` names the row of `counters` with the greatest id
    /// that must not be assigned again, unless the table remembers it.
    pub fn next_id(&self, table: &str, floor: &str) -> String {
        match self.system {
            System::MySql => "NULL".to_owned(),
            System::Sqlite => format!(
                "(SELECT MAX(COALESCE((SELECT MAX(id) FROM {table}), 0), COALESCE((SELECT seq FROM sqlite_sequence \
                 WHERE name = '{table}'), 0), COALESCE((SELECT value FROM counters WHERE name = '{floor}'), 0)) + 1)"
            ),
        }
    }

    /// The clock before the statement reads any row, in unix microseconds: the expression, and the value to bind to it,
    /// if any. SQLite has no such function, but shares the clock of this process.
    pub fn clock(&self) -> (&'static str, Option<u64>) {
        match self.system {
            System::MySql => (self.now_micros, None),
            System::Sqlite => ("?", Some(clock::unix_micros())),
        }
    }

    /// A hint to use an index of the preceding table. MySQL may scan small tables, and lock every row on the way.
    pub fn force_index(&self, index: &str) -> String {
        match self.system {
            System::MySql => format!(" FORCE INDEX ({index})"),
            System::Sqlite => String::new(),
        }
    }

    /// Converts ASCII text to lower case. MySQL leaves binary text unchanged.
    pub fn lower(&self, text: &str) -> String {
        match self.system {
            System::MySql => format!("LOWER(CONVERT({text} USING latin1))"),
            System::Sqlite => format!("lower({text})"),
        }
    }

    /// Begins the update that an INSERT makes instead if a row with this `key` exists.
    pub fn on_duplicate(&self, key: &str) -> String {
        match self.system {
            System::MySql => " ON DUPLICATE KEY UPDATE".to_owned(),
            System::Sqlite => format!(" ON CONFLICT ({key}) DO UPDATE SET"),
        }
    }

    /// The value of a column that the INSERT of [`Self::on_duplicate`] would have inserted.
    pub fn inserted(&self, column: &str) -> String {
        match self.system {
            System::MySql => format!("VALUES({column})"),
            System::Sqlite => format!("excluded.{column}"),
        }
    }

    /// Makes an INSERT overwrite these columns where a row with this `key` exists.
    pub fn overwrite<'c>(&self, key: &str, columns: impl IntoIterator<Item = &'c str>) -> String {
        let columns = columns.into_iter();
        let assigned = columns.map(|column| format!(" {column} = {}", self.inserted(column)));
        let assigned: Vec<String> = assigned.collect();
        self.on_duplicate(key) + &assigned.join(",")
    }

    /// Deletes rows of `table`, which has this primary key, by a condition; the next parameter is the most rows to delete.
    #[must_use]
    pub fn delete_some<'v>(&self, table: &str, key: &str, condition: Sql<'v>) -> Sql<'v> {
        let delete = format!("DELETE FROM {table} WHERE ");
        match self.system {
            System::MySql => condition.within(&delete, " LIMIT ?"),
            System::Sqlite => {
                let some = format!("{delete}({key}) IN (SELECT {key} FROM {table} WHERE ");
                condition.within(&some, " LIMIT ?)")
            }
        }
    }
}
