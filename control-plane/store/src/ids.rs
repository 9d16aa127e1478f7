//! Ids of tenants, users, domains and webhooks. None is assigned twice, even by a database that went back: clicks in ClickHouse,
//! caches, and people's notes refer to them.

use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::tenancy::FIRST_TENANT;

/// Least number of ids skipped in each table after the database went back: more than were assigned since any backup. Half
/// of the remaining ones, if that is less.
pub const IDS_SKIPPED: u64 = 1_000_000;

/// The beginning of 2026, in unix microseconds. Ids after a repair exceed the number of [`TIME_OF_AN_ID`] intervals since then, so
/// they differ from ids after an earlier repair, even if a copy from before that repair is restored. Ids are repeated only if they
/// were assigned faster than that between two repairs, and the second one is of a copy from before the first.
const EPOCH: u64 = 1_767_225_600_000_000;

/// An eighth of a second, in microseconds: 32 bits last for 17 years.
const TIME_OF_AN_ID: u64 = 125_000;

/// A table with ascending ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdTable {
    Tenants,
    Users,
    Domains,
    Webhooks,
}

impl IdTable {
    const ALL: [Self; 4] = [Self::Tenants, Self::Users, Self::Domains, Self::Webhooks];

    fn name(self) -> &'static str {
        match self {
            Self::Tenants => "tenants",
            Self::Users => "users",
            Self::Domains => "domains",
            Self::Webhooks => "webhooks",
        }
    }

    /// The greatest id that its readers accept: ids of tenants and domains have 32 bits in reports and in ClickHouse.
    fn greatest(self) -> u64 {
        match self {
            Self::Tenants | Self::Domains => u32::MAX.into(),
            Self::Users | Self::Webhooks => i64::MAX.cast_unsigned(),
        }
    }

    /// The columns without defaults, with values for a row that no other transaction sees.
    fn placeholder(self) -> (&'static str, String) {
        // Neither a valid name of an account, nor a domain.
        const NAME: &str = "X'00'";
        match self {
            Self::Tenants => ("name, created_at", format!("{}, 0", text(NAME))),
            Self::Users => (
                "tenant_id, name, role, created_at, updated_at",
                format!("{FIRST_TENANT}, {}, 'reader', 0, 0", text(NAME)),
            ),
            Self::Domains => ("name", text(NAME)),
            Self::Webhooks => (
                "tenant_id, url, events, secret, state, created_at, updated_at",
                format!("{FIRST_TENANT}, '', 0, {NAME}, 'paused', 0, 0"),
            ),
        }
    }
}

/// Bytes as text, in both dialects.
fn text(literal: &str) -> String {
    format!("CAST({literal} AS CHAR)")
}

/// The expression for the id of a new row. Fails while the database is known to have gone back behind the publisher's `token` without
/// being repaired: ids assigned before would be assigned again.
pub(super) async fn next_id(
    session: &mut Session,
    table: IdTable,
    token: u64,
) -> Result<String, Fault> {
    let query = sql("SELECT token FROM publisher WHERE id = 1");
    let (stored,): (u64,) = session.fetch_one(query).await?;
    if stored < token {
        return Err(Fault::WentBack);
    }
    Ok(session.dialect().next_id(table.name(), &floor(table)))
}

/// The row of `counters` with the greatest id that must not be assigned again, for databases that do not remember it themselves.
fn floor(table: IdTable) -> String {
    format!("ids of {}", table.name())
}

/// Skips ids in every table, as part of a transaction that repairs the database. `generation` is in unix microseconds. Returns the
/// least number skipped in any table.
pub(super) async fn skip_ids(session: &mut Session, generation: u64) -> Result<u64, Fault> {
    let since = generation.saturating_sub(EPOCH) / TIME_OF_AN_ID;
    let mut least = u64::MAX;
    for table in IdTable::ALL {
        least = least.min(skip(session, table, since).await?);
    }
    Ok(least)
}

/// Inserts a row with a greater id, and removes it: that id and lower ones are not assigned any more. ALTER TABLE would end the
/// transaction.
async fn skip(session: &mut Session, table: IdTable, since: u64) -> Result<u64, Fault> {
    let dialect = session.dialect();
    let next = dialect.next_id(table.name(), &floor(table));
    put(session, table, &next).await?;
    let query = sql(format!("SELECT {} AS id", dialect.last_id));
    let (next,): (u64,) = session.fetch_one(query).await?;
    remove(session, table, next).await?;
    let left = table.greatest().saturating_sub(next);
    let by_number = next.saturating_add(IDS_SKIPPED.min(left / 2));
    // Towards the end of the ids the time is no longer usable.
    let by_time = since.saturating_add(IDS_SKIPPED);
    let by_time = by_time.min(table.greatest().saturating_sub(2 * IDS_SKIPPED));
    let last = by_number.max(by_time);
    put(session, table, &last.to_string()).await?;
    remove(session, table, last).await?;
    if !dialect.keeps_ids() {
        let update = dialect.overwrite("name", ["value"]);
        let note = sql("INSERT INTO counters (name, value) VALUES (?, ?)").push(&update);
        let floor = floor(table);
        session
            .execute(note.bind(floor.as_str()).bind(last))
            .await?;
    }
    Ok(last.saturating_sub(next))
}

async fn put(session: &mut Session, table: IdTable, id: &str) -> Result<(), Fault> {
    let (columns, values) = table.placeholder();
    let name = table.name();
    let put = sql(format!(
        "INSERT INTO {name} (id, {columns}) VALUES ({id}, {values})"
    ));
    session.execute(put).await.map(drop)
}

async fn remove(session: &mut Session, table: IdTable, id: u64) -> Result<(), Fault> {
    let name = table.name();
    let remove = sql(format!("DELETE FROM {name} WHERE id = ?")).bind(id);
    session.execute(remove).await.map(drop)
}
