//! Statements in SQLite's dialect.

use crate::model::Link;
use crate::store::sql::fault::{Fault, Remedy};
use crate::store::sql::relay::{Announcements, RelayStatements};
use crate::store::sql::revisions::Revisions;
use crate::store::sql::rows::{
    FoundRow, KeyRow, LinkRow, NewRow, TakenRow, Unsigned, content_hash, tags_to_text, url_hash,
};
use crate::store::sql::session::Session;
use crate::store::sql::sizes::{padded, pieces};
use crate::store::sql::statements::{ListRange, Statements};
use crate::store::sql::{insert_links, link_columns, select_links};
use crate::store::{ApiKeyRow, BOUND_LEAD_MS, Segment};
use edgelink_wire::{Code, Domain, LinkKey, LinkState};
use sqlx::{Connection, QueryBuilder, Sqlite, query, query_as, query_scalar, raw_sql};

const BUSY: i32 = 5;
const LOCKED: i32 = 6;

/// The database's clock: unix time in microseconds.
macro_rules! now_micros {
    () => {
        "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    };
}

/// The list of links: of all or of a domain, in one range of the index.
macro_rules! list_links {
    (all, $range:ident) => {
        list_links!(@ "FROM links l JOIN domains d ON d.id = l.domain_id WHERE ", $range)
    };
    (domain, $range:ident) => {
        list_links!(@ "FROM links l JOIN domains d ON d.id = l.domain_id \
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

/// What to do about an error of SQLite.
pub(super) fn remedy(fault: &Fault) -> Remedy {
    match fault {
        Fault::Sql(error) => Remedy::of_driver(error).unwrap_or_else(|| remedy_of_code(error)),
        Fault::TimedOut(_) | Fault::Contended => Remedy::Later,
        Fault::Corrupt(_) => Remedy::GiveUp,
    }
}

fn remedy_of_code(error: &sqlx::Error) -> Remedy {
    let Some(error) = error.as_database_error() else {
        return Remedy::GiveUp;
    };
    if error.is_unique_violation() {
        return Remedy::Duplicate;
    }
    let extended: Option<i32> = error.code().and_then(|code| code.parse().ok());
    match extended.map(|code| code & 0xff) {
        Some(BUSY | LOCKED) => Remedy::Later,
        _ => Remedy::GiveUp,
    }
}

impl Statements for Session<Sqlite> {
    fn remedy(fault: &Fault) -> Remedy {
        remedy(fault)
    }

    async fn begin(&mut self) -> Result<(), Fault> {
        // A transaction that starts as a reader and then writes can fail as busy at once, without waiting.
        self.run(|c| raw_sql("BEGIN IMMEDIATE").execute(c)).await?;
        Ok(())
    }

    async fn begin_with(
        &mut self,
        rows: &[&NewRow],
        rev: u64,
        changes: &Announcements,
        now: u64,
    ) -> Result<Revisions, Fault> {
        self.begin().await?;
        for piece in pieces(rows) {
            self.insert_links(piece, rev).await?;
        }
        self.announce(changes, now).await?;
        self.revisions().await
    }

    async fn revisions(&mut self) -> Result<Revisions, Fault> {
        let query = query_as(SELECT_REVISIONS);
        self.run(|c| query.fetch_one(c)).await
    }

    async fn raise_floor(&mut self, rev: u64) -> Result<(), Fault> {
        let query = query("UPDATE publisher SET rev_floor = MAX(rev_floor, ?) WHERE id = 1")
            .bind(rev.cast_signed());
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
        let query = query_scalar("SELECT id FROM domains WHERE name = ?").bind(domain.as_str());
        self.run(|c| query.fetch_optional(c)).await
    }

    async fn insert_domain(&mut self, domain: &Domain) -> Result<(), Fault> {
        let query = query("INSERT INTO domains (name) VALUES (?)").bind(domain.as_str());
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn insert_links(&mut self, rows: &[&NewRow], rev: u64) -> Result<(), Fault> {
        let mut insert = QueryBuilder::<Sqlite>::new(insert_links!());
        insert.push_values(rows, |mut values, row| {
            let content = &row.link.content;
            values
                .push_bind(row.link.id.cast_signed())
                .push_bind(row.domain_id)
                .push_bind(row.link.code.as_str())
                .push_bind(content.target.as_str())
                .push_bind(row.url_hash)
                .push_bind(row.content_hash)
                .push_bind(content.redirect.code())
                .push_bind(content.state == LinkState::Disabled)
                .push_bind(content.valid_since.map(u64::cast_signed))
                .push_bind(content.valid_until.map(u64::cast_signed))
                .push_bind(content.forward_query)
                .push_bind(content.title.as_deref())
                .push_bind(row.tags.as_str())
                .push_bind(row.link.created_at.cast_signed())
                .push_bind(row.link.updated_at.cast_signed())
                .push_bind(rev.cast_signed());
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
        let mut select = QueryBuilder::<Sqlite>::new(
            "SELECT id, code, rev, deleted_at FROM links WHERE domain_id = ",
        );
        select.push_bind(domain_id).push(" AND code IN (");
        let mut list = select.separated(", ");
        for code in padded(codes) {
            list.push_bind(code.as_str());
        }
        select.push(")");
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    async fn taken_numbers(&mut self, ids: &[u64]) -> Result<Vec<u64>, Fault> {
        let mut select = QueryBuilder::<Sqlite>::new("SELECT id FROM links WHERE id IN (");
        let mut list = select.separated(", ");
        for id in padded(ids) {
            list.push_bind(id.cast_signed());
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
        .bind(row.link.id.cast_signed())
        .bind(content.target.as_str())
        .bind(row.url_hash)
        .bind(row.content_hash)
        .bind(content.redirect.code())
        .bind(content.state == LinkState::Disabled)
        .bind(content.valid_since.map(u64::cast_signed))
        .bind(content.valid_until.map(u64::cast_signed))
        .bind(content.forward_query)
        .bind(content.title.as_deref())
        .bind(row.tags.as_str())
        .bind(row.link.created_at.cast_signed())
        .bind(row.link.updated_at.cast_signed())
        .bind(rev.cast_signed())
        .bind(tombstone.id.0.cast_signed())
        .bind(tombstone.rev.0.cast_signed());
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn find_link(&mut self, key: &LinkKey) -> Result<Option<LinkRow>, Fault> {
        let query = query_as(select_links!("WHERE d.name = ? AND l.code = ?"))
            .bind(key.domain.as_str())
            .bind(key.code.as_str());
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
        .bind(key.domain.as_str())
        .bind(key.code.as_str());
        self.run(|c| query.fetch_one(c)).await
    }

    async fn lock_link(&mut self, key: &LinkKey) -> Result<bool, Fault> {
        let query = query_scalar(
            "SELECT id FROM links WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code = ? \
             AND deleted_at IS NULL",
        )
        .bind(key.domain.as_str())
        .bind(key.code.as_str());
        let id: Option<Unsigned> = self.run(|c| query.fetch_optional(c)).await?;
        Ok(id.is_some())
    }

    async fn update_link(&mut self, link: &Link) -> Result<(), Fault> {
        let content = &link.content;
        let query = query(
            "UPDATE links SET url = ?, url_hash = ?, content_hash = ?, redirect = ?, disabled = ?, valid_since = ?, valid_until = ?, \
             forward_query = ?, title = ?, tags = ?, updated_at = ?, rev = ? WHERE id = ?",
        )
        .bind(content.target.as_str())
        .bind(url_hash(&content.target))
        .bind(content_hash(&link.domain, content))
        .bind(content.redirect.code())
        .bind(content.state == LinkState::Disabled)
        .bind(content.valid_since.map(u64::cast_signed))
        .bind(content.valid_until.map(u64::cast_signed))
        .bind(content.forward_query)
        .bind(content.title.as_deref())
        .bind(tags_to_text(&content.tags))
        .bind(link.updated_at.cast_signed())
        .bind(link.rev.cast_signed())
        .bind(link.id.cast_signed());
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn delete_link(&mut self, id: u64, rev: u64, now: u64) -> Result<(), Fault> {
        // Without the time, the row leaves the index of those that are to be swept.
        let query = query(
            "UPDATE links SET deleted_at = ?, updated_at = ?, valid_until = NULL, rev = ? WHERE id = ?",
        )
        .bind(now.cast_signed())
        .bind(now.cast_signed())
        .bind(rev.cast_signed())
        .bind(id.cast_signed());
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
            Some(domain) => query.bind(domain.as_str()),
        };
        let query = match range {
            ListRange::At { created_at, below } => query
                .bind(created_at.cast_signed())
                .bind(below.cast_signed()),
            ListRange::Before(created_at) => query.bind(created_at.cast_signed()),
        };
        let query = query.bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn draw(&mut self, issuer: u16, step: u32, token: u64) -> Result<Option<Segment>, Fault> {
        let query = query_scalar(
            "UPDATE issuers SET next = next + ?1 WHERE issuer = ?2 AND (next + ?1) * 1000 <= \
                 (SELECT MAX(bound) FROM bounds \
                 WHERE published_at + ?3 <= CAST(unixepoch('subsec') * 1000 AS INTEGER)) \
                 AND (SELECT token FROM publisher WHERE id = 1) >= ?4 RETURNING next",
        )
        .bind(step)
        .bind(issuer)
        .bind(BOUND_LEAD_MS.cast_signed())
        .bind(token.cast_signed());
        self.about_to_last();
        let end: Option<Unsigned> = self.run(|c| query.fetch_optional(c)).await?;
        Ok(end.map(|end| Segment {
            issuer,
            start: end.0 - u64::from(step),
            end: end.0,
        }))
    }

    async fn give_back(&mut self, rest: Segment, token: u64) -> Result<bool, Fault> {
        let query = query(
            "UPDATE issuers SET next = ? WHERE issuer = ? AND next = ? \
             AND (SELECT token FROM publisher WHERE id = 1) >= ?",
        )
        .bind(rest.start.cast_signed())
        .bind(rest.issuer)
        .bind(rest.end.cast_signed())
        .bind(token.cast_signed());
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn insert_api_key(&mut self, key: &ApiKeyRow) -> Result<(), Fault> {
        let query =
            query("INSERT INTO api_keys (id, name, secret_hash, created_at) VALUES (?, ?, ?, ?)")
                .bind(&key.id)
                .bind(&key.name)
                .bind(key.secret_hash.as_slice())
                .bind(key.created_at.cast_signed());
        self.about_to_last();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn find_api_key(&mut self, id: &str) -> Result<Option<KeyRow>, Fault> {
        let query = query_as("SELECT id, name, secret_hash, created_at FROM api_keys WHERE id = ?")
            .bind(id);
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
        let query = query("DELETE FROM api_keys WHERE id = ?").bind(id);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn migrate(&mut self) -> Result<(), Fault> {
        // The migrator takes no lock on SQLite. Inside of this transaction its own ones are savepoints.
        let connection = self.unbounded();
        let mut migrator = sqlx_macros::migrate!("migrations/sqlite");
        migrator.set_ignore_missing(true);
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        migrator
            .run_direct(None, &mut *transaction, false)
            .await
            .map_err(sqlx::Error::from)?;
        transaction.commit().await?;
        Ok(())
    }

    /// The transaction of the migrations has the whole file for itself.
    async fn take_migration(&mut self, _owner: &str, _milliseconds: u64) -> Result<bool, Fault> {
        Ok(true)
    }
}
