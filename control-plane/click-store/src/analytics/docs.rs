//! Rollups as rows: `click_hours` and `click_days`.

use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, pieces, sized, sql};
use edgelink_model::counts::rollup::{MAX_SLOTS, Rollup, RollupBounds, RollupError, split};
use std::collections::{BTreeMap, HashMap};

/// The most bytes of a link's values in a rollup, whose sketch takes 16 KiB more: visitors choose some of them.
const LINK_BYTES: usize = 48 << 10;

/// The most bytes of the values of a domain or a tenant, in addition to the bound on their number.
const SUM_BYTES: usize = 8 << 20;

/// Kind of scope that a rollup counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DocKind {
    /// Clicks of a link.
    Link = 1,
    /// Clicks of the links that a tenant has on a domain.
    Domain = 2,
    /// Clicks of all links of a tenant.
    Tenant = 3,
}

impl DocKind {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Link, Self::Domain, Self::Tenant];

    /// The number in the column.
    pub(super) fn number(self) -> u64 {
        self as u64
    }

    /// Bounds of a rollup, with at most `values` values of an attribute.
    pub(super) fn bounds(self, values: usize) -> RollupBounds {
        let bytes = match self {
            Self::Link => LINK_BYTES,
            Self::Domain | Self::Tenant => SUM_BYTES,
        };
        RollupBounds { values, bytes }
    }

    /// Number of rollups read, changed and written together: 8 MiB of links, or a few larger ones. Most are much smaller.
    pub(super) fn part(self) -> usize {
        match self {
            Self::Link => 128,
            Self::Domain | Self::Tenant => 8,
        }
    }
}

/// Key of a rollup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocKey {
    /// Kind of the scope.
    pub kind: DocKind,
    /// The hour (unix time / 3600), or the day (unix time / 86400).
    pub time: u32,
    /// The link, `tenant << 32 | domain`, or the tenant.
    pub scope_id: u64,
}

/// A table of rollups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Docs {
    /// Its name.
    pub(super) table: &'static str,
    /// The column of the time.
    pub(super) time: &'static str,
    /// The index that has the rows of a scope together.
    pub(super) of_scope: &'static str,
    /// The index that has the rows of a time together.
    pub(super) by_time: &'static str,
    /// The slots of a rollup in it.
    pub(super) slots: usize,
}

/// Rollups of hours.
pub(super) const HOURS: Docs = Docs {
    table: "click_hours",
    time: "hour",
    of_scope: "click_hours_of_scope",
    by_time: "PRIMARY",
    slots: 1,
};

/// Rollups of days.
pub(super) const DAYS: Docs = Docs {
    table: "click_days",
    time: "day",
    of_scope: "PRIMARY",
    by_time: "click_days_by_day",
    slots: MAX_SLOTS,
};

/// The first part of a rollup; `None` if it is not split in two.
pub(super) type Head = Option<Vec<u8>>;

/// Joins the two parts of a rollup.
pub(super) fn whole(head: Head, values: Vec<u8>) -> Vec<u8> {
    let Some(mut bytes) = head else {
        return values;
    };
    bytes.extend_from_slice(&values);
    bytes
}

/// Rollups as they are stored.
pub(super) type Stored = HashMap<DocKey, Vec<u8>>;

impl Docs {
    /// Reads the rollups of these keys; missing ones are left out.
    pub(super) async fn read(
        &self,
        session: &mut Session,
        keys: impl Iterator<Item = DocKey>,
    ) -> Result<Stored, Fault> {
        let mut groups: BTreeMap<(DocKind, u32), Vec<u64>> = BTreeMap::new();
        for key in keys {
            let group = groups.entry((key.kind, key.time)).or_default();
            group.push(key.scope_id);
        }
        let Self { table, time, .. } = self;
        let index = session.dialect().force_index("PRIMARY");
        let select = format!(
            "SELECT scope_id, head, doc FROM {table}{index} WHERE kind = ? AND {time} = ? AND scope_id IN "
        );
        let mut stored = Stored::new();
        for ((kind, time), ids) in groups {
            for ids in ids.chunks(LONGEST) {
                let query = sql(select.clone()).bind(kind.number()).bind(time);
                let rows: Vec<(u64, Head, Vec<u8>)> = session.fetch_all(query.list(ids)).await?;
                stored.extend(rows.into_iter().map(|(scope_id, head, doc)| {
                    let key = DocKey {
                        kind,
                        time,
                        scope_id,
                    };
                    (key, whole(head, doc))
                }));
            }
        }
        Ok(stored)
    }

    /// Writes rollups, replacing existing ones.
    pub(super) async fn write(
        &self,
        session: &mut Session,
        docs: &[(DocKey, Vec<u8>)],
    ) -> Result<(), Fault> {
        let Self { table, time, .. } = self;
        let primary = format!("kind, {time}, scope_id");
        let columns = ["clicks", "bots", "head", "doc"];
        let update = session.dialect().overwrite(&primary, columns);
        for docs in sized(docs, |(_, doc)| doc.len()) {
            for docs in pieces(docs) {
                let mut rows = Vec::with_capacity(docs.len());
                for (key, doc) in docs {
                    let (sum, head, values) =
                        split(doc).map_err(|error| Fault::corrupt("clicks", &error))?;
                    rows.push([
                        key.kind.number().into(),
                        key.time.into(),
                        key.scope_id.into(),
                        sum.clicks.into(),
                        sum.bots.into(),
                        head.into(),
                        values.into(),
                    ]);
                }
                let insert = sql(format!(
                    "INSERT INTO {table} (kind, {time}, scope_id, clicks, bots, head, doc) "
                ))
                .rows(rows)
                .push(&update);
                session.execute(insert).await?;
            }
        }
        Ok(())
    }
}

/// Decodes a stored rollup. If its bytes are malformed, that is logged and counting starts with an empty one.
pub(super) fn decode(
    key: DocKey,
    stored: Option<&Vec<u8>>,
    slots: usize,
) -> Result<Rollup<'_>, Fault> {
    let Some(bytes) = stored else {
        return Ok(Rollup::new(slots));
    };
    match Rollup::decode(bytes) {
        Ok(rollup) if rollup.slots.len() == slots => Ok(rollup),
        Err(error @ RollupError::Version(_)) => Err(Fault::corrupt("clicks", &error)),
        Ok(_) => Ok(start_again(key, &"wrong number of slots", slots)),
        Err(error) => Ok(start_again(key, &error, slots)),
    }
}

fn start_again(key: DocKey, error: &dyn std::fmt::Display, slots: usize) -> Rollup<'static> {
    tracing::error!(?key, %error, "stored clicks are malformed; counting restarts from zero");
    Rollup::new(slots)
}
