//! The engines, measured in turn, and their servers.

use crate::rows::database::Database;
use edgelink_tests::servers::ClickHouseServer;
use edgelink_tests::stack::ControlPlane;
use std::fs;

/// An engine and its configuration.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    has_clickhouse: bool,
    /// `analytics.raw_days`.
    raw_days: &'static str,
    /// Clicks per second.
    pub(crate) goal: Option<f64>,
}

/// All of them.
pub(crate) const LANES: [Lane; 3] = [
    Lane {
        name: "MariaDB, rollups",
        has_clickhouse: false,
        raw_days: "0",
        goal: Some(100_000.0),
    },
    Lane {
        name: "MariaDB, rollups and single clicks",
        has_clickhouse: false,
        raw_days: "30",
        goal: None,
    },
    Lane {
        name: "ClickHouse of today (chdb)",
        has_clickhouse: true,
        raw_days: "30",
        goal: Some(500_000.0),
    },
];

/// MariaDB, which has the links and the queue, and ClickHouse if that is the engine.
pub(crate) struct Servers {
    mariadb: Database,
    clickhouse: Option<ClickHouseServer>,
}

impl Servers {
    /// Starts them, empty.
    pub(crate) fn start(lane: &Lane) -> Self {
        Self {
            mariadb: Database::start(),
            clickhouse: lane.has_clickhouse.then(ClickHouseServer::start),
        }
    }

    /// Starts a control plane.
    pub(crate) async fn control_plane(&self, lane: &Lane) -> ControlPlane {
        let url = self.mariadb.url();
        let mut variables = vec![
            ("EDGELINK_STORE_URL", url.as_str()),
            ("EDGELINK_ANALYTICS_RAW_DAYS", lane.raw_days),
        ];
        let clickhouse = self.clickhouse.as_ref().map(ClickHouseServer::url);
        if let Some(url) = &clickhouse {
            variables.push(("EDGELINK_ANALYTICS_ENGINE", "clickhouse"));
            variables.push(("EDGELINK_ANALYTICS_CLICKHOUSE_URL", url));
        }
        ControlPlane::with_variables(&variables).await
    }

    pub(crate) fn mariadb(&self) -> u32 {
        self.mariadb.process_id()
    }

    pub(crate) fn clickhouse(&self) -> Option<u32> {
        self.clickhouse.as_ref().map(|server| server.process_id())
    }

    /// Number of clicks counted by the engine.
    pub(crate) fn counted(&self) -> u64 {
        let sum = match &self.clickhouse {
            Some(server) => server.ask("SELECT sum(clicks) FROM edgelink.clicks"),
            None => self.mariadb.execute(
                "SELECT CAST(SUM(clicks) AS UNSIGNED) FROM link_totals HAVING NOT EXISTS (SELECT 1 FROM click_queue)",
            ),
        };
        sum.trim().parse().unwrap_or(0)
    }

    /// Size on disk of the engine's click tables: in MariaDB all but the queue, whose file never shrinks.
    pub(crate) fn bytes(&self) -> u64 {
        let Some(server) = &self.clickhouse else {
            return self.mariadb_bytes();
        };
        let tables = server.ask(
            "SELECT name FROM system.tables WHERE database = 'edgelink' AND engine LIKE '%MergeTree'",
        );
        for table in tables.lines() {
            let _ = server.ask(&format!("OPTIMIZE TABLE edgelink.{table} FINAL"));
        }
        let sum = server.ask(
            "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'edgelink'",
        );
        sum.trim().parse().expect("a number")
    }

    fn mariadb_bytes(&self) -> u64 {
        const TABLES: [&str; 4] = ["click_hours", "click_days", "click_events", "link_totals"];
        let folder = self.mariadb.folder();
        let size =
            |table| fs::metadata(folder.join(format!("{table}.ibd"))).map_or(0, |it| it.len());
        TABLES.into_iter().map(size).sum()
    }
}
