//! The tables and views in ClickHouse.
//!
//! `clicks` and `orphans` hold the raw rows. Materialized views roll clicks up by hour: by link (`link_hours`), by domain
//! (`domain_hours`), and by domain and attribute value (`value_hours`), and these by day; the first two by minute as well. Clicks by
//! link and attribute value are rolled up once a day is complete (`link_value_days`), and the days of links once a month is
//! (`link_months`, `link_value_months`): see [`super::days`].

mod layout;

use edgelink_model::counts::Attribute;
use edgelink_settings::config::AnalyticsConfig;

/// The oldest version that is supported, major and minor: views of it pass deduplication tokens on.
pub(super) const OLDEST_VERSION: (u32, u32) = (24, 8);

/// Returns major and minor of the result of `SELECT version()`; `None` if it is no version.
pub(super) fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Granularity of a table's rows, which determines their retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Single clicks, by their column `at`.
    Raw,
    /// Minutes, by `minute`.
    Minutes,
    /// Hours, by `hour`.
    Hours,
    /// Days, by `day`.
    Days,
    /// Months, by their first day, `month`.
    Months,
    /// Totals, kept forever.
    Totals,
}

impl Kept {
    /// Retention in days; a month is kept as long as its last day.
    pub(super) fn days(self, settings: &AnalyticsConfig) -> Option<u64> {
        match self {
            Self::Raw => Some(settings.raw_days),
            Self::Minutes => Some(settings.minutes_days),
            Self::Hours => Some(settings.hours_days),
            Self::Days => Some(settings.days),
            Self::Months => Some(settings.days + LONGEST_MONTH),
            Self::Totals => None,
        }
    }

    /// The time column: its name, its type, and its expression in the source.
    fn slot(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Raw => ("at", "DateTime('UTC')", "at"),
            Self::Minutes => ("minute", "DateTime('UTC')", "toStartOfMinute(at)"),
            Self::Hours => ("hour", "DateTime('UTC')", "toStartOfHour(at)"),
            Self::Days => ("day", "Date", "toDate(hour)"),
            Self::Months => ("month", "Date", "toStartOfMonth(day)"),
            Self::Totals => ("", "", ""),
        }
    }

    /// Condition that selects the rows of a day (unix time / 86400), or of its month.
    pub(super) fn on_day(self, day: u64) -> String {
        match self {
            Self::Months => format!("WHERE month = toStartOfMonth(toDate({day}))"),
            _ => {
                let (slot, ..) = self.slot();
                format!("WHERE toDate({slot}) = toDate({day})")
            }
        }
    }
}

/// Most days of a month.
const LONGEST_MONTH: u64 = 31;

/// Content of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Clicks; a row without attributes may stand for several of a link.
    Clicks,
    /// Orphan visits.
    Orphans,
    /// Clicks and visitors by link.
    Links,
    /// Clicks and visitors by domain.
    Domains,
    /// Clicks by domain and attribute value.
    Values,
    /// Clicks by link and attribute value.
    LinkValues,
    /// Total clicks by link.
    LinkTotals,
    /// The days that are rolled up.
    Built,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) content: Content,
    pub(super) kept: Kept,
    /// The table from which a view fills this one; `None` if it is written directly.
    pub(super) source: Option<&'static str>,
}

const fn table(
    name: &'static str,
    content: Content,
    kept: Kept,
    source: Option<&'static str>,
) -> Table {
    Table {
        name,
        content,
        kept,
        source,
    }
}

