//! MariaDB: its copies and their restoration.

use super::super::rollups::WrittenClicks;
use super::{CONTROL_PLANES, DisturbedDeployment, subfolder};
use crate::nemesis::part::{Part, Probe};
use crate::scenario::DOMAIN;
use crate::stack::{Signal, edgelink_binary, free_port, local};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;

pub(super) const NAME: &str = "nemesis";
/// Fixed from the start, as in `servers/mariadb.rs`, and small because the files are copied.
const LOG_SIZE: &str = "--innodb-log-file-size=16M";
const SQL_LIMIT: Duration = Duration::from_secs(20);
/// Pause for the kernel to finish the writes of a stopped server.
const SETTLE: Duration = Duration::from_millis(100);

/// Files and ports of MariaDB.
#[derive(Debug)]
pub(super) struct Database {
    folder: PathBuf,
    port: u16,
}

impl Database {
    /// Creates the system tables.
    pub(super) fn install(folder: &Path) -> Self {
        let database = Self {
            folder: subfolder(folder, "mariadb"),
            port: free_port(),
        };
        let output = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", LOG_SIZE])
            .arg("--auth-root-authentication-method=normal")
            .arg(format!("--datadir={}", database.data().display()))
            .arg(format!("--tmpdir={}", database.folder.display()))
            .args(user())
            .output()
            .expect("MariaDB is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mariadb-install-db: {errors}");
        database
    }

    pub(super) fn address(&self) -> SocketAddr {
        local(self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn copy(&self, number: u64) -> PathBuf {
        self.folder.join(format!("copy-{number}"))
    }
}

/// MariaDB refuses to run as root without `--user`.
fn user() -> Option<&'static str> {
    rustix::process::getuid().is_root().then_some("--user=root")
}

async fn copy_folder(from: &Path, to: &Path) {
    let status = tokio::process::Command::new("cp")
        .args(["-a", "--sparse=always"])
        .args([from, to])
        .status();
    let status = status.await.expect("cp");
    assert!(status.success(), "cp: {status}");
}

impl DisturbedDeployment {
    pub(super) async fn start_database(&mut self) {
        let port = self.database.port;
        let (data, socket) = (self.database.data(), self.database.socket());
        let folder = self.database.folder.clone();
        let part = Part::new("mariadb", self.folder(), Probe::MariaDb(port), move || {
            let mut command = Command::new("mariadbd");
            command
                .arg("--no-defaults")
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--tmpdir={}", folder.display()))
                .arg(format!("--socket={}", socket.display()))
                .arg(format!("--pid-file={}", folder.join("pid").display()))
                .arg(format!("--port={port}"))
                .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
                .args(["--innodb-buffer-pool-size=32M", LOG_SIZE])
                .args(user())
                .process_group(0);
            command
        });
        self.add_part(part).await;
        let sql = format!("CREATE DATABASE {NAME}");
        self.sql(&sql).await.expect("a database");
    }

    /// Runs SQL as root, bypassing the proxies, and returns its output.
    ///
    /// # Errors
    /// Returns the client's error output.
    pub(in crate::nemesis) async fn sql(&self, sql: &str) -> Result<String, String> {
        self.run_sql(sql, SQL_LIMIT).await
    }

