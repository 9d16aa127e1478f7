//! Storage of the secrets of visitor tokens until the end of their day: in a table of MySQL, or in a file for each day beside a SQLite
//! database, because data read by SQLite stays in its caches.
//!
//! To make as few copies as possible, they are read on a separate connection, whose buffers are overwritten when they are freed
//! ([`edgelink_model::memory`]).

use edgelink_database::Place;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::nodes::Nodes;
use edgelink_wire::clicks::VisitorSecret;
use edgelink_wire::clicks::visitor_keys::{VisitorKey, VisitorKeys};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions, Connection, MySqlConnection};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;
use zeroize::Zeroizing;

const CONTEXT: &str = "reading the secrets of visitor tokens";

/// The seconds of a day.
pub const DAY: u64 = 86_400;

/// Storage of the secrets.
#[derive(Clone, Debug)]
pub(super) enum SecretPlace {
    /// In the table `visitor_secrets` of the server in use.
    Table(Arc<Nodes>),
    /// In files whose names begin with this path.
    Files(PathBuf),
}

impl SecretPlace {
    /// The storage for the database at this place: with a file, files beside it.
    pub(super) fn of(database: &Place) -> Self {
        match database {
            Place::Servers(nodes) => Self::Table(Arc::clone(nodes)),
            Place::File(file) => {
                let mut path = file.as_os_str().to_owned();
                path.push("-visitors-");
                Self::Files(path.into())
            }
        }
    }

    /// Reads the secrets of these days (unix time / 86400), and creates missing ones. It blocks the thread, for at most `within` if
    /// a server is queried.
    pub(super) fn read(
        &self,
        days: RangeInclusive<u64>,
        within: Duration,
    ) -> Result<VisitorKeys, StoreError> {
        match self {
            Self::Table(nodes) => {
                let reading = timeout(within, read_rows(nodes.used(), days));
                let read = Handle::current().block_on(reading);
                read.unwrap_or(Err(Fault::TimedOut(within.as_millis())))
                    .map_err(|fault| {
                        let remedy = fault.remedy();
                        fault.into_error(CONTEXT, remedy)
                    })
            }
            Self::Files(prefix) => read_files(prefix, days).map_err(|error| StoreError {
                context: CONTEXT,
                transient: true,
                source: error.into(),
            }),
        }
    }
}

fn random() -> io::Result<Box<Zeroizing<VisitorSecret>>> {
    let mut secret = Box::new(Zeroizing::new(VisitorSecret::default()));
    getrandom::fill(&mut **secret).map_err(io::Error::other)?;
    Ok(secret)
}

fn key(day: u64, secret: Box<Zeroizing<VisitorSecret>>) -> VisitorKey {
    VisitorKey {
        from: day * DAY,
        until: (day + 1) * DAY,
        secret,
    }
}

async fn read_rows(
    server: &MySqlConnectOptions,
    days: RangeInclusive<u64>,
) -> Result<VisitorKeys, Fault> {
    let mut connection = server.connect().await?;
    let mut keys = Vec::with_capacity(2);
    for day in days {
        keys.push(key(day, read_row(&mut connection, day).await?));
    }
    connection.close().await?;
    Ok(VisitorKeys::new(keys))
}

async fn read_row(
    connection: &mut MySqlConnection,
    day: u64,
) -> Result<Box<Zeroizing<VisitorSecret>>, Fault> {
    const READ: &str = "SELECT secret FROM visitor_secrets WHERE day = ?";
    const ADD: &str = "INSERT IGNORE INTO visitor_secrets (day, secret) VALUES (?, ?)";
    let read = sqlx::query_scalar::<_, Vec<u8>>(READ).bind(day);
    let mut found = read.fetch_optional(&mut *connection).await?;
    if found.is_none() {
        let secret = random().map_err(sqlx::Error::Io)?;
        let add = sqlx::query(ADD).bind(day).bind(&secret[..]);
        add.execute(&mut *connection).await?;
        // Another replica may have been faster.
        let read = sqlx::query_scalar(READ).bind(day);
        found = Some(read.fetch_one(&mut *connection).await?);
    }
    let found = Zeroizing::new(found.unwrap_or_default());
    let secret = VisitorSecret::try_from(&found[..]);
    let secret = secret.map_err(|error| Fault::corrupt("secret", &error))?;
    Ok(Box::new(Zeroizing::new(secret)))
}