/// All tables, each after the one that fills it.
pub(super) const TABLES: [Table; 15] = [
    table("clicks", Content::Clicks, Kept::Raw, None),
    table("orphans", Content::Orphans, Kept::Raw, None),
    table(
        "link_minutes",
        Content::Links,
        Kept::Minutes,
        Some("clicks"),
    ),
    table(
        "domain_minutes",
        Content::Domains,
        Kept::Minutes,
        Some("clicks"),
    ),
    table("link_hours", Content::Links, Kept::Hours, Some("clicks")),
    table(
        "domain_hours",
        Content::Domains,
        Kept::Hours,
        Some("clicks"),
    ),
    table("value_hours", Content::Values, Kept::Hours, Some("clicks")),
    table("link_days", Content::Links, Kept::Days, Some("link_hours")),
    table(
        "domain_days",
        Content::Domains,
        Kept::Days,
        Some("domain_hours"),
    ),
    table(
        "value_days",
        Content::Values,
        Kept::Days,
        Some("value_hours"),
    ),
    table(
        "link_value_days",
        Content::LinkValues,
        Kept::Days,
        Some("clicks"),
    ),
    table(
        "link_months",
        Content::Links,
        Kept::Months,
        Some("link_days"),
    ),
    table(
        "link_value_months",
        Content::LinkValues,
        Kept::Months,
        Some("link_value_days"),
    ),
    table("built_days", Content::Built, Kept::Days, None),
    table(
        "link_totals",
        Content::LinkTotals,
        Kept::Totals,
        Some("link_hours"),
    ),
];

/// Type of texts with few distinct values.
const WORD: &str = "word";

/// Type of visitor sketches: 2^14 registers, a standard error of 0.8 %.
const SKETCH: &str = "AggregateFunction(uniqCombined(14), UInt64)";

/// Columns of clicks and orphan visits beside the sorting key: see [`super::rows::ClickHouseRow`].
const RAW: [(&str, &str); 26] = [
    ("number", "UInt64"),
    ("clicks", "UInt64"),
    ("bots", "UInt64"),
    ("domain_id", "UInt32"),
    ("key", "String"),
    ("kind", "UInt8"),
    ("tags", "Array(String)"),
    ("id", "String"),
    ("status", "UInt16"),
    ("rule", "UInt8"),
    ("country", WORD),
    ("city", WORD),
    ("user_agent", "String"),
    ("device", WORD),
    ("browser", WORD),
    ("os", WORD),
    ("is_bot", "UInt8"),
    ("referrer", WORD),
    ("language", WORD),
    ("utm_source", WORD),
    ("utm_medium", WORD),
    ("utm_campaign", WORD),
    ("utm_term", WORD),
    ("utm_content", WORD),
    ("visitor", "UInt64"),
    ("is_visitor", "UInt8"),
];

impl Content {
    /// Sorting key, without the time.
    fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Clicks | Self::Orphans => &[("tenant_id", "UInt32"), ("link_id", "UInt64")],
            Self::Links => &[
                ("link_id", "UInt64"),
                ("tenant_id", "UInt32"),
                ("domain_id", "UInt32"),
                ("key", "String"),
            ],
            Self::Domains => &[("tenant_id", "UInt32"), ("domain_id", "UInt32")],
            Self::Values => &[
                ("tenant_id", "UInt32"),
                ("attribute", "UInt8"),
                ("domain_id", "UInt32"),
                ("value", "String"),
            ],
            // Queries read one attribute of many links.
            Self::LinkValues => &[
                ("tenant_id", "UInt32"),
                ("attribute", "UInt8"),
                ("link_id", "UInt64"),
                ("value", "String"),
            ],
            Self::LinkTotals => &[("link_id", "UInt64")],
            Self::Built => &[],
        }
    }

    /// Columns beside sorting key and time.
    fn figures(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Clicks | Self::Orphans => &RAW,
            Self::Links | Self::Domains => &[
                ("clicks", "UInt64"),
                ("bots", "UInt64"),
                ("visitors", SKETCH),
            ],
            Self::Values | Self::LinkValues | Self::LinkTotals => {
                &[("clicks", "UInt64"), ("bots", "UInt64")]
            }
            Self::Built => &[],
        }
    }

    /// True for raw rows.
    fn is_raw(self) -> bool {
        matches!(self, Self::Clicks | Self::Orphans)
    }

    fn is_rollup(self) -> bool {
        !self.is_raw() && self != Self::Built
    }
}