    async fn run_sql(&self, sql: &str, limit: Duration) -> Result<String, String> {
        let mut client = tokio::process::Command::new("mariadb");
        client
            .args(["--no-defaults", "--batch", "--skip-column-names"])
            .arg("--user=root")
            .arg(format!("--socket={}", self.database.socket().display()))
            .arg(format!("--execute={sql}"))
            .kill_on_drop(true);
        let output = timeout(limit, client.output()).await;
        let output = output.map_err(|_| "no answer".to_owned())?;
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Runs `sql` in a transaction that is left open for that time and then rolled back; returns its output.
    ///
    /// # Errors
    /// Returns the client's error output.
    pub(in crate::nemesis) async fn hold_transaction(
        &self,
        start: &str,
        sql: &str,
        time: Duration,
    ) -> Result<String, String> {
        let seconds = time.as_secs_f64();
        let script = format!("USE {NAME}; {start}; {sql}; DO SLEEP({seconds}); ROLLBACK");
        self.run_sql(&script, time + SQL_LIMIT).await
    }

    /// Keeps the row of a link of the default domain, and no other row, locked for that time.
    ///
    /// # Errors
    /// Returns the client's error output, or the number of rows locked if it is not one.
    pub(in crate::nemesis) async fn lock_link(
        &self,
        code: &str,
        time: Duration,
    ) -> Result<(), String> {
        let id = self.sql(&id_of(code)).await?;
        let id = id.trim().parse();
        let id: u64 = id.map_err(|_| format!("there is no link '{code}'"))?;
        let locked = self.hold_transaction(LOCKING, &lock_of(id), time).await?;
        only_one(&locked)
    }

    /// Copies the database files as of one moment, like what a crashed machine leaves behind.
    pub(in crate::nemesis) async fn copy_database(&self, number: u64) {
        let part = self.part("mariadb");
        part.signal(Signal::STOP);
        tokio::time::sleep(SETTLE).await;
        copy_folder(&self.database.data(), &self.database.copy(number)).await;
        part.signal(Signal::CONT);
    }

    /// Removes a copy that is no longer needed.
    pub(in crate::nemesis) fn remove_copy(&self, number: u64) {
        let _ = fs::remove_dir_all(self.database.copy(number)); // the folder is removed at the end anyway
    }

    /// Puts a copy in place of the database. [`Self::open_database`] lets connections through again.
    pub(in crate::nemesis) async fn restore_database(&self, number: u64) {
        let part = self.part("mariadb");
        part.kill();
        for name in Self::links_to_database() {
            self.proxy(&name).refuse(true);
        }
        fs::remove_dir_all(self.database.data()).expect("the database");
        copy_folder(&self.database.copy(number), &self.database.data()).await;
        part.start();
        part.await_ready(super::START_LIMIT).await;
    }

    /// Lets connections to the database through.
    pub(in crate::nemesis) fn open_database(&self) {
        for name in Self::links_to_database() {
            self.proxy(&name).heal();
        }
    }

    fn links_to_database() -> impl Iterator<Item = String> {
        let control_planes = (0..CONTROL_PLANES).map(|number| format!("cp-{number}>mariadb"));
        control_planes.chain(["stray>mariadb".to_owned()])
    }

    /// Makes every link deleted more than `seconds` ago look deleted long ago, and removes it.
    ///
    /// # Errors
    /// Fails if the database does not answer.
    pub(in crate::nemesis) async fn purge_tombstones(
        &self,
        seconds: u64,
    ) -> Result<String, String> {
        let month = 31_u64 * 24 * 3600 * 1000;
        let aged = format!(
            "UPDATE {NAME}.links SET deleted_at = deleted_at - {month} WHERE deleted_at IS NOT NULL \
             AND deleted_at < (UNIX_TIMESTAMP(SYSDATE()) - {seconds}) * 1000"
        );
        self.sql(&aged).await?;
        self.edgelink("sweep").await
    }

    /// Runs an edgelink command on the database, bypassing the proxies, and returns its output.
    ///
    /// # Errors
    /// Fails if the command does not succeed in time.
    pub(in crate::nemesis) async fn edgelink(&self, command: &str) -> Result<String, String> {
        let url = super::database_url(self.database.address());
        let mut process = tokio::process::Command::new(edgelink_binary());
        process
            .arg(command)
            .env("EDGELINK_STORE_URL", url)
            .env("EDGELINK_LINKS_DOMAINS", DOMAIN)
            .kill_on_drop(true);
        let output = timeout(SQL_LIMIT, process.output()).await;
        let output = output.map_err(|_| "no answer".to_owned())?;
        let output = output.map_err(|error| error.to_string())?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(text)
        }
    }

    /// Clicks by code. Links whose row is gone are left out.
    ///
    /// # Errors
    /// Fails if the database does not answer.
    pub(in crate::nemesis) async fn clicks_by_code(&self) -> Result<Vec<(String, u64)>, String> {
        let rows = self
            .sql(&format!(
                "SELECT IF(d.name = '{DOMAIN}', l.code, CONCAT(d.name, '/', l.code)), SUM(t.clicks) FROM {NAME}.link_totals t \
                 JOIN {NAME}.links l ON l.id = t.link_id JOIN {NAME}.domains d ON d.id = l.domain_id GROUP BY l.id"
            ))
            .await?;
        let row = |line: &str| {
            let (code, clicks) = line.split_once('\t')?;
            Some((code.to_owned(), clicks.parse().ok()?))
        };
        Ok(rows.lines().filter_map(row).collect())
    }

