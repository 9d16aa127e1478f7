//! Queues: tables of numbered rows that are read in order and removed.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::sql::sql;

/// A queue with a low-water mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkedQueue {
    /// Changes to be published.
    Outbox,
    /// Reports of clicks to be written.
    Clicks,
}

impl Store {
    /// The oldest row of a queue above `from` and up to `to`. Below the low-water mark, it comes from a transaction that committed
    /// long after writing it, and the read walks removed rows that are kept for open snapshots.
    pub async fn oldest_of(
        &self,
        queue: MarkedQueue,
        from: u64,
        to: u64,
    ) -> Result<Option<u64>, StoreError> {
        let class = match queue {
            MarkedQueue::Outbox => Class::Control,
            MarkedQueue::Clicks => Class::Background,
        };
        let call = self
            .read("oldest_of_queue", "looking for late rows of a queue")
            .of(class);
        run!(call, |session| {
            let dialect = session.dialect();
            let (table, waits) = match queue {
                MarkedQueue::Outbox => (format!("outbox{}", dialect.force_index("PRIMARY")), ""),
                MarkedQueue::Clicks => (
                    format!("click_queue{}", dialect.force_index("click_queue_waiting")),
                    "aside = 0 AND ",
                ),
            };
            let query = sql(format!(
                "SELECT id FROM {table} WHERE {waits}id > ? AND id <= ? ORDER BY id LIMIT 1"
            ));
            let row: Option<(u64,)> = session.fetch_optional(query.bind(from).bind(to)).await?;
            Ok(row.map(|(id,)| id))
        })
    }
}
