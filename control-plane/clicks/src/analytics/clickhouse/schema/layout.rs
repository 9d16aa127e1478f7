//! Physical layout of tables: order, partitions, index granularity and TTL.

use super::{Content, Kept, Table, WORD};
use edgelink_settings::config::AnalyticsConfig;

/// Number of the last inserts whose tokens a table keeps. The setting that applies depends on the engine, which the database may
/// choose (Replicated, Shared); these keep tokens for a week at most.
const DEDUPLICATED: [(&str, u32); 3] = [
    ("non_replicated_deduplication_window", 10_000),
    ("replicated_deduplication_window", 10_000),
    ("replicated_deduplication_window_seconds", 604_800),
];

/// Default index granularity, in rows.
const ROWS_OF_MARK: u32 = 8_192;

/// Settings that deduplicate inserts by their tokens.
fn deduplication() -> String {
    let settings = DEDUPLICATED.map(|(name, value)| format!("{name} = {value}"));
    settings.join(", ")
}

impl Table {
    pub(super) fn create_table(&self, settings: &AnalyticsConfig) -> String {
        let columns = self.columns().into_iter().map(|(name, kind)| {
            let kind = if kind == WORD {
                "LowCardinality(String)"
            } else {
                kind
            };
            format!("{name} {kind}")
        });
        let columns: Vec<String> = columns.collect();
        let engine = if self.content.is_rollup() {
            "SummingMergeTree"
        } else {
            "MergeTree"
        };
        let mut order: Vec<&str> = self.content.keys().iter().map(|(name, _)| *name).collect();
        let (slot, ..) = self.kept.slot();
        match (self.content, slot) {
            (_, "") => {}
            // The value comes after the time.
            (Content::Values | Content::LinkValues, slot) => order.insert(order.len() - 1, slot),
            (_, slot) => order.push(slot),
        }
        let mut sql = format!(
            "CREATE TABLE IF NOT EXISTS {} ({}) ENGINE = {engine} PARTITION BY {} ORDER BY ({})",
            self.name,
            columns.join(", "),
            self.partition(),
            order.join(", ")
        );
        let rows = self.rows_of_mark();
        if let Some(ttl) = self.ttl(settings) {
            sql.push_str(&format!(" TTL {ttl}"));
        }
        // Dropping whole parts costs nothing; parts of a year are rewritten, once a month.
        sql.push_str(if self.kept == Kept::Months {
            " SETTINGS merge_with_ttl_timeout = 2592000, "
        } else {
            " SETTINGS ttl_only_drop_parts = 1, "
        });
        sql.push_str(&format!("{}, ", deduplication()));
        if rows < ROWS_OF_MARK {
            // Granules are read without their neighbours; and each part is searched for each link, so the parts of a partition
            // are merged when they are some hours old.
            sql.push_str(
                "min_compress_block_size = 4096, min_age_to_force_merge_seconds = 21600, ",
            );
        }
        sql.push_str(&format!("index_granularity = {rows}"));
        sql
    }

    /// Statement that sets the deduplication window; `None` if `made`, its CREATE TABLE, has it, or if it has no rows of its own.
    pub(in super::super) fn set_deduplication(&self, made: &str) -> Option<String> {
        let knows = |(name, value)| made.contains(&format!(" {name} = {value}"));
        let is_right = !made.contains("MergeTree") || DEDUPLICATED.into_iter().all(knows);
        let set = format!(
            "ALTER TABLE {} MODIFY SETTING {}",
            self.name,
            deduplication()
        );
        (!is_right).then_some(set)
    }

    /// The partition key.
    fn partition(&self) -> &'static str {
        match self.kept {
            Kept::Raw => "toDate(at)",
            Kept::Minutes => "toDate(minute)",
            Kept::Hours => "toMonday(hour)",
            Kept::Days => "toYYYYMM(day)",
            Kept::Months => "toYear(month)",
            Kept::Totals => "tuple()",
        }
    }

    /// Index granularity in rows: small where rows of single links are read among those of all others, as for the links of a tag.
    fn rows_of_mark(&self) -> u32 {
        match (self.content, self.kept) {
            (Content::LinkValues, _) => 256,
            (Content::Links, Kept::Hours | Kept::Days | Kept::Months) => 64,
            _ => ROWS_OF_MARK,
        }
    }

    /// The TTL expression.
    pub(in super::super) fn ttl(&self, settings: &AnalyticsConfig) -> Option<String> {
        let days = self.kept.days(settings)?;
        let (slot, ..) = self.kept.slot();
        Some(format!("{slot} + toIntervalDay({days})"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TABLES;
    use super::*;

    #[test]
    fn table_when_of_any_engine_deduplicates_inserts() {
        let settings = AnalyticsConfig::default();
        for table in TABLES {
            let made = table.create_table(&settings);
            assert_eq!(table.set_deduplication(&made), None, "{made}");
            let before = made.replace("10000", "1000");
            let set = table.set_deduplication(&before).unwrap();
            for (name, value) in DEDUPLICATED {
                assert!(set.contains(&format!("{name} = {value}")), "{set}");
            }
            assert_eq!(table.set_deduplication("CREATE VIEW a AS SELECT 1"), None);
        }
    }
}
