//! Bringing links in from files and taking them out again: `edgelink import` and `edgelink export`.
//!
//! Both are clients of the API. A link that is imported so goes the same way as any other: the same checks, the same
//! revision, the same word to the edges; the command runs anywhere and needs a key, not the database's password. What
//! that costs is little, for links travel by the thousand.

mod client;
mod export;
mod import;
mod item;
mod lines;

pub use client::{ApiClient, ClientError};
pub use export::{ExportOptions, export};
pub use import::{ImportOptions, ImportSummary, import};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a transfer has stopped. What was done until then is kept, and the same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The checkpoint is not of this transfer.
    #[error("the checkpoint {} {reason}; remove it to start from the beginning", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The API refuses us, or does not answer for too long.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Says which file an error is about.
fn in_file(path: &Path) -> impl FnOnce(io::Error) -> TransferError + '_ {
    |source| TransferError::File {
        path: path.to_owned(),
        source,
    }
}

/// Opens the file behind `bytes`; what follows was written by a run that did not come to note it.
fn open_behind(path: &Path, bytes: u64) -> Result<File, TransferError> {
    let open = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    };
    open().map_err(in_file(path))
}

/// Reads a checkpoint, which says how far a transfer has come; `None` if there is none.
fn read_checkpoint<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, TransferError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(in_file(path)(error)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| TransferError::Checkpoint {
            path: path.to_owned(),
            reason: format!("cannot be read: {error}"),
        })
}

/// Replaces a checkpoint. After a crash there is the old one or the new one, never a half.
fn write_checkpoint<T: Serialize>(path: &Path, checkpoint: &T) -> Result<(), TransferError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let replace = || -> io::Result<()> {
        let mut file = File::create(new)?;
        file.write_all(&serde_json::to_vec(checkpoint)?)?;
        file.sync_all()?;
        fs::rename(new, path)
    };
    replace().map_err(in_file(path))
}
