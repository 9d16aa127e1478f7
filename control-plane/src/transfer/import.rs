//! Importing: lines become items, items are sent in batches, and a checkpoint follows each batch.
//!
//! A batch that was sent before its checkpoint is sent again under the same `Idempotency-Key`, so no line becomes two links.
//! The API keeps such keys for a day only. A later retry is sent with `findIfExists`: each item finds the link that it has
//! created, and equal lines become one link.

use super::client::{ApiClient, ItemResult};
use super::item::{self, Defaults};
use super::lines::{Line, LineReader};
use super::{TransferError, in_file, open_behind, read_checkpoint, write_checkpoint};
use crate::clock;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A batch ends when its items have this many bytes: below what the API takes at once.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// How long a batch is retried unchanged, in seconds: an hour less than the API's retention of its key.
const KEY_RETENTION_SECONDS: u64 = 23 * 60 * 60;

/// How many bytes at the start of a file identify it.
const HEAD_BYTES: u64 = 65_536;

/// What to import, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The file: a JSON object or a URL on every line.
    pub file: PathBuf,
    /// Where lines that could not be imported are reported: number, reason and text, separated by tabs.
    pub errors: PathBuf,
    /// The file of its progress. It stays when the import is done, so that the same command does nothing.
    pub checkpoint: PathBuf,
    /// How many lines are sent at once, 1 to 10,000.
    pub batch: usize,
    /// The domain of lines without one.
    pub domain: Option<String>,
    /// `findIfExists` of lines without it.
    pub find_if_exists: bool,
}

/// The result of an import, earlier runs included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportSummary {
    /// Lines read, blank ones included.
    pub lines: u64,
    /// Links created.
    pub created: u64,
    /// Lines whose link existed already.
    pub existing: u64,
    /// Lines that were reported.
    pub failed: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImportCheckpoint {
    /// A random id, part of each `Idempotency-Key`.
    id: String,
    head: String,
    head_bytes: u64,
    batch: usize,
    offset: u64,
    error_bytes: u64,
    summary: ImportSummary,
    /// The batch at `offset`, once it may have been sent.
    #[serde(default)]
    sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    /// When it was sent first, in unix seconds.
    at: u64,
    /// Whether it was sent again after [`KEY_RETENTION_SECONDS`].
    is_late: bool,
}

/// Lines that are sent together.
#[derive(Default)]
struct ImportBatch {
    items: Vec<Map<String, Value>>,
    /// The line of each item.
    lines: Vec<Line>,
    refused: Vec<(Line, String)>,
    bytes: usize,
    read: u64,
    end: u64,
}

/// Imports a file, or the rest of it after an earlier run.
///
/// # Errors
/// A [`TransferError`] that stops the import. A line that cannot be imported does not: it is reported.
pub async fn import(
    client: &ApiClient,
    options: &ImportOptions,
) -> Result<ImportSummary, TransferError> {
    let mut state = resume(options)?;
    let (mut lines, size) = open(options, &state)?;
    let mut report = Report::open(&options.errors, state.error_bytes)?;
    let bar = progress(size, &state);
    let defaults = Defaults {
        domain: options.domain.clone(),
        find_if_exists: options.find_if_exists.then_some(true),
    };
    while let Some(batch) =
        next_batch(&mut lines, &state, &defaults).map_err(in_file(&options.file))?
    {
        let results = if batch.items.is_empty() {
            Vec::new()
        } else {
            state.begin_send(clock::unix_seconds());
            write_checkpoint(&options.checkpoint, &state)?;
            client
                .create(&state.items(&batch), &state.request())
                .await?
        };
        state.error_bytes = report.add(&batch, &results)?;
        state.advance(&batch, &results);
        write_checkpoint(&options.checkpoint, &state)?;
        show(&bar, &state);
    }
    bar.finish();
    Ok(state.summary)
}

fn resume(options: &ImportOptions) -> Result<ImportCheckpoint, TransferError> {
    let wrong = |reason: &str| TransferError::Checkpoint {
        path: options.checkpoint.clone(),
        reason: reason.to_owned(),
    };
    let Some(state) = read_checkpoint::<ImportCheckpoint>(&options.checkpoint)? else {
        return ImportCheckpoint::new(options);
    };
    if head(&options.file, state.head_bytes)? != (state.head.clone(), state.head_bytes) {
        return Err(wrong("is that of another file"));
    }
    Ok(state)
}

impl ImportCheckpoint {
    fn new(options: &ImportOptions) -> Result<Self, TransferError> {
        let (head, head_bytes) = head(&options.file, HEAD_BYTES)?;
        let id = getrandom::u64().unwrap_or_default();
        let state = Self {
            id: format!("{id:016x}"),
            head,
            head_bytes,
            batch: options.batch,
            offset: 0,
            error_bytes: 0,
            summary: ImportSummary::default(),
            sent: None,
        };
        // Written before the first request: a run that repeats it needs its key.
        write_checkpoint(&options.checkpoint, &state)?;
        Ok(state)
    }

