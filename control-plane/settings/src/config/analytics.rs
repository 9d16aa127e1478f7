//! Settings of analytics.

use super::value::{FileText, Secret, server_url};
use edgelink_wire::settings::Problems;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// Analytics: clicks by link, domain and tenant, and by their attributes. What edges report is acknowledged once it is in the
    /// click queue of the database; from there one control plane writes it into the engine.
    ///
    /// ClickHouse has to be of 24.8 or later. Tables are made where they are missing; make them yourself, with the same columns, to
    /// have them replicated.
    ///
    /// Rows go by whole partitions there: hours up to a week later than is said here, days up to a month. Months of links,
    /// which are added up of their days, go up to a month later than the last of these.
    pub struct AnalyticsConfig {
        /// Where clicks are kept.
        pub engine: EngineKind = EngineKind::Sql;
        /// `clickhouse`: retention of clicks by the minute, in days.
        pub minutes_days: u64 = 3, 2..=35;
        /// Retention of clicks by the hour, in days. Older days (UTC) count as a whole.
        pub hours_days: u64 = 35, 2..=400;
        /// Retention of clicks by the day, in days.
        pub days: u64 = 730, 2..=3_650;
        /// Retention of single clicks and orphan visits, in days; 0 keeps none. `clickhouse`: 2 at least.
        pub raw_days: u64 = 30, 0..=3_650;
        /// `sql`: values of an attribute that are kept of a link, domain or tenant in an hour or a day. Those with most clicks stay,
        /// and the others are counted together.
        pub max_values: usize = 1_000, 10..=2_000;
        /// Orphan visits of a tenant that are kept of a day; those beyond are only counted.
        pub max_orphans: u64 = 10_000, 0..=1_000_000;
        /// Bytes of reports that may wait in the queue. Beyond it reports get 503, and edges keep their clicks as long as they can.
        pub max_queued_bytes: u64 = 1_073_741_824, 1_024..=1_099_511_627_776;
        /// Clicks that are written together at most, but for those of a single report. `sql`: fewer, down to 100,000, where that takes
        /// longer than 300 ms.
        pub chunk_clicks: usize = 250_000, 1..=4_000_000;
        /// Bytes of reports that are written together at most, but for a single report.
        pub chunk_bytes: u64 = 33_554_432, 1..=268_435_456;
        /// Questions about clicks that are answered at once; further ones wait for a second, and then get 503. A tenant
        /// has all but one of these places, a key half of them. Each takes a connection of those that reads have (`store.reserved_connections`).
        pub max_queries: usize = 3, 1..=10_000;
        /// Retention of the ids of clicks of links that track conversions, in days: so long a conversion may come.
        pub click_id_days: u64 = 90, 1..=3_650;
        /// Retention of conversions, in days.
        pub conversion_days: u64 = 730, 1..=3_650;
        /// Links that are remembered by their keys, for 10 s. One whose tags and campaign parameters have more than 512 bytes counts as
        /// one more for each.
        pub max_known_links: u64 = 200_000, 1..=10_000_000;
        /// `clickhouse`: its HTTP interface. With `https` its certificate must be one that the system trusts.
        pub clickhouse_url: Option<Secret> = None, "http://127.0.0.1:8123";
        /// `clickhouse`: the database; it is made if it is missing.
        pub clickhouse_database: String = "edgelink".to_owned();
        /// `clickhouse`: the user, who may make tables and views.
        pub clickhouse_user: String = "default".to_owned();
        /// `clickhouse`: the file with the user's password.
        pub clickhouse_password_file: Option<FileText> = None, "/etc/edgelink/clickhouse-password";
        /// `clickhouse`: time for a query. Inserts and deletions may take six times as long.
        pub clickhouse_timeout_ms: Duration = Duration::from_secs(10), 50..=600_000;
    }
}

edgelink_wire::choice! {
    /// Storage engine of clicks.
    pub enum EngineKind {
        /// In the database.
        Sql = "sql",
        /// In ClickHouse.
        ClickHouse = "clickhouse",
    }
}

/// The longest names of database and user, in bytes.
const MAX_NAME_LENGTH: usize = 128;

impl AnalyticsConfig {
    /// Retention of clicks by the minute, in days; `None` if they are not kept.
    #[must_use]
    pub fn kept_minutes(&self) -> Option<u64> {
        (self.engine == EngineKind::ClickHouse).then_some(self.minutes_days)
    }

    /// Days for which clicks by value are available by the hour. For links in ClickHouse these are the single clicks.
    #[must_use]
    pub fn value_hours_days(&self) -> u64 {
        match self.engine {
            EngineKind::Sql => self.hours_days,
            EngineKind::ClickHouse => self.hours_days.min(self.raw_days),
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        if self.hours_days > self.days {
            let must = "must be at most analytics.days";
            problems.refuse("analytics.hours_days", must);
        }
        if self.engine == EngineKind::ClickHouse {
            self.check_clickhouse(problems);
        }
    }

    fn check_clickhouse(&self, problems: &mut Problems) {
        if self.raw_days < 2 {
            let must = "must be at least 2 with the engine 'clickhouse'";
            problems.refuse("analytics.raw_days", must);
        }
        for (field, name) in [
            ("analytics.clickhouse_database", &self.clickhouse_database),
            ("analytics.clickhouse_user", &self.clickhouse_user),
        ] {
            let is_name = name.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_name || !(1..=MAX_NAME_LENGTH).contains(&name.len()) {
                let must = "must be 1 to 128 visible ASCII characters";
                problems.refuse(field, must);
            }
        }
        if let Some(file) = &self.clickhouse_password_file
            && !is_header(file.text().trim_end())
        {
            let must = "must hold one line of visible ASCII characters";
            problems.refuse("analytics.clickhouse_password_file", must);
        }
        let url = self.clickhouse_url.as_ref().map(Secret::expose);
        let url = url.ok_or("must be set with the engine 'clickhouse'");
        if let Err(reason) = url.and_then(server_url) {
            problems.refuse("analytics.clickhouse_url", reason);
        }
    }
}

/// True if the text can be sent in a header.
fn is_header(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
