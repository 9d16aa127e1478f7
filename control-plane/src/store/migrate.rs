//! Bringing the schema up to date, and asking whether the database answers.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::leases::MAX_LEASE_MS;
use super::session::{Connection, Session};
use super::sql::sql;
use sqlx::{Connection as _, MySqlConnection, SqliteConnection, raw_sql};
use std::time::Duration;

/// How long the lease for migrating lasts without being renewed.
const MIGRATION_LEASE: Duration = Duration::from_secs(20);

/// The first migration that can be run again: see there.
const FIRST_REPEATABLE: i64 = 30;

impl Store {
    /// Answers when the database does.
    pub async fn ping(&self) -> Result<(), StoreError> {
        run!(self.read("ping", "asking for a sign of life"), |session| {
            session.execute(sql("SELECT 1")).await.map(drop)
        })
    }

    /// Brings the schema up to date. One that is newer is left as it is: later versions only add to it what earlier ones
    /// can do without, so that there is a way back.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let owner = format!("{:016x}", getrandom::u64().unwrap_or_default());
        while !self.take_migration(&owner, MIGRATION_LEASE).await? {
            tracing::info!("waiting for another instance to migrate the schema");
            tokio::time::sleep(MIGRATION_LEASE / 20).await;
        }
        let migrating = async {
            run!(self.write("migrate", "migrating the schema"), |session| {
                match session.unbounded() {
                    Connection::MySql(connection) => migrate_mysql(connection).await,
                    Connection::Sqlite(connection) => migrate_sqlite(connection).await,
                }
            })
        };
        let renewing = async {
            loop {
                tokio::time::sleep(MIGRATION_LEASE / 4).await;
                if let Err(error) = self.take_migration(&owner, MIGRATION_LEASE).await {
                    tracing::warn!(%error, "the lease for migrating the schema is renewed later");
                }
            }
        };
        let migrated = tokio::select! {
            migrated = migrating => migrated,
            () = renewing => Ok(()),
        };
        // Given back, or else it ends by itself.
        let _ = self.take_migration(&owner, Duration::ZERO).await;
        migrated
    }

    /// Takes or renews the lease without which no replica migrates; `false` if another owner has it. SQLite needs none: the
    /// transaction of the migrations has the whole file for itself.
    async fn take_migration(&self, owner: &str, time: Duration) -> Result<bool, StoreError> {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let call = self.write("take_migration", "asking who migrates the schema");
        run!(call, |session| {
            match session.unbounded() {
                Connection::Sqlite(_) => return Ok(true),
                Connection::MySql(connection) => add_migration_lease(connection).await?,
            }
            take_migration(session, owner, milliseconds).await
        })
    }
}

/// Named locks are those of one server, and a cluster has several; a row is the same on all of them.
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
    milliseconds: u64,
) -> Result<bool, Fault> {
    let now = session.dialect().now_millis;
    let take = sql(format!(
        "UPDATE migration_lease SET owner = ?, lease_until = {now} + ? \
         WHERE id = 1 AND (owner = ? OR lease_until <= {now} OR lease_until > {now} + ?)"
    ));
    let take = take
        .bind(owner)
        .bind(milliseconds)
        .bind(owner)
        .bind(MAX_LEASE_MS);
    Ok(session.autocommit(take).await? > 0)
}

async fn migrate_mysql(connection: &mut MySqlConnection) -> Result<(), Fault> {
    // The migrator's own lock waits with a negative timeout, which MariaDB takes for none at all.
    let mut migrator = sqlx_macros::migrate!("migrations/mysql");
    migrator.set_locking(false);
    migrator.set_ignore_missing(true);
    forget_cut_off(connection).await?;
    let migrated = migrator.run_direct(None, connection, false).await;
    Ok(migrated.map_err(sqlx::Error::from)?)
}

async fn migrate_sqlite(connection: &mut SqliteConnection) -> Result<(), Fault> {
    // The migrator takes no lock on SQLite. Inside of this transaction its own ones are savepoints.
    let mut migrator = sqlx_macros::migrate!("migrations/sqlite");
    migrator.set_ignore_missing(true);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    migrator
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(sqlx::Error::from)?;
    Ok(transaction.commit().await?)
}

/// Forgets that a migration was begun whose process has ended in between: it is run again. A statement that changes a
/// table ends a transaction, so there is no other way back.
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
