//! Imports links from files and exports them: `edgelink import` and `edgelink export`.
//!
//! Both are clients of the API. An imported link has the same checks, revision and feed message as any other, and the command
//! needs an API key, not the database's password. This costs little, because links are sent by the thousand. The console imports by
//! a [`Destination`] of its own, the use case in its process.

mod client;
mod export;
mod fetch;
mod http;
mod import;
mod report;
mod source;

pub use client::ApiClient;
pub use client::{Destination, ImportMode, ItemResult, problem_line};
pub use encoding_rs::Encoding;
pub use export::{ExportOptions, export};
pub use fetch::{Peer, fetch};
pub use http::AttemptError;
pub use http::ClientError;
pub use import::watch_import;
pub use import::{
    ImportMemory, ImportOptions, ImportProgress, ImportSummary, SurveyedFile, import,
    import_surveyed, survey,
};
pub use source::{
    ColumnMap, ColumnMapError, Format, Loss, Mapping, Meaning, SourceProblem, Survey,
};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The error that stops a transfer. Its progress is kept, and the same command continues from there.
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
    /// The file of links cannot be imported.
    #[error("{}: {problem}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: SourceProblem,
    },
    /// The checkpoint does not belong to this transfer.
    #[error("the checkpoint {} {reason}; remove it to start from the beginning", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The reason why it is refused.
        reason: String,
    },
    /// The API refuses the request, or does not answer for too long.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Adds the path of the file to an error.
fn in_file(path: &Path) -> impl FnOnce(io::Error) -> TransferError + '_ {
    |source| TransferError::File {
        path: path.to_owned(),
        source,
    }
}

/// Opens a file and truncates it to `bytes`: the rest was written by a run that ended before its checkpoint.
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

/// Reads a checkpoint, the progress of a transfer; `None` if there is none.
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

/// Replaces a checkpoint. After a crash the file holds the old one or the new one, never a part.
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

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: edgelink_model::allocations::Counting = edgelink_model::allocations::Counting;