    /// Number of click reports waiting to be written.
    ///
    /// # Errors
    /// Fails if the database does not answer.
    pub(in crate::nemesis) async fn clicks_waiting(&self) -> Result<u64, String> {
        let count = format!("SELECT COUNT(*) FROM {NAME}.click_queue");
        let count = self.sql(&count).await?;
        let number = count.trim().parse();
        number.map_err(|error| format!("{count} is no number: {error}"))
    }

    /// Totals of the rollups of all tenants.
    ///
    /// # Errors
    /// Fails if the database does not answer, or a rollup cannot be decoded.
    pub(in crate::nemesis) async fn clicks_written(&self) -> Result<WrittenClicks, String> {
        let docs =
            format!("SELECT CONCAT(HEX(head), HEX(doc)) FROM {NAME}.click_hours WHERE kind = 3");
        let mut written = WrittenClicks::default();
        for doc in self.sql(&docs).await?.lines() {
            written
                .add(&unhex(doc)?)
                .map_err(|error| error.to_string())?;
        }
        Ok(written)
    }

    /// Clicks sent, counted, dropped and without attributes, summed over the rows of a table.
    ///
    /// # Errors
    /// Fails if the database does not answer.
    pub(in crate::nemesis) async fn accounts(&self, table: &str) -> Result<[u64; 4], String> {
        let mut sums = [0; 4];
        let names = ["sent", "counted", "dropped", "undescribed"];
        for (sum, name) in sums.iter_mut().zip(names) {
            let query = format!("SELECT COALESCE(SUM({name}), 0) FROM {NAME}.{table}");
            let text = self.sql(&query).await?;
            let number = text.trim().parse();
            *sum = number.map_err(|error| format!("{text} is no number: {error}"))?;
        }
        Ok(sums)
    }

    /// All clicks ever counted, including those of purged links.
    pub(in crate::nemesis) async fn clicks_counted(&self) -> Result<u64, String> {
        let sum = format!("SELECT COALESCE(SUM(counted), 0) FROM {NAME}.click_workers");
        let sum = self.sql(&sum).await?;
        let number = sum.trim().parse();
        number.map_err(|error| format!("{sum} is no number: {error}"))
    }
}

/// Begins a transaction that locks the rows it finds, but neither the rows it passes nor the gaps between them.
const LOCKING: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";

/// Finds the id of a link of the default domain without locking.
fn id_of(code: &str) -> String {
    format!(
        "SELECT l.id FROM {NAME}.links l JOIN {NAME}.domains d ON d.id = l.domain_id \
         WHERE d.name = '{DOMAIN}' AND l.code = '{code}'"
    )
}

/// Locks a link by its primary key: a search without an index locks every row that it passes. The last line of the output
/// is the number of locked rows.
fn lock_of(id: u64) -> String {
    format!(
        "SELECT id FROM links WHERE id = {id} FOR UPDATE; SELECT trx_rows_locked \
         FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()"
    )
}

/// Succeeds if the output of [`lock_of`] reports exactly one locked row.
fn only_one(printed: &str) -> Result<(), String> {
    match printed.lines().last().unwrap_or("0") {
        "1" => Ok(()),
        other => Err(format!("{other} rows are locked")),
    }
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| format!("{text} is not hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_when_its_row_is_held_is_locked_by_id() {
        assert!(LOCKING.contains("READ COMMITTED"), "{LOCKING}");
        let found = id_of("crowded");
        assert!(!found.contains("FOR UPDATE"), "{found}");
        let conditions = format!("d.name = '{DOMAIN}' AND l.code = 'crowded'");
        assert!(found.ends_with(&conditions), "{found}");
        let lock = lock_of(7);
        assert!(lock.contains("WHERE id = 7 FOR UPDATE"), "{lock}");
        assert!(!lock.contains("code"), "{lock}");
    }

    #[test]
    fn locked_rows_when_not_exactly_one_are_reported() {
        assert_eq!(only_one("7\n1\n"), Ok(()));
        let reported = |printed| only_one(printed).unwrap_err();
        assert_eq!(reported("7\n2904\n"), "2904 rows are locked");
        assert_eq!(reported("0\n"), "0 rows are locked");
        assert_eq!(reported(""), "0 rows are locked");
    }
}
