//! Progress of the scans of all keys, one for each process: for `edgelink doctor`, which only queries the database.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::sql::sql;

/// Most scans listed, the latest first.
const MAX_LISTED: u32 = 100;

/// Milliseconds without an update after which a scan is removed.
const KEPT_MILLIS: u64 = 86_400_000;

/// Progress of a scan of all keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScanProgress {
    /// True once all keys are read.
    pub is_complete: bool,
    /// Number of keys read.
    pub keys: u64,
    /// Fraction of all keys read, from 0 to 1, by an estimate of their number.
    pub share: f64,
}

/// The last stored progress of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct NotedScan {
    /// The name of its process.
    pub process: String,
    /// Its progress.
    pub progress: ScanProgress,
    /// Age of the update, in milliseconds.
    pub age_millis: u64,
}

#[derive(sqlx_macros::FromRow)]
struct ScanColumns {
    process: Vec<u8>,
    noted_at: u64,
    now: u64,
    keys_read: u64,
    per_mille: u16,
    complete: bool,
}

impl ScanColumns {
    fn into_scan(self) -> Result<NotedScan, Fault> {
        Ok(NotedScan {
            process: name(&self.process)?,
            progress: ScanProgress {
                is_complete: self.complete,
                keys: self.keys_read,
                share: f64::from(self.per_mille) / 1000.0,
            },
            age_millis: self.now.saturating_sub(self.noted_at),
        })
    }
}

impl Store {
    /// Stores the progress of the scan of a process.
    pub async fn note_scan(
        &self,
        process: &str,
        progress: &ScanProgress,
    ) -> Result<(), StoreError> {
        let call = self
            .write("note_scan", "storing the progress of the key scan")
            .of(Class::Background);
        run!(call, |session| {
            let dialect = session.dialect();
            let now = dialect.now_millis;
            let columns = ["noted_at", "keys_read", "per_mille", "complete"];
            let note = sql(format!(
                "INSERT INTO key_scans (process, {}) VALUES (?, {now}, ?, ?, ?){}",
                columns.join(", "),
                dialect.overwrite("process", columns),
            ));
            let note = note
                .bind(process)
                .bind(progress.keys)
                .bind((progress.share * 1000.0) as u64)
                .bind(progress.is_complete);
            session.autocommit(note).await?;
            let forget = format!("DELETE FROM key_scans WHERE noted_at < {now} - ?");
            let forget = sql(forget).bind(KEPT_MILLIS);
            session.autocommit(forget).await.map(drop)
        })
    }

    /// The scans of the last day, the latest updated first.
    pub async fn noted_scans(&self) -> Result<Vec<NotedScan>, StoreError> {
        let call = self.read("noted_scans", "reading the progress of key scans");
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let query = sql(format!(
                "SELECT process, noted_at, {now} AS now, keys_read, per_mille, complete FROM key_scans \
                 ORDER BY noted_at DESC LIMIT ?"
            ));
            let rows: Vec<ScanColumns> = session.fetch_all(query.bind(MAX_LISTED)).await?;
            rows.into_iter().map(ScanColumns::into_scan).collect()
        })
    }
}
