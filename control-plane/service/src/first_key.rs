//! The admin key of the first start.

use super::api_key::{ApiKey, RandomError};
use edgelink_model::clock;
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_store::{AccountError, Actor, Store, StoreError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "admin";

/// The first start could not make an admin key. The store has none then either.
#[derive(Debug, thiserror::Error)]
pub enum AdminKeyError {
    /// The file cannot be written.
    #[error("the admin key cannot be written to {} (auth.admin_key_file): {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file exists and holds no key.
    #[error(
        "{} (auth.admin_key_file) is there and holds no API key that can be read, and the database has none: remove the file or name another one",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The system has no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The first user is not there.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes the admin key if the store has no API keys at all. Returns true if it did.
///
/// The file is written before the row: a file without a row is used at the next start, whereas a row without a file would be a
/// key that has been lost. So a key that is in the file already is used as it is, and two replicas that start together agree on
/// one.
///
/// # Errors
/// An [`AdminKeyError`] with the cause.
pub async fn ensure_admin_key(store: &Store, path: &Path) -> Result<bool, AdminKeyError> {
    if store.has_api_keys().await? {
        return Ok(false);
    }
    let key = match write_new(path, &ApiKey::generate()?)? {
        WrittenKey::New(key) => key,
        WrittenKey::ThereAlready => read(path)?,
    };
    let row = key.row(NAME, clock::unix_millis());
    let actor = Actor::command_line(FIRST_TENANT);
    match store.insert_api_key(&row, &actor).await {
        Ok(inserted) => Ok(inserted.map(|()| true)?),
        // Another replica may have been faster with the same key.
        Err(_) if store.find_api_key(key.id()).await?.is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

enum WrittenKey {
    New(ApiKey),
    ThereAlready,
}

/// Writes a key to a file that only its owner may read, and renames it, so that no reader sees a part of a key.
fn write_new(path: &Path, key: &ApiKey) -> Result<WrittenKey, AdminKeyError> {
    let failed = |source| AdminKeyError::Write {
        path: path.to_owned(),
        source,
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    writeln!(file, "{}", key.expose()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(WrittenKey::New(key.clone())),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(WrittenKey::ThereAlready)
        }
        Err(error) => Err(failed(error.error)),
    }
}

fn read(path: &Path) -> Result<ApiKey, AdminKeyError> {
    let no_key = || AdminKeyError::NoKey {
        path: path.to_owned(),
    };
    let text = std::fs::read_to_string(path).map_err(|_| no_key())?;
    ApiKey::parse(text.trim()).ok_or_else(no_key)
}
