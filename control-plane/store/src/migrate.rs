//! Migrates the schema, and checks that the database answers. From 0030 on, a migration can be run again after an interruption.

use super::leases::MAX_LEASE_MILLIS;
use crate::Store;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::{PooledConnection, Session};
use edgelink_database::sql::sql;
use sqlx::migrate::{Migrate as _, Migrator};
use sqlx::{Connection as _, MySqlConnection, SqliteConnection, raw_sql};
use std::time::Duration;

/// Duration of the migration lease without renewal.
const MIGRATION_LEASE: Duration = Duration::from_secs(20);

/// The first repeatable migration: see there.
const FIRST_REPEATABLE: i64 = 30;

/// The driver's own table of applied migrations.
const TABLE: &str = "_sqlx_migrations";

impl Store {
    /// Returns `Ok` if the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        run!(self.read("ping", "pinging the database"), |session| session
            .execute(sql("SELECT 1"))
            .await
            .map(drop))
    }

    /// Migrates the schema, and normalizes names of accounts. A newer schema is left unchanged: later versions only make additions
    /// that earlier ones can ignore, so that a downgrade is possible.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let owner = format!("{:016x}", getrandom::u64().unwrap_or_default());
        while !self.take_migration(&owner, MIGRATION_LEASE).await? {
            tracing::info!("waiting for another instance to migrate the schema");
            tokio::time::sleep(MIGRATION_LEASE / 20).await;
        }
        let migrating = async {
            run!(self.write("migrate", "migrating the schema"), |session| {
                match session.unbounded()? {
                    PooledConnection::MySql(connection) => migrate_mysql(connection, &owner).await,
                    PooledConnection::Sqlite(connection) => migrate_sqlite(connection).await,
                }
            })
        };
        let renewing = async {
            loop {
                tokio::time::sleep(MIGRATION_LEASE / 4).await;
                if let Err(error) = self.take_migration(&owner, MIGRATION_LEASE).await {
                    tracing::warn!(%error, "failed to renew the migration lease; retrying");
                }
            }
        };
        let migrated = tokio::select! {
            migrated = migrating => migrated,
            () = renewing => Ok(()),
        };
        // Only by the process that holds the lease, like the schema.
        let migrated = match migrated {
            Ok(()) => self.normalize_names().await,
            Err(error) => Err(error),
        };
        // Released, or else it expires.
        let _ = self.take_migration(&owner, Duration::ZERO).await;
        migrated
    }

    /// Takes or renews the migration lease; `false` if another owner has it. SQLite needs none: the transaction of
    /// the migrations has the whole file to itself.
    async fn take_migration(&self, owner: &str, time: Duration) -> Result<bool, StoreError> {
        let duration_millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let call = self.write("take_migration", "taking the migration lease");
        run!(call, |session| {
            match session.unbounded()? {
                PooledConnection::Sqlite(_) => return Ok(true),
                PooledConnection::MySql(connection) => add_migration_lease(connection).await?,
            }
            take_migration(session, owner, duration_millis).await
        })
    }
}

/// The migrations of MySQL and MariaDB.
pub(super) fn mysql() -> Migrator {
    sqlx_macros::migrate!("migrations/mysql")
}

/// The migrations of SQLite.
pub(super) fn sqlite() -> Migrator {
    sqlx_macros::migrate!("migrations/sqlite")
}

/// Creates the lease as a row, because named locks belong to one server, and a cluster has several.
async fn add_migration_lease(connection: &mut MySqlConnection) -> Result<(), Fault> {
    for statement in [
        "CREATE TABLE IF NOT EXISTS migration_lease (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, \
         owner VARBINARY(64) NOT NULL, lease_until BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
        "INSERT IGNORE INTO migration_lease (id, owner, lease_until) VALUES (1, '', 0)",
    ] {
        raw_sql(statement).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn take_migration(
    session: &mut Session,
    owner: &str,
    duration_millis: u64,
) -> Result<bool, Fault> {
    let now = session.dialect().now_millis;
    let take = sql(format!(
        "UPDATE migration_lease SET owner = ?, lease_until = {now} + ? \
         WHERE id = 1 AND (owner = ? OR lease_until <= {now} OR lease_until > {now} + ?)"
    ));
    let take = take
        .bind(owner)
        .bind(duration_millis)
        .bind(owner)
        .bind(MAX_LEASE_MILLIS);
    Ok(session.autocommit(take).await? > 0)
}

/// Runs missing migrations one by one. Before each it checks that no other instance has taken over the lease, because this one or
/// the cluster was stopped for that long.
async fn migrate_mysql(connection: &mut MySqlConnection, owner: &str) -> Result<(), Fault> {
    // The migrator's own lock waits with a negative timeout, which MariaDB treats as no waiting at all.
    let mut migrator = mysql();
    migrator.set_locking(false);
    migrator.set_ignore_missing(true);
    edgelink_database::lift_limits(connection).await?;
    forget_cut_off(connection).await?;
    connection
        .ensure_migrations_table(TABLE)
        .await
        .map_err(sqlx::Error::from)?;
    let done = connection.list_applied_migrations(TABLE).await;
    let done = done.map_err(sqlx::Error::from)?;
    let is_missing = |version: &i64| done.iter().all(|migration| migration.version != *version);
    let versions = migrator.iter().map(|migration| migration.version);
    for version in versions.filter(is_missing) {
        check_lease(connection, owner).await?;
        let migrated = migrator.run_direct(Some(version), connection, false).await;
        migrated.map_err(sqlx::Error::from)?;
    }
    // None is missing any more: this verifies that they match this version.
    let migrated = migrator.run_direct(None, connection, false).await;
    Ok(migrated.map_err(sqlx::Error::from)?)
}

/// Fails if another instance is migrating.
async fn check_lease(connection: &mut MySqlConnection, owner: &str) -> Result<(), Fault> {
    let has_lease = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM migration_lease WHERE id = 1 AND owner = ?)",
    );
    let has_lease: bool = has_lease.bind(owner).fetch_one(connection).await?;
    if has_lease {
        Ok(())
    } else {
        Err(Fault::Contended)
    }
}

