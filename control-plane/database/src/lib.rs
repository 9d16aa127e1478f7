//! Access to the database: SQLite, MySQL or MariaDB.
//!
//! A [`Database`] lends its connections to calls: [`run!`] measures a call, bounds it in time and retries it where that helps. A
//! call runs statements on a [`session::Session`], with SQL shared by all databases; differences are in [`dialect`]. Each layer
//! depends only on those before it: [`error`], [`sql`], [`session`], [`columns`], [`calls`], and finally [`connect`].

pub mod calls;
pub mod classes;
pub mod columns;
pub mod dialect;
pub mod error;
mod lending;
pub mod lines;
mod mysql;
pub mod nodes;
pub mod revisions;
pub mod session;
pub mod sql;
mod sqlite;

pub use calls::{Database, Place};
pub use mysql::lift_limits;

use edgelink_settings::config::StoreConfig;
use error::StoreError;
use nodes::Known;
use std::path::PathBuf;

/// Opens the database that the scheme of its URL names: `sqlite:` (a file, created if missing) or `mysql:` (MySQL
/// 8.0 and later, MariaDB 10.6 and later). The schema is not touched.
///
/// # Errors
/// A permanent [`StoreError`] if the URL is wrong or the server refuses us, a transient one if it does not answer.
pub async fn connect(config: &StoreConfig) -> Result<Database, StoreError> {
    let url = config.url.expose();
    match url.split_once(':') {
        Some(("sqlite", _)) => sqlite::connect(url, config).await,
        Some(("mysql", _)) => mysql::connect(config).await,
        _ => Err(StoreError {
            context: "reading the database URL",
            transient: false,
            source: "must start with sqlite: or mysql:".into(),
        }),
    }
}

/// Queries each server that the URL names; the results are by name, and empty for SQLite.
///
/// # Errors
/// A permanent one if the URL is wrong.
pub async fn servers(config: &StoreConfig) -> Result<Vec<(String, Known)>, StoreError> {
    if config.url.expose().starts_with("mysql:") {
        mysql::servers(config).await
    } else {
        Ok(Vec::new())
    }
}

/// Fails if the URL names a missing SQLite file.
///
/// # Errors
/// A permanent one, which names the file.
pub fn require_file(config: &StoreConfig) -> Result<(), StoreError> {
    match file(config).filter(|file| !file.exists()) {
        None => Ok(()),
        Some(_) => Err(StoreError {
            context: "looking for the database",
            transient: false,
            source: format!(
                "there is no {}; a new one is made by 'edgelink serve', or 'edgelink migrate --create'",
                name(config)
            )
            .into(),
        }),
    }
}

/// Display name of a database: its kind, location and name, without user and password.
#[must_use]
pub fn name(config: &StoreConfig) -> String {
    match file(config) {
        Some(file) => {
            let file = std::path::absolute(&file).unwrap_or(file);
            format!("SQLite file {}", file.display())
        }
        None => nodes::names(config.url.expose()),
    }
}

/// The file of a SQLite database; `None` for others, or if the URL names none.
fn file(config: &StoreConfig) -> Option<PathBuf> {
    let url = config.url.expose();
    url.starts_with("sqlite:")
        .then(|| sqlite::file(url))
        .flatten()
}
