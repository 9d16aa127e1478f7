//! Statements in the dialect that MySQL and MariaDB share.

use super::relay::now;
use super::text;
use crate::model::Link;
use crate::store::sql::fault::{Fault, Remedy};
use crate::store::sql::relay::Announcements;
use crate::store::sql::revisions::Revisions;
use crate::store::sql::rows::{
    FoundRow, KeyRow, LinkRow, NewRow, TakenRow, Unsigned, content_hash, tags_to_text, url_hash,
};
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use crate::store::sql::statements::{ListRange, Statements};
use crate::store::sql::{insert_links, link_columns, select_links};
use crate::store::{ApiKeyRow, BOUND_LEAD_MS, MAX_LEASE_MS, Segment};
use edgelink_wire::{Code, Domain, LinkKey, LinkState};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, FromRow, MySql, QueryBuilder, query, query_as, query_scalar, raw_sql};

/// The database's clock: unix time in microseconds.
macro_rules! now_micros {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)"
    };
}

/// The list of links: of all or of a domain, in one range of the index.
///
/// In this order and by this index, as in `scan_keys`: the optimizer may prefer to begin with the domains, and to sort all
/// links for every page.
macro_rules! list_links {
    (all, $range:ident) => {
        list_links!(@ "FROM links l FORCE INDEX (links_live) STRAIGHT_JOIN domains d ON d.id = l.domain_id WHERE ", $range)
    };
    (domain, $range:ident) => {
        list_links!(@ "FROM links l FORCE INDEX (links_live_on_domain) STRAIGHT_JOIN domains d ON d.id = l.domain_id \
             WHERE l.domain_id = (SELECT id FROM domains WHERE name = ?) AND ", $range)
    };
    (@ $from:literal, at) => {
        list_links!(@@ $from, "l.created_at = ? AND l.id < ?")
    };
    (@ $from:literal, before) => {
        list_links!(@@ $from, "l.created_at < ?")
    };
    (@@ $from:literal, $range:literal) => {
        concat!(
            "SELECT ",
            link_columns!(),
            " ",
            $from,
            "l.deleted_at IS NULL AND ",
            $range,
            " ORDER BY l.created_at DESC, l.id DESC LIMIT ?"
        )
    };
}

/// What the next revisions follow from.
pub(super) const SELECT_REVISIONS: &str = concat!(
    "SELECT rev_floor, ",
    now_micros!(),
    " AS now_micros FROM publisher WHERE id = 1"
);

/// What to do about an error of MySQL or MariaDB.
pub(super) fn remedy(fault: &Fault) -> Remedy {
    match fault {
        Fault::Sql(error) => Remedy::of_driver(error).unwrap_or_else(|| remedy_of_number(error)),
        Fault::TimedOut(_) | Fault::Contended => Remedy::Later,
        Fault::Corrupt(_) => Remedy::GiveUp,
    }
}

fn remedy_of_number(error: &sqlx::Error) -> Remedy {
    let Some(error) = error.as_database_error() else {
        return Remedy::GiveUp;
    };
    if error.is_unique_violation() {
        return Remedy::Duplicate;
    }
    let number = error
        .try_downcast_ref::<MySqlDatabaseError>()
        .map_or(0, MySqlDatabaseError::number);
    match number {
        // An error during COMMIT, which leaves open what has become of it.
        1180 => Remedy::Later,
        // Lock wait timeout, deadlock, and MariaDB's "record has changed since last read".
        1205 | 1213 | 1020 => Remedy::Repeat,
        // Too many connections (of the server, of the user), host blocked, shutdown, connection killed (also MariaDB's
        // 1927), network errors, and a statement that was interrupted (by hand, by MariaDB's or MySQL's own bound).
        1040 | 1203 | 1226 | 1129 | 1053 | 1927 | 1158..=1161 | 1317 | 1969 | 3024 => Remedy::Later,
        // A primary that has become a replica (--read-only, read-only transaction, read-only mode), a cluster node that
        // is not ready, a server that is in offline mode or restarting.
        1290 | 1792 | 1836 | 1047 | 3032 | 3168 => Remedy::Later,
        _ => Remedy::GiveUp,
    }
}

impl Statements for Session<MySql> {
    fn remedy(fault: &Fault) -> Remedy {
        remedy(fault)
    }

    async fn begin(&mut self) -> Result<(), Fault> {
        self.run(|c| raw_sql("START TRANSACTION").execute(c))
            .await?;
        Ok(())
    }