impl Table {
    /// All columns with their types.
    pub(super) fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let mut columns = self.content.keys().to_vec();
        let (slot, slot_type, _) = self.kept.slot();
        columns.push((slot, slot_type));
        columns.extend(self.content.figures());
        columns.retain(|(name, _)| !name.is_empty());
        columns
    }

    /// True if it is filled with complete days or months.
    pub(super) fn is_filled_late(&self) -> bool {
        self.content == Content::LinkValues || self.kept == Kept::Months
    }

    /// True if a view fills it as rows arrive.
    fn has_view(&self) -> bool {
        self.source.is_some() && !self.is_filled_late() && !self.is_written()
    }

    /// True if it is written directly although it has a source: its view would take most of the server's time.
    fn is_written(&self) -> bool {
        self.content == Content::Values && self.kept == Kept::Hours
    }

    /// True if it has rows by link, which are deleted with the link's clicks.
    pub(super) fn is_of_links(&self) -> bool {
        matches!(
            self.content,
            Content::Clicks | Content::Links | Content::LinkValues | Content::LinkTotals
        )
    }

    /// The statements that create it: the table, and the view that fills it, if it has one.
    pub(super) fn creation(&self, settings: &AnalyticsConfig) -> (String, Option<String>) {
        let name = self.name;
        let view = if self.is_written() {
            // Earlier versions had one.
            Some(format!("DROP TABLE IF EXISTS {name}_view"))
        } else {
            let select = self.select("").filter(|_| self.has_view());
            select.map(|select| {
                format!("CREATE MATERIALIZED VIEW IF NOT EXISTS {name}_view TO {name} AS {select}")
            })
        };
        (self.create_table(settings), view)
    }

    /// The statements, in order, that fill it with a day (unix time / 86400), or with the month of that day.
    pub(super) fn fill(&self, day: u64) -> Vec<String> {
        let columns: Vec<&str> = self.columns().into_iter().map(|(name, _)| name).collect();
        let insert = format!("INSERT INTO {} ({})", self.name, columns.join(", "));
        let condition = match self.kept {
            Kept::Months => format!("WHERE toStartOfMonth(day) = toStartOfMonth(toDate({day}))"),
            _ => Kept::Hours.on_day(day),
        };
        // Link and domain follow from the rows of links.
        let by_value = |by: &Attribute| !matches!(by, Attribute::Link | Attribute::Domain);
        let attributes = Attribute::ALL.into_iter().filter(by_value);
        let selects: Vec<String> = match (self.content, self.kept) {
            (Content::LinkValues, Kept::Days) => attributes.map(|by| of_link(by, day)).collect(),
            // All attributes at once would take too much memory.
            (Content::LinkValues, _) => {
                let of = |by| with(&condition, &format!("attribute = {}", by as u8));
                attributes.filter_map(|by| self.select(&of(by))).collect()
            }
            _ => self.select(&condition).into_iter().collect(),
        };
        let statement = |select: &String| format!("{insert} {select}");
        selects.iter().map(statement).collect()
    }

    /// The query that fills the table from its source, for the rows that meet `condition` (`WHERE ...`, or empty); `None` if it is
    /// written directly.
    pub(super) fn select(&self, condition: &str) -> Option<String> {
        let source = self.source?;
        let keys: Vec<&str> = self.content.keys().iter().map(|(name, _)| *name).collect();
        let mut keys = keys.join(", ");
        let (slot, _, of_source) = self.kept.slot();
        let mut columns = keys.clone();
        if !slot.is_empty() {
            columns.push_str(&format!(", {of_source} AS {slot}"));
            keys.push_str(&format!(", {slot}"));
        }
        columns.push_str(", sum(clicks) AS clicks, sum(bots) AS bots");
        let visitors = match (self.content, self.kept) {
            (Content::Links | Content::Domains, Kept::Minutes | Kept::Hours) => {
                ", uniqCombinedStateIf(14)(visitor, is_visitor) AS visitors"
            }
            (Content::Links | Content::Domains, _) => {
                ", uniqCombinedMergeState(14)(visitors) AS visitors"
            }
            _ => "",
        };
        let rows = match (self.content, self.kept) {
            (Content::Values, Kept::Hours) => values(condition),
            // Clicks without a link have no tenant.
            (Content::Links, Kept::Minutes | Kept::Hours) => with(condition, "tenant_id > 0"),
            _ => condition.to_owned(),
        };
        Some(format!(
            "SELECT {columns}{visitors} FROM {source} {rows} GROUP BY {keys}"
        ))
    }
}

