//! Exporting: one link per line, as in the API with its rules, newest first.

use super::client::{ApiClient, ListingPage};
use super::{TransferError, in_file, open_behind, read_checkpoint, write_checkpoint};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// The links to export, and the file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// The file.
    pub file: PathBuf,
    /// The file of its progress; it is removed at the end.
    pub checkpoint: PathBuf,
    /// Only links on this domain.
    pub domain: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ExportCheckpoint {
    cursor: Option<String>,
    bytes: u64,
    links: u64,
}

/// Exports links, or the rest after an earlier run, and returns their number. Links created in the meantime are not included.
///
/// # Errors
/// The [`TransferError`] that stops the export.
pub async fn export(client: &ApiClient, options: &ExportOptions) -> Result<u64, TransferError> {
    let mut state: ExportCheckpoint = read_checkpoint(&options.checkpoint)?.unwrap_or_default();
    let mut file = open_behind(&options.file, state.bytes)?;
    let bar = progress();
    loop {
        let domain = options.domain.as_deref();
        let page = client.list(domain, state.cursor.as_deref()).await?;
        let text = lines(&page);
        append(&mut file, &text).map_err(in_file(&options.file))?;
        state.bytes += text.len() as u64;
        state.links += page.links.len() as u64;
        bar.set_message(format!("{} links", state.links));
        if page.next_cursor.is_none() {
            break;
        }
        state.cursor = page.next_cursor;
        write_checkpoint(&options.checkpoint, &state)?;
    }
    bar.finish();
    // There is none if the first page was the last.
    let _ = fs::remove_file(&options.checkpoint);
    Ok(state.links)
}

fn lines(page: &ListingPage) -> String {
    page.links.iter().map(|link| format!("{link}\n")).collect()
}

fn append(file: &mut File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