    /// Records that the next batch is about to be sent, perhaps again.
    fn begin_send(&mut self, now_seconds: u64) {
        self.sent = Some(match self.sent {
            None => Sent {
                at: now_seconds,
                is_late: false,
            },
            Some(Sent { at, is_late }) => Sent {
                at,
                is_late: is_late || now_seconds.saturating_sub(at) > KEY_RETENTION_SECONDS,
            },
        });
    }

    fn is_late(&self) -> bool {
        self.sent.is_some_and(|sent| sent.is_late)
    }

    /// The items of a batch as they are sent.
    fn items<'a>(&self, batch: &'a ImportBatch) -> Cow<'a, [Map<String, Value>]> {
        let mut items = Cow::from(&batch.items);
        if self.is_late() {
            for item in items.to_mut() {
                item.insert("findIfExists".to_owned(), Value::from(true));
            }
        }
        items
    }

    /// The `Idempotency-Key` of the next batch.
    fn request(&self) -> String {
        let late = if self.is_late() { "-late" } else { "" };
        format!("import-{}-{}{late}", self.id, self.offset)
    }

    fn advance(&mut self, batch: &ImportBatch, results: &[ItemResult]) {
        let count = |wanted: fn(u16) -> bool| {
            let results = results.iter().filter(|result| wanted(result.status));
            results.count() as u64
        };
        self.offset = batch.end;
        self.sent = None;
        self.summary.lines += batch.read;
        self.summary.created += count(|status| status == 201);
        self.summary.existing += count(|status| status == 200);
        self.summary.failed += count(|status| status >= 300) + batch.refused.len() as u64;
    }
}

/// The hash of the first `limit` bytes of a file, and how many there are.
fn head(path: &Path, limit: u64) -> Result<(String, u64), TransferError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(in_file(path))?;
    Ok((hex::encode(Sha256::digest(&bytes)), bytes.len() as u64))
}

fn open(
    options: &ImportOptions,
    state: &ImportCheckpoint,
) -> Result<(LineReader<BufReader<File>>, u64), TransferError> {
    let open = || {
        let mut file = File::open(&options.file)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(state.offset))?;
        Ok((file, size))
    };
    let (file, size) = open().map_err(in_file(&options.file))?;
    let lines = LineReader::starting_at(BufReader::new(file), state.offset, state.summary.lines);
    Ok((lines, size))
}

/// Reads the next batch. It depends on the file and the offset alone, so that a retry sends the same one.
fn next_batch(
    lines: &mut LineReader<BufReader<File>>,
    state: &ImportCheckpoint,
    defaults: &Defaults,
) -> std::io::Result<Option<ImportBatch>> {
    let mut batch = ImportBatch::default();
    while batch.read < state.batch as u64 && batch.bytes < MAX_BATCH_BYTES {
        let Some(line) = lines.next()? else {
            break;
        };
        batch.read += 1;
        batch.end = line.end;
        batch.bytes += line.bytes.len();
        match item::parse(&line, defaults) {
            None => {}
            Some(Ok(item)) => {
                batch.items.push(item);
                batch.lines.push(line);
            }
            Some(Err(reason)) => batch.refused.push((line, reason)),
        }
    }
    Ok((batch.read > 0).then_some(batch))
}

/// The report of lines that could not be imported.
struct Report<'a> {
    path: &'a Path,
    file: File,
    bytes: u64,
}

impl<'a> Report<'a> {
    /// Opens the report and cuts it to `bytes`.
    fn open(path: &'a Path, bytes: u64) -> Result<Self, TransferError> {
        let file = open_behind(path, bytes)?;
        Ok(Self { path, file, bytes })
    }

    /// Appends the lines of a batch that failed, in order; returns the size of the report.
    fn add(&mut self, batch: &ImportBatch, results: &[ItemResult]) -> Result<u64, TransferError> {
        let failed = batch
            .lines
            .iter()
            .zip(results)
            .filter_map(|(line, result)| {
                let problem = result.error.as_ref()?;
                Some((line, problem.to_line()))
            });
        let refused = batch
            .refused
            .iter()
            .map(|(line, reason)| (line, reason.clone()));
        let mut entries: Vec<(&Line, String)> = failed.chain(refused).collect();
        entries.sort_by_key(|(line, _)| line.number);
        let mut text = String::new();
        for (line, reason) in entries {
            let shown = String::from_utf8_lossy(&line.bytes);
            text += &format!("{}\t{reason}\t{shown}\n", line.number);
        }
        let write = |file: &mut File| {
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        write(&mut self.file).map_err(in_file(self.path))?;
        self.bytes += text.len() as u64;
        Ok(self.bytes)
    }
}

fn progress(size: u64, state: &ImportCheckpoint) -> ProgressBar {
    // Hidden if standard error is no terminal.
    let bar = ProgressBar::new(size);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  {elapsed} (left: {eta})")
    {
        bar.set_style(style);
    }
    show(&bar, state);
    bar.reset_eta();
    bar
}

fn show(bar: &ProgressBar, state: &ImportCheckpoint) {
    let summary = &state.summary;
    bar.set_position(state.offset);
    bar.set_message(format!(
        "{} lines, {} created, {} existing, {} failed",
        summary.lines, summary.created, summary.existing, summary.failed
    ));
}