fn file_of(prefix: &Path, day: u64) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(day.to_string());
    path.into()
}

fn read_files(prefix: &Path, days: RangeInclusive<u64>) -> io::Result<VisitorKeys> {
    let mut keys = Vec::with_capacity(2);
    for day in days {
        keys.push(key(day, read_file(&file_of(prefix, day))?));
    }
    Ok(VisitorKeys::new(keys))
}

/// Reads a secret, or creates one if it is missing, or truncated by a crash.
fn read_file(path: &Path) -> io::Result<Box<Zeroizing<VisitorSecret>>> {
    let mut options = File::options();
    options.read(true).write(true).create(true).mode(0o600);
    let mut file = options.open(path)?;
    // Another process may create it at the same time.
    file.lock()?;
    let mut secret = Box::new(Zeroizing::new(VisitorSecret::default()));
    if file.metadata()?.len() == secret.len() as u64 {
        file.read_exact(&mut **secret)?;
        return Ok(secret);
    }
    let secret = random()?;
    file.rewind()?;
    file.write_all(&**secret)?;
    file.sync_all()?;
    Ok(secret)
}

/// Removes the files of the days before `today`. Returns their number.
pub(super) fn remove_files(prefix: &Path, today: u64) -> io::Result<u64> {
    let directory = match prefix.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = prefix.file_name().unwrap_or_default().to_string_lossy();
    let mut removed = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let day = entry
            .file_name()
            .to_string_lossy()
            .strip_prefix(&*name)
            .map(str::parse);
        if !matches!(day, Some(Ok(day)) if u64::lt(&day, &today)) {
            continue;
        }
        let mut file = File::options().write(true).open(entry.path())?;
        file.write_all(&VisitorSecret::default())?;
        file.sync_all()?;
        fs::remove_file(entry.path())?;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).expect("a directory");
        let mut names: Vec<String> = names
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn secret_when_expired_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let SecretPlace::Files(prefix) =
            SecretPlace::of(&Place::File(directory.path().join("links.db")))
        else {
            unreachable!("files are beside");
        };
        let keys = read_files(&prefix, 5..=6).expect("secrets");
        assert_eq!(read_files(&prefix, 5..=6).expect("secrets"), keys);
        let [five, six] = keys.all() else {
            panic!("{keys:?}");
        };
        assert_ne!(five.secret, six.secret);
        assert_eq!(
            (five.from, five.until, six.until),
            (5 * DAY, 6 * DAY, 7 * DAY)
        );
        fs::write(directory.path().join("links.db-visitors-x"), "").expect("a file");
        // A hard link keeps the content of the file.
        let kept = directory.path().join("kept");
        fs::hard_link(file_of(&prefix, 5), &kept).expect("a link");
        assert_eq!(remove_files(&prefix, 6).expect("removed"), 1);
        assert_eq!(fs::read(kept).expect("a file"), [0; 16]);
        let left = ["kept", "links.db-visitors-6", "links.db-visitors-x"];
        assert_eq!(files(directory.path()), left);
        let again = read_files(&prefix, 5..=6).expect("secrets");
        assert_eq!(again.at(6 * DAY), keys.at(6 * DAY));
        assert_ne!(again.at(5 * DAY), keys.at(5 * DAY));
    }

    #[test]
    fn secret_when_cut_off_is_made_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("links.db-visitors-5");
        fs::write(&path, [1; 7]).expect("a file");
        let secret = read_file(&path).expect("a secret");
        assert_eq!(fs::read(&path).expect("a file"), &**secret);
    }
}
