//! Settings of analytics.

edgelink_wire::settings! {
    snake_case;

    /// Analytics: clicks by link, domain and tenant, and by their attributes. What edges report is acknowledged once it is in the
    /// click queue of the database; from there one control plane writes it into the engine.
    pub struct AnalyticsConfig {
        /// Where clicks are kept.
        pub engine: EngineKind = EngineKind::Sql;
        /// `sql`: retention of clicks by the hour, in days. Of older days, breakdowns and visitors are known by the day (UTC).
        pub hours_days: u64 = 35, 2..=400;
        /// `sql`: retention of clicks by the day, in days.
        pub days: u64 = 730, 2..=3_650;
        /// Retention of single clicks and orphan visits, in days; 0 keeps none.
        pub raw_days: u64 = 30, 0..=3_650;
        /// `sql`: values of an attribute that are kept of a link, domain or tenant in an hour or a day. Those with most clicks stay,
        /// and the others are counted together.
        pub max_values: usize = 1_000, 10..=2_000;
        /// Orphan visits of a tenant that are kept of a day; those beyond are only counted.
        pub max_orphans: u64 = 10_000, 0..=1_000_000;
        /// Bytes of reports that may wait in the queue. Beyond it reports get 503, and edges keep their clicks as long as they can.
        pub max_queued_bytes: u64 = 1_073_741_824, 1_024..=1_099_511_627_776;
        /// Clicks that are written together at most, but for those of a single report.
        pub chunk_clicks: usize = 250_000, 1..=4_000_000;
        /// Bytes of reports that are written together at most, but for a single report.
        pub chunk_bytes: u64 = 33_554_432, 1..=268_435_456;
        /// Links that are remembered by their keys, for 10 s.
        pub max_known_links: u64 = 200_000, 1..=10_000_000;
    }
}

edgelink_wire::choice! {
    /// Where clicks are kept.
    pub enum EngineKind {
        /// In the database.
        Sql = "sql",
    }
}
