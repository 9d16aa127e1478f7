//! Health of edges, as last reported by their workers.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::sql::{Value, pieces, sql};
use edgelink_wire::WorkerHealth;
use std::time::Duration;

/// Health of an edge. All but its name and its last report covers only workers that have reported lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeHealth {
    /// The name of the edge; empty if it has none.
    pub edge: String,
    /// Last report of any of its workers, in unix milliseconds.
    pub heard_at: u64,
    /// Number of workers that have reported lately. Without any the edge is silent.
    pub workers: u64,
    /// Greatest feed lag of its workers, in milliseconds; `None` if one of them has read no feed.
    pub feed_lag_millis: Option<u64>,
    /// Number of workers with admission in effect.
    pub admitting: u64,
    /// Requests answered by their tiers in the minute before the reports.
    pub requests: RequestSums,
}

/// Requests by the tier that answered them.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct RequestSums {
    /// The worker's own cache.
    pub lru: u64,
    /// The proxy's shared data.
    pub shared_data: u64,
    /// Admission.
    pub admission: u64,
    /// Redis.
    pub redis: u64,
    /// The control plane, or no tier: 503.
    pub control_plane: u64,
    /// A cache, with a record that was no longer fresh.
    pub stale: u64,
}

/// The columns of edge, time and lag.
const HEAD: [&str; 3] = ["edge", "reported_at", "feed_lag_ms"];

/// The columns after these, which are summed.
const SUMS: [&str; 7] = [
    "admitting",
    "lru",
    "shared_data",
    "admission",
    "redis",
    "control_plane",
    "stale",
];

impl Store {
    /// Stores the current health of workers, each with the name of its edge (empty if it has none).
    pub async fn note_health(&self, healths: &[(String, WorkerHealth)]) -> Result<(), StoreError> {
        let call = self
            .write("note_health", "storing edge health")
            .of(Class::Background);
        run!(call, |session| {
            let dialect = session.dialect();
            let now = dialect.now_millis;
            let columns = [&HEAD[..], &SUMS].concat();
            let update = dialect.overwrite("worker", columns.iter().copied());
            let row = format!("(?, ?, {now}, ?, ?, ?, ?, ?, ?, ?, ?)");
            let insert = format!(
                "INSERT INTO edge_health (worker, {}) VALUES ",
                columns.join(", ")
            );
            for healths in pieces(healths) {
                let insert = sql(insert.clone()).join(", ", healths, |sql, (edge, health)| {
                    let requests = &health.requests;
                    sql.push(&row)
                        .bind(health.worker.as_slice())
                        .bind(Value::Name(edge))
                        .bind(health.feed_lag_millis)
                        .bind(u32::from(health.is_admitting))
                        .bind_all([requests.lru, requests.shared_data, requests.admission])
                        .bind_all([requests.redis, requests.control_plane, requests.stale])
                });
                session.autocommit(insert.push(&update)).await?;
            }
            Ok(())
        })
    }

    /// Health of the `limit` edges that reported last, by workers that have reported within `lately`.
    pub async fn edge_health(
        &self,
        lately: Duration,
        limit: u32,
    ) -> Result<Vec<EdgeHealth>, StoreError> {
        let call = self.read("edge_health", "reading edge health");
        let lately = u64::try_from(lately.as_millis()).unwrap_or(u64::MAX);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let sums = SUMS
                .map(|column| format!("CAST(SUM(is_heard * {column}) AS UNSIGNED) AS {column}"));
            let query = sql(format!(
                "SELECT edge, MAX(reported_at) AS heard_at, CAST(SUM(is_heard) AS UNSIGNED) AS workers, \
                 CAST(MAX(CASE WHEN is_heard = 1 THEN feed_lag_ms END) AS UNSIGNED) AS feed_lag_ms, \
                 CAST(SUM(CASE WHEN feed_lag_ms IS NULL THEN is_heard ELSE 0 END) AS UNSIGNED) AS without_feed, {} \
                 FROM (SELECT h.*, CASE WHEN reported_at + ? > {now} THEN 1 ELSE 0 END AS is_heard FROM edge_health h) AS w \
                 GROUP BY edge ORDER BY heard_at DESC, edge LIMIT ?",
                sums.join(", ")
            ));
            let query = query.bind(lately).bind(limit);
            let rows: Vec<HealthColumns> = session.fetch_all(query).await?;
            rows.into_iter().map(HealthColumns::into_health).collect()
        })
    }

    /// Removes up to `limit` workers without a report for `kept_millis` by the database's clock. Returns their number.
    pub async fn purge_health(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_health", "removing health of silent workers")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let old = format!("reported_at <= {now} - ? ORDER BY reported_at");
            let old = sql(old).bind(kept_millis);
            session.purge("edge_health", "worker", old, limit).await
        })
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
struct HealthColumns {
    edge: Vec<u8>,
    heard_at: u64,
    workers: u64,
    feed_lag_ms: Option<u64>,
    without_feed: u64,
    admitting: u64,
    #[sqlx(flatten)]
    requests: RequestSums,
}

impl HealthColumns {
    fn into_health(self) -> Result<EdgeHealth, Fault> {
        Ok(EdgeHealth {
            edge: name(&self.edge)?,
            heard_at: self.heard_at,
            workers: self.workers,
            feed_lag_millis: self.feed_lag_ms.filter(|_| self.without_feed == 0),
            admitting: self.admitting,
            requests: self.requests,
        })
    }
}