/// Query for the clicks of a day by link and value of an attribute.
fn of_link(by: Attribute, day: u64) -> String {
    // Clicks without tags get a row, because a click may have several tags.
    let condition = match by {
        Attribute::Tag => "",
        _ => "WHERE value != ''",
    };
    format!(
        "SELECT tenant_id, toUInt8({}) AS attribute, link_id, value, day, sum(clicks) AS clicks, sum(bots) AS bots \
         FROM (SELECT tenant_id, link_id, toString({}) AS value, toDate(at) AS day, clicks, bots FROM clicks {} AND tenant_id > 0) \
         {condition} GROUP BY tenant_id, link_id, value, day",
        by as u8,
        value_of(by),
        Kept::Raw.on_day(day),
    )
}

/// Size of the number range of an insert's clicks.
pub(super) const NUMBERS_OF_INSERT: u64 = 1 << 28;

/// All attributes except the tag, of which a click may have several, and the link, which has its own tables.
fn single() -> impl Iterator<Item = Attribute> {
    let all = Attribute::ALL.into_iter();
    all.filter(|by| !matches!(by, Attribute::Tag | Attribute::Link))
}

/// Query that multiplies clicks by their attributes. Clicks without a value get no row: they are the remainder. Clicks without tags
/// do, because a click may have several tags.
fn values(condition: &str) -> String {
    let tag = Attribute::Tag as u8;
    let names: Vec<String> = single().map(|one| (one as u8).to_string()).collect();
    let values = single().map(|one| format!("toString({})", value_of(one)));
    let values: Vec<String> = values.collect();
    let tags = "if(empty(tags), [''], tags)";
    let condition = with(condition, &format!("(value != '' OR attribute = {tag})"));
    format!(
        "ARRAY JOIN arrayConcat([{}], arrayMap(tag -> {tag}, {tags})) AS attribute, \
         arrayConcat([{}], {tags}) AS value {condition}",
        names.join(", "),
        values.join(", ")
    )
}

/// Joins a condition, which may be empty, and another one with AND.
fn with(condition: &str, other: &str) -> String {
    match condition {
        "" => format!("WHERE {other}"),
        condition => format!("{condition} AND {other}"),
    }
}

/// Expression of an attribute's value in `clicks`.
pub(super) const fn value_of(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::Country => "country",
        Attribute::City => "city",
        Attribute::Device => "device",
        Attribute::Browser => "browser",
        Attribute::Os => "os",
        Attribute::Referrer => "referrer",
        Attribute::Language => "language",
        Attribute::UtmSource => "utm_source",
        Attribute::UtmMedium => "utm_medium",
        Attribute::UtmCampaign => "utm_campaign",
        Attribute::UtmTerm => "utm_term",
        Attribute::UtmContent => "utm_content",
        Attribute::Rule => "if(rule = 0, '', toString(rule))",
        Attribute::Status => "if(status = 0, '', toString(status))",
        Attribute::Link => "key",
        Attribute::Tag => "arrayJoin(if(empty(tags), [''], tags))",
        Attribute::Domain => "substring(key, 1, position(key, '/') - 1)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_when_it_is_read_has_a_major_and_a_minor() {
        for (version, expected) in [
            ("24.7.9.1", Some((24, 7))),
            ("24.8.1.1", Some(OLDEST_VERSION)),
            ("26.9.2.1", Some((26, 9))),
            ("26", None),
            ("<html>", None),
        ] {
            assert_eq!(parse_version(version), expected, "{version}");
        }
    }

    #[test]
    fn table_when_filled_by_another_follows_it() {
        for (place, table) in TABLES.iter().enumerate() {
            let before = &TABLES[..place];
            let source = table.source;
            assert!(
                source.is_none_or(|source| before.iter().any(|other| other.name == source)),
                "{}",
                table.name
            );
        }
    }
}
