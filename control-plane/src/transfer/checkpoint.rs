//! How far a transfer has come, in a small file that is replaced as a whole.

use super::{TransferError, in_file};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Reads a checkpoint; nothing where there is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, TransferError> {
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
pub(super) fn write<T: Serialize>(path: &Path, checkpoint: &T) -> Result<(), TransferError> {
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