async fn migrate_sqlite(connection: &mut SqliteConnection) -> Result<(), Fault> {
    // The migrator takes no lock on SQLite. Inside this transaction its own ones are savepoints.
    let mut migrator = sqlite();
    migrator.set_ignore_missing(true);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    migrator
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(sqlx::Error::from)?;
    Ok(transaction.commit().await?)
}

/// Removes the row of a migration whose process was interrupted, so that it is run again. A statement that
/// changes a table ends a transaction, so there is no other way back.
async fn forget_cut_off(connection: &mut MySqlConnection) -> Result<(), Fault> {
    let has_any: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '_sqlx_migrations')",
    )
    .fetch_one(&mut *connection)
    .await?;
    if has_any {
        sqlx::query("DELETE FROM _sqlx_migrations WHERE success = FALSE AND version >= ?")
            .bind(FIRST_REPEATABLE)
            .execute(connection)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last migration from before the rule.
    const BEFORE: i64 = 102;

    /// Words of destructive statements. SQLite has one process, and may rebuild a table.
    const REFUSED: [&str; 5] = ["DROP", "RENAME", "CHANGE", "MODIFY", "TRUNCATE"];

    /// The part of a migration that breaks the previous version.
    fn refused(sql: &str) -> Option<String> {
        let code = sql.lines().map(|line| line.split("--").next());
        let code: Vec<&str> = code.flatten().flat_map(str::split_whitespace).collect();
        let code = code.join(" ").to_uppercase().replace('`', "");
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@');
        let mut words = code.split(|c| !is_part(c));
        let found = words.find(|word| REFUSED.contains(word));
        found.map(str::to_owned).or_else(|| needed_column(&code))
    }

    /// An added column without a default, which the previous version would not fill.
    fn needed_column(code: &str) -> Option<String> {
        let clauses = code.split("ADD ").skip(1);
        let mut clauses = clauses.filter_map(|clause| clause.split([';', '\'']).next());
        let is_needed = |clause: &&str| clause.contains("NOT NULL") && !clause.contains("DEFAULT");
        clauses.find(is_needed).map(str::to_owned)
    }

    #[test]
    fn migration_when_applied_keeps_what_the_last_version_uses() {
        let migrator = mysql();
        let (later, before): (Vec<_>, Vec<_>) = migrator
            .iter()
            .partition(|migration| migration.version > BEFORE);
        assert!(before.iter().any(|migration| migration.version == BEFORE));
        for migration in later {
            let found = refused(migration.sql.as_str());
            assert_eq!(found, None, "{}", migration.version);
        }
    }

    #[test]
    fn migration_when_it_takes_something_away_is_found() {
        for (sql, expected) in [
            ("drop\n  table links", Some("DROP")),
            ("ALTER TABLE links DROP url", Some("DROP")),
            ("ALTER TABLE links\nDROP\tINDEX `links_live`", Some("DROP")),
            (
                "SET @change = 'ALTER TABLE links DROP KEY links_live'",
                Some("DROP"),
            ),
            ("ALTER TABLE links MODIFY url TEXT", Some("MODIFY")),
            ("ALTER TABLE links CHANGE url target TEXT", Some("CHANGE")),
            (
                "ALTER TABLE links RENAME COLUMN url TO target",
                Some("RENAME"),
            ),
            ("TRUNCATE TABLE links", Some("TRUNCATE")),
            (
                "ALTER TABLE links ADD COLUMN a INT NULL,\n ADD\n b INT NOT NULL",
                Some("B INT NOT NULL"),
            ),
            (
                "SET @change = 'ALTER TABLE links ADD COLUMN a INT NOT  NULL'",
                Some("COLUMN A INT NOT NULL"),
            ),
            (
                "ALTER TABLE links ADD COLUMN a INT NOT NULL DEFAULT 0",
                None,
            ),
            (
                "-- What was dropped: DROP TABLE x\nPREPARE change_once FROM @change",
                None,
            ),
            ("CREATE TABLE x (dropped INT NOT NULL)", None),
        ] {
            assert_eq!(refused(sql).as_deref(), expected, "{sql}");
        }
    }
}