    async fn begin_with(
        &mut self,
        rows: &[&NewRow],
        rev: u64,
        changes: &Announcements,
        now: u64,
    ) -> Result<Revisions, Fault> {
        let text = text::creation(rows, rev, changes, now);
        self.run(|c| async {
            let row = raw_sql(AssertSqlSafe(text)).fetch_one(c).await?;
            Revisions::from_row(&row)
        })
        .await
    }

    async fn revisions(&mut self) -> Result<Revisions, Fault> {
        let query = query_as(SELECT_REVISIONS);
        self.run(|c| query.fetch_one(c)).await
    }

    async fn raise_floor(&mut self, rev: u64) -> Result<(), Fault> {
        let query =
            query("UPDATE publisher SET rev_floor = GREATEST(rev_floor, ?) WHERE id = 1").bind(rev);
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn commit(&mut self, rows: usize) -> Result<(), Fault> {
        self.allow_for(rows);
        self.about_to_last();
        self.run(|c| raw_sql("COMMIT").execute(c)).await?;
        Ok(())
    }

    async fn rollback(&mut self) -> Result<(), Fault> {
        self.run(|c| raw_sql("ROLLBACK").execute(c)).await?;
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Fault> {
        self.run(|c| query("SELECT 1").execute(c)).await?;
        Ok(())
    }

    async fn find_domain(&mut self, domain: &Domain) -> Result<Option<u32>, Fault> {
        let query =
            query_scalar("SELECT id FROM domains WHERE name = ?").bind(domain.as_str().as_bytes());
        self.run(|c| query.fetch_optional(c)).await
    }

    async fn insert_domain(&mut self, domain: &Domain) -> Result<(), Fault> {
        let query = query("INSERT INTO domains (name) VALUES (?)").bind(domain.as_str().as_bytes());
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn insert_links(&mut self, rows: &[&NewRow], rev: u64) -> Result<(), Fault> {
        let mut insert = QueryBuilder::<MySql>::new(insert_links!());
        insert.push_values(rows, |mut values, row| {
            let content = &row.link.content;
            values
                .push_bind(row.link.id)
                .push_bind(row.domain_id)
                .push_bind(row.link.code.as_str().as_bytes())
                .push_bind(content.target.as_str().as_bytes())
                .push_bind(row.url_hash)
                .push_bind(row.content_hash)
                .push_bind(content.redirect.code())
                .push_bind(content.state == LinkState::Disabled)
                .push_bind(content.valid_since)
                .push_bind(content.valid_until)
                .push_bind(content.forward_query)
                .push_bind(content.title.as_deref())
                .push_bind(row.tags.as_str())
                .push_bind(row.link.created_at)
                .push_bind(row.link.updated_at)
                .push_bind(rev);
        });
        let query = insert.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn find_taken(
        &mut self,
        domain_id: u32,
        codes: &[&Code],
    ) -> Result<Vec<TakenRow>, Fault> {
        let mut select = QueryBuilder::<MySql>::new(
            "SELECT id, code, rev, deleted_at FROM links WHERE domain_id = ",
        );
        select.push_bind(domain_id).push(" AND code IN (");
        let mut list = select.separated(", ");
        for code in padded(codes) {
            list.push_bind(code.as_str().as_bytes());
        }
        select.push(")");
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    async fn taken_numbers(&mut self, ids: &[u64]) -> Result<Vec<u64>, Fault> {
        let mut select = QueryBuilder::<MySql>::new("SELECT id FROM links WHERE id IN (");
        let mut list = select.separated(", ");
        for id in padded(ids) {
            list.push_bind(*id);
        }
        select.push(")");
        let query = select.build_query_scalar();
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn revive(
        &mut self,
        tombstone: &TakenRow,
        row: &NewRow,
        rev: u64,
    ) -> Result<bool, Fault> {
        let content = &row.link.content;
        let query = query(
            "UPDATE links SET id = ?, url = ?, url_hash = ?, content_hash = ?, redirect = ?, disabled = ?, valid_since = ?, \
             valid_until = ?, forward_query = ?, title = ?, tags = ?, created_at = ?, updated_at = ?, \
             deleted_at = NULL, rev = ? WHERE id = ? AND rev = ? AND deleted_at IS NOT NULL",
        )
        .bind(row.link.id)
        .bind(content.target.as_str().as_bytes())
        .bind(row.url_hash)
        .bind(row.content_hash)
        .bind(content.redirect.code())
        .bind(content.state == LinkState::Disabled)
        .bind(content.valid_since)
        .bind(content.valid_until)
        .bind(content.forward_query)
        .bind(content.title.as_deref())
        .bind(row.tags.as_str())
        .bind(row.link.created_at)
        .bind(row.link.updated_at)
        .bind(rev)
        .bind(tombstone.id.0)
        .bind(tombstone.rev.0);
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn find_link(&mut self, key: &LinkKey) -> Result<Option<LinkRow>, Fault> {
        let query = query_as(select_links!("WHERE d.name = ? AND l.code = ?"))
            .bind(key.domain.as_str().as_bytes())
            .bind(key.code.as_str().as_bytes());
        self.run(|c| query.fetch_optional(c)).await
    }

    async fn look_up(&mut self, key: &LinkKey) -> Result<FoundRow, Fault> {
        let query = query_as(concat!(
            "SELECT p.rev_floor, ",
            now_micros!(),
            " AS now_micros, ",
            link_columns!(),
            " FROM publisher p LEFT JOIN domains d ON d.name = ? \
             LEFT JOIN links l ON l.domain_id = d.id AND l.code = ? WHERE p.id = 1"
        ))
        .bind(key.domain.as_str().as_bytes())
        .bind(key.code.as_str().as_bytes());
        self.run(|c| query.fetch_one(c)).await
    }

    async fn lock_link(&mut self, key: &LinkKey) -> Result<bool, Fault> {
        let query = query_scalar(
            "SELECT id FROM links WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code = ? \
             AND deleted_at IS NULL FOR UPDATE",
        )
        .bind(key.domain.as_str().as_bytes())
        .bind(key.code.as_str().as_bytes());
        let id: Option<Unsigned> = self.run(|c| query.fetch_optional(c)).await?;
        Ok(id.is_some())
    }

    async fn update_link(&mut self, link: &Link) -> Result<(), Fault> {
        let content = &link.content;
        let query = query(
            "UPDATE links SET url = ?, url_hash = ?, content_hash = ?, redirect = ?, disabled = ?, valid_since = ?, valid_until = ?, \
             forward_query = ?, title = ?, tags = ?, updated_at = ?, rev = ? WHERE id = ?",
        )
        .bind(content.target.as_str().as_bytes())
        .bind(url_hash(&content.target))
        .bind(content_hash(&link.domain, content))
        .bind(content.redirect.code())
        .bind(content.state == LinkState::Disabled)
        .bind(content.valid_since)
        .bind(content.valid_until)
        .bind(content.forward_query)
        .bind(content.title.as_deref())
        .bind(tags_to_text(&content.tags))
        .bind(link.updated_at)
        .bind(link.rev)
        .bind(link.id);
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn delete_link(&mut self, id: u64, rev: u64, now: u64) -> Result<(), Fault> {
        // Without the time, the row leaves the index of those that are to be swept.
        let query = query(
            "UPDATE links SET deleted_at = ?, updated_at = ?, valid_until = NULL, rev = ? WHERE id = ?",
        )
        .bind(now)
        .bind(now)
        .bind(rev)
        .bind(id);
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn list_links(
        &mut self,
        domain: Option<&Domain>,
        range: ListRange,
        limit: u32,
    ) -> Result<Vec<LinkRow>, Fault> {
        let query = match (domain, range) {
            (None, ListRange::At { .. }) => query_as(list_links!(all, at)),
            (None, ListRange::Before(_)) => query_as(list_links!(all, before)),
            (Some(_), ListRange::At { .. }) => query_as(list_links!(domain, at)),
            (Some(_), ListRange::Before(_)) => query_as(list_links!(domain, before)),
        };
        let query = match domain {
            None => query,
            Some(domain) => query.bind(domain.as_str().as_bytes()),
        };
        let query = match range {
            ListRange::At { created_at, below } => query.bind(created_at).bind(below),
            ListRange::Before(created_at) => query.bind(created_at),
        };
        let query = query.bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn draw(&mut self, issuer: u16, step: u32, token: u64) -> Result<Option<Segment>, Fault> {
        let query = query(
            "UPDATE issuers SET next = LAST_INSERT_ID(next + ?) WHERE issuer = ? AND (next + ?) * 1000 <= \
             (SELECT MAX(bound) FROM bounds \
             WHERE published_at + ? <= CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)) \
             AND (SELECT token FROM publisher WHERE id = 1) >= ?",
        )
        .bind(step)
        .bind(issuer)
        .bind(step)
        .bind(BOUND_LEAD_MS)
        .bind(token);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        let end = done.last_insert_id();
        Ok((done.rows_affected() > 0).then(|| Segment {
            issuer,
            start: end - u64::from(step),
            end,
        }))
    }

    async fn give_back(&mut self, rest: Segment, token: u64) -> Result<bool, Fault> {
        let query = query(
            "UPDATE issuers SET next = ? WHERE issuer = ? AND next = ? \
             AND (SELECT token FROM publisher WHERE id = 1) >= ?",
        )
        .bind(rest.start)
        .bind(rest.issuer)
        .bind(rest.end)
        .bind(token);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn insert_api_key(&mut self, key: &ApiKeyRow) -> Result<(), Fault> {
        let query =
            query("INSERT INTO api_keys (id, name, secret_hash, created_at) VALUES (?, ?, ?, ?)")
                .bind(key.id.as_bytes())
                .bind(&key.name)
                .bind(key.secret_hash.as_slice())
                .bind(key.created_at);
        self.about_to_last();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn find_api_key(&mut self, id: &str) -> Result<Option<KeyRow>, Fault> {
        let query = query_as("SELECT id, name, secret_hash, created_at FROM api_keys WHERE id = ?")
            .bind(id.as_bytes());
        self.run(|c| query.fetch_optional(c)).await
    }

    async fn has_api_keys(&mut self) -> Result<bool, Fault> {
        let query = query_scalar("SELECT EXISTS (SELECT 1 FROM api_keys)");
        self.run(|c| query.fetch_one(c)).await
    }

    async fn list_api_keys(&mut self) -> Result<Vec<KeyRow>, Fault> {
        let query = query_as(
            "SELECT id, name, secret_hash, created_at FROM api_keys ORDER BY created_at, id",
        );
        self.run(|c| query.fetch_all(c)).await
    }

    async fn delete_api_key(&mut self, id: &str) -> Result<bool, Fault> {
        let query = query("DELETE FROM api_keys WHERE id = ?").bind(id.as_bytes());
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn migrate(&mut self) -> Result<(), Fault> {
        let connection = self.unbounded();
        // The migrator's own lock waits with a negative timeout, which MariaDB takes for none at all.
        let mut migrator = sqlx_macros::migrate!("migrations/mysql");
        migrator.set_locking(false);
        migrator.set_ignore_missing(true);
        forget_cut_off(connection).await?;
        migrator
            .run_direct(None, connection, false)
            .await
            .map_err(sqlx::Error::from)?;
        Ok(())
    }

    async fn take_migration(&mut self, owner: &str, milliseconds: u64) -> Result<bool, Fault> {
        // Named locks are those of one server, and a cluster has several; a row is the same on all of them.
        for statement in [
            "CREATE TABLE IF NOT EXISTS migration_lease (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, \
             owner VARBINARY(64) NOT NULL, lease_until BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
            "INSERT IGNORE INTO migration_lease (id, owner, lease_until) VALUES (1, '', 0)",
        ] {
            raw_sql(statement).execute(self.unbounded()).await?;
        }
        let query = query(concat!(
            "UPDATE migration_lease SET owner = ?, lease_until = ",
            now!(),
            " + ? WHERE id = 1 AND (owner = ? OR lease_until <= ",
            now!(),
            " OR lease_until > ",
            now!(),
            " + ?)"
        ))
        .bind(owner.as_bytes())
        .bind(milliseconds)
        .bind(owner.as_bytes())
        .bind(MAX_LEASE_MS);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }
}

/// The first migration that can be run again: see there.
const FIRST_REPEATABLE: i64 = 30;

/// Forgets that a migration was begun whose process has ended in between: it is run again. A statement that changes a
/// table ends a transaction, so there is no other way back.
async fn forget_cut_off(connection: &mut MySqlConnection) -> Result<(), Fault> {
    let has_any: bool = query_scalar(
        "SELECT EXISTS (SELECT 1 FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '_sqlx_migrations')",
    )
    .fetch_one(&mut *connection)
    .await?;
    if has_any {
        query("DELETE FROM _sqlx_migrations WHERE success = FALSE AND version >= ?")
            .bind(FIRST_REPEATABLE)
            .execute(connection)
            .await?;
    }
    Ok(())
}
