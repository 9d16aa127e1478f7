//! Importing: records become items, items are sent in batches, and a checkpoint follows each batch.
//!
//! A batch that was sent before its checkpoint is sent again under the same `Idempotency-Key`, so no record becomes two links.
//! The API keeps such keys for a day only. A later retry is sent with `findIfExists`: each item finds the link that it has
//! created, and equal items become one link. Items with a code find their link at any time. `findIfExists` finds no link with
//! a password: items with a password and without a code are left out then, and reported.

use super::client::{Destination, ImportMode, ItemResult};
use super::http::{AttemptError, ClientError, with_retries};
use super::report::{Entry, Outcome, ReportWriter, source, without_password};
use super::source::{Format, Item, LinkFile, MAX_PLACES, Mapping, Records, SourceRecord, Survey};
use super::{TransferError, in_file, read_checkpoint, write_checkpoint};
use edgelink_model::clock;
use edgelink_service::passwords::MAX_PER_REQUEST;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes of records in a batch: below the API's limit of a request.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// The longest answer to a batch in bytes, by [`ImportBatch::answer_bytes`]: less than the default of
/// `server.max_bulk_answer_bytes`, because an item without room in the answer is not carried out.
const MAX_ANSWER_BYTES: usize = 24 << 20;

/// The most items of a batch, the API's limit of a request. A record may have several.
const MAX_ITEMS: usize = 10_000;

/// Seconds for which a batch is retried unchanged: an hour less than the API's retention of its key.
const KEY_RETENTION_SECONDS: u64 = 23 * 60 * 60;

/// Number of leading bytes that identify a file.
const HEAD_BYTES: u64 = 65_536;

/// The source of an import and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The file.
    pub file: PathBuf,
    /// The format of the file, and the mapping of its records to links.
    pub mapping: Mapping,
    /// The report of items that were not imported, or only with changes: a JSON object per line.
    pub report: PathBuf,
    /// The file of its progress. It is kept when the import is done, so that repeating the command does nothing.
    pub checkpoint: PathBuf,
    /// Number of records in a batch, 1 to 10,000.
    pub batch: usize,
    /// Limits of memory.
    pub memory: ImportMemory,
    /// True if nothing is created, and no progress is kept.
    pub is_dry_run: bool,
}

/// Limits of the memory of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportMemory {
    /// A batch ends when its records have this many bytes. Their items, the request and its answer take a few times as much.
    /// Batches depend on it: an import that is resumed keeps its initial value.
    pub batch_bytes: usize,
    /// The most codes that a dry run remembers, to report duplicates in the file. Each takes about 25 bytes.
    pub max_foreseen: usize,
}

impl Default for ImportMemory {
    fn default() -> Self {
        Self {
            batch_bytes: MAX_BATCH_BYTES,
            max_foreseen: usize::MAX,
        }
    }
}

/// The result of an import, including earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportSummary {
    /// Records read, including blank lines.
    pub records: u64,
    /// Links created.
    pub created: u64,
    /// Clicks that the created links had before.
    pub visits: u64,
    /// Items whose link existed already.
    pub existing: u64,
    /// Items whose code another link has.
    pub conflicts: u64,
    /// Items that cannot be links.
    pub refused: u64,
    /// Links created or found with a note in the report of properties that were not kept.
    pub noted: u64,
}

impl ImportSummary {
    /// Items that were not imported.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.conflicts + self.refused
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImportCheckpoint {
    /// A random id, part of each `Idempotency-Key`.
    id: String,
    head: String,
    head_bytes: u64,
    format: String,
    /// Its begin, in unix seconds.
    #[serde(default)]
    began: u64,
    batch: usize,
    pub offset: u64,
    report_bytes: u64,
    pub summary: ImportSummary,
    /// The attempt to send the batch at `offset`; set once it may have been sent.
    #[serde(default)]
    sent: Option<SendTime>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendTime {
    /// Time at which it was first sent, in unix seconds.
    at: u64,
    /// True if it was sent again after [`KEY_RETENTION_SECONDS`].
    is_late: bool,
}

/// A batch of records.
#[derive(Default)]
struct ImportBatch {
    items: Vec<Map<String, Value>>,
    /// The index of each item's record, and notes of properties that are not kept.
    origins: Vec<(usize, Vec<String>)>,
    records: Vec<SourceRecord>,
    /// Records that cannot be read.
    refused: Vec<(usize, String)>,
    /// Number of items that set a password.
    passwords: usize,
    bytes: usize,
    end: u64,
}

/// Progress of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Bytes of the text that are done.
    pub offset: u64,
    /// Length of the text in bytes.
    pub size: u64,
    /// Outcomes of the records.
    pub summary: ImportSummary,
}

/// A file that was read to its end before it is imported.
#[derive(Clone, Debug)]
pub struct SurveyedFile {
    source: LinkFile,
    /// What is in it.
    pub survey: Arc<Survey>,
}

/// Reads a file to its end, and says what is in it, before it is imported.
///
/// # Errors
/// [`TransferError::Source`] if nothing of it is to be imported.
pub fn survey(file: &Path, mapping: &Mapping) -> Result<SurveyedFile, TransferError> {
    let found = LinkFile::survey(file, mapping);
    let (source, survey) = found.map_err(|problem| TransferError::Source {
        path: file.to_owned(),
        problem,
    })?;
    Ok(SurveyedFile {
        source,
        survey: Arc::new(survey),
    })
}

/// Surveys a file, and imports it, or the rest of it after an earlier run, with a progress bar.
///
/// # Errors
/// The errors of [`survey`] and [`watch_import`].
pub async fn import(
    client: &super::ApiClient,
    options: &ImportOptions,
) -> Result<ImportSummary, TransferError> {
    let file = survey(&options.file, &options.mapping)?;
    import_surveyed(client, &file, options).await
}

/// Imports a file, or the rest of it after an earlier run, with a progress bar.
///
/// # Errors
/// The errors of [`watch_import`].
pub async fn import_surveyed(
    client: &super::ApiClient,
    file: &SurveyedFile,
    options: &ImportOptions,
) -> Result<ImportSummary, TransferError> {
    let bar = progress_bar();
    let summary = watch_import(client, file, options, |progress| show(&bar, progress)).await?;
    bar.finish();
    Ok(summary)
}

/// Imports a file, or the rest of it after an earlier run, and reports its progress to `observe`.
///
/// # Errors
/// A [`TransferError`] that stops the import. A record that cannot be imported does not: it is reported.
pub async fn watch_import(
    destination: &impl Destination,
    SurveyedFile { source, survey }: &SurveyedFile,
    options: &ImportOptions,
    mut observe: impl FnMut(&ImportProgress),
) -> Result<ImportSummary, TransferError> {
    let size = survey.bytes;
    let mut state = resume(options, source.format)?;
    let records = source.records(state.summary.records);
    let mut records = records.map_err(in_file(&options.file))?;
    let mut report = ReportWriter::open(&options.report, state.report_bytes)?;
    observe(&state.progress(size));
    let mut foreseen = ForeseenCodes::new(options.memory.max_foreseen);
    while let Some(batch) =
        next_batch(&mut records, source, &state, options.memory).map_err(in_file(&options.file))?
    {
        let mut outcomes = Vec::new();
        if !batch.items.is_empty() {
            let mode = if options.is_dry_run {
                ImportMode::DryRun
            } else {
                state.begin_send(clock::unix_seconds());
                write_checkpoint(&options.checkpoint, &state)?;
                ImportMode::Create(state.request())
            };
            outcomes = send(destination, &state, &batch, &mode).await?;
        }
        if options.is_dry_run {
            foreseen.correct(&batch.items, &mut outcomes);
        }
        state.report_bytes = report.add(batch.entries(&outcomes))?;
        state.advance(&batch, &outcomes);
        if !options.is_dry_run {
            write_checkpoint(&options.checkpoint, &state)?;
        }
        observe(&state.progress(size));
        // A batch without anything to send never waits, and could not be cancelled.
        tokio::task::yield_now().await;
    }
    Ok(state.summary)
}

/// Sends a batch; returns the outcomes of its items, including those that are left out.
async fn send(
    destination: &impl Destination,
    state: &ImportCheckpoint,
    batch: &ImportBatch,
    mode: &ImportMode,
) -> Result<Vec<ItemOutcome>, TransferError> {
    let items = state.items(batch);
    let mut results = if items.is_empty() {
        Vec::new()
    } else {
        deliver(destination, &items, mode).await?
    }
    .into_iter();
    let outcome = |item| {
        if state.leaves_out(item) {
            Some((Outcome::Refused, MAY_EXIST.to_owned()))
        } else {
            results.next().map(outcome)
        }
    };
    Ok(batch.items.iter().filter_map(outcome).collect())
}

/// The reason in the report for an item left out of a late batch.
const MAY_EXIST: &str = "may exist: it was sent more than 23 hours ago, and no answer was noted; a link with a password \
     that was given no code is not found by its other fields";

/// The outcome of an item, and the reason.
type ItemOutcome = (Outcome, String);

fn outcome(result: ItemResult) -> ItemOutcome {
    (Outcome::of(&result), result.problem.unwrap_or_default())
}

/// Imports links, with retries while the destination or its database is unavailable.
async fn deliver(
    destination: &impl Destination,
    items: &[Map<String, Value>],
    mode: &ImportMode,
) -> Result<Vec<ItemResult>, ClientError> {
    let attempt = async || {
        let results = destination.import(items, mode).await?;
        match results.iter().find(|result| result.status >= 500) {
            Some(result) => Err(AttemptError::Away(
                result.problem.clone().unwrap_or_default(),
            )),
            None if results.len() == items.len() => Ok(results),
            None => Err(AttemptError::Refused(
                "the answer lacks results of some items".to_owned(),
            )),
        }
    };
    with_retries(attempt).await
}

/// The codes that earlier batches of a dry run would have taken, with hashes of their targets and a flag for a password. The API
/// only sees one batch at a time.
#[derive(Debug)]
struct ForeseenCodes {
    codes: HashMap<u64, (u64, bool)>,
    most: usize,
}

impl ForeseenCodes {
    /// An empty set of at most `most` codes.
    fn new(most: usize) -> Self {
        Self {
            codes: HashMap::new(),
            most,
        }
    }

    /// Corrects the outcomes of items whose code would be taken by an item of an earlier batch.
    fn correct(&mut self, items: &[Map<String, Value>], outcomes: &mut [ItemOutcome]) {
        let mut own = Vec::new();
        for (item, outcome) in items.iter().zip(outcomes) {
            if outcome.0 != Outcome::Created || !item.contains_key("customSlug") {
                continue;
            }
            let place = hash(&[item.get("domain"), item.get("customSlug")]);
            let target = hash(&[item.get("longUrl")]);
            let is_locked = sets_password(item);
            match self.codes.get(&place) {
                None if self.codes.len() + own.len() < self.most => {
                    own.push((place, (target, is_locked)));
                }
                None => {}
                Some((first, is_first_locked))
                    if *first == target && (*is_first_locked || !is_locked) =>
                {
                    *outcome = (Outcome::Existing, String::new());
                }
                Some(_) => {
                    let reason = "customSlug is taken on this domain, by an item before";
                    *outcome = (Outcome::Conflict, reason.to_owned());
                }
            }
        }
        self.codes.extend(own);
    }
}

fn hash(values: &[Option<&Value>]) -> u64 {
    let mut hash = Sha256::new();
    for value in values {
        hash.update(value.map_or_else(String::new, Value::to_string));
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

fn resume(options: &ImportOptions, format: Format) -> Result<ImportCheckpoint, TransferError> {
    if options.is_dry_run {
        return ImportCheckpoint::new(options, format);
    }
    let wrong = |reason: &str| TransferError::Checkpoint {
        path: options.checkpoint.clone(),
        reason: reason.to_owned(),
    };
    let Some(state) = read_checkpoint::<ImportCheckpoint>(&options.checkpoint)? else {
        let state = ImportCheckpoint::new(options, format)?;
        // Written before the first request, because a run that repeats it needs its key.
        write_checkpoint(&options.checkpoint, &state)?;
        return Ok(state);
    };
    if head(&options.file, state.head_bytes)? != (state.head.clone(), state.head_bytes) {
        return Err(wrong("belongs to another file"));
    }
    if state.format != format.word() {
        return Err(wrong("belongs to another format"));
    }
    Ok(state)
}

impl ImportCheckpoint {
    fn new(options: &ImportOptions, format: Format) -> Result<Self, TransferError> {
        let (head, head_bytes) = head(&options.file, HEAD_BYTES)?;
        let id = getrandom::u64().unwrap_or_default();
        Ok(Self {
            id: format!("{id:016x}"),
            head,
            head_bytes,
            format: format.word().to_owned(),
            began: clock::unix_seconds(),
            batch: options.batch,
            offset: 0,
            report_bytes: 0,
            summary: ImportSummary::default(),
            sent: None,
        })
    }

    fn progress(&self, size: u64) -> ImportProgress {
        ImportProgress {
            offset: self.offset,
            size,
            summary: self.summary.clone(),
        }
    }

    /// Records that the next batch is about to be sent, perhaps again.
    fn begin_send(&mut self, now_seconds: u64) {
        self.sent = Some(match self.sent {
            None => SendTime {
                at: now_seconds,
                is_late: false,
            },
            Some(SendTime { at, is_late }) => SendTime {
                at,
                is_late: is_late || now_seconds.saturating_sub(at) > KEY_RETENTION_SECONDS,
            },
        });
    }

    fn is_late(&self) -> bool {
        self.sent.is_some_and(|sent| sent.is_late)
    }

    /// The items of a batch in the form in which they are sent.
    fn items<'a>(&self, batch: &'a ImportBatch) -> Cow<'a, [Map<String, Value>]> {
        let mut items = Cow::from(&batch.items);
        if self.is_late() {
            let items = items.to_mut();
            items.retain(|item| !self.leaves_out(item));
            for item in items {
                item.insert("findIfExists".to_owned(), Value::from(true));
            }
        }
        items
    }

    /// True if an item is no longer sent, because it may have created a link that a retry would not find.
    fn leaves_out(&self, item: &Map<String, Value>) -> bool {
        let is_named = |field| item.get(field).is_some_and(|value| !value.is_null());
        self.is_late() && sets_password(item) && !is_named("customSlug") && !is_named("externalId")
    }

    /// The `Idempotency-Key` of the next batch.
    fn request(&self) -> String {
        let late = if self.is_late() { "-late" } else { "" };
        format!("import-{}-{}{late}", self.id, self.summary.records)
    }

    fn advance(&mut self, batch: &ImportBatch, outcomes: &[ItemOutcome]) {
        self.offset = batch.end;
        self.sent = None;
        let summary = &mut self.summary;
        summary.records += batch.records.len() as u64;
        summary.refused += batch.refused.len() as u64;
        for ((item, (_, notes)), (outcome, _)) in
            batch.items.iter().zip(&batch.origins).zip(outcomes)
        {
            let visits = item.get("importedVisits").and_then(Value::as_u64);
            match outcome {
                Outcome::Created => {
                    summary.created += 1;
                    summary.visits += visits.unwrap_or(0);
                }
                Outcome::Existing => summary.existing += 1,
                Outcome::Conflict => summary.conflicts += 1,
                Outcome::Refused => summary.refused += 1,
            }
            let is_there = matches!(outcome, Outcome::Created | Outcome::Existing);
            summary.noted += u64::from(is_there && !notes.is_empty());
        }
    }
}

/// The hash of the first `limit` bytes of a file, and their number.
fn head(path: &Path, limit: u64) -> Result<(String, u64), TransferError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(in_file(path))?;
    Ok((hex::encode(Sha256::digest(&bytes)), bytes.len() as u64))
}

/// Reads the next batch. It depends only on the file, and on when and with which number of records a batch the import began, so
/// that a retry sends the same batch.
fn next_batch(
    records: &mut Records,
    source: &LinkFile,
    state: &ImportCheckpoint,
    memory: ImportMemory,
) -> io::Result<Option<ImportBatch>> {
    let most_bytes = memory.batch_bytes.min(MAX_BATCH_BYTES);
    let mut batch = ImportBatch::default();
    while batch.has_room(state.batch, most_bytes) {
        let Some(record) = records.next()? else {
            break;
        };
        let items = source.items(&record, state.began);
        batch.add(record, items);
    }
    Ok((!batch.records.is_empty()).then_some(batch))
}

impl ImportBatch {
    fn has_room(&self, most: usize, most_bytes: usize) -> bool {
        self.records.len() < most
            && self.bytes < most_bytes
            && self.answer_bytes() < MAX_ANSWER_BYTES
            && self.passwords < MAX_PER_REQUEST
            && (self.items.len() + MAX_PLACES <= MAX_ITEMS
                || self.items.len() == self.records.len())
    }

    /// Estimates the length of the answer: a fixed part for each link, and up to three times the length of its texts.
    fn answer_bytes(&self) -> usize {
        1_536 * self.items.len().max(self.records.len()) + 3 * self.bytes
    }

    fn add(&mut self, record: SourceRecord, items: Vec<Result<Item, String>>) {
        let index = self.records.len();
        self.end = record.end;
        // Each place of a link repeats all properties of the link.
        self.bytes += record.size() * items.len().max(1);
        for item in items {
            match item {
                Ok(Item { fields, notes }) => {
                    self.passwords += usize::from(sets_password(&fields));
                    self.items.push(fields);
                    self.origins.push((index, notes));
                }
                Err(reason) => self.refused.push((index, reason)),
            }
        }
        self.records.push(record);
    }

    /// The entries of the report, in the order of the records.
    fn entries<'b>(&'b self, outcomes: &'b [ItemOutcome]) -> impl Iterator<Item = Entry<'b>> {
        let refused = self.refused.iter();
        let refused = refused.map(|(index, reason)| (*index, Said::OfRecord(reason)));
        let items = self.items.iter().zip(&self.origins).zip(outcomes);
        let items = items.filter_map(|((item, (index, notes)), outcome)| {
            let said = Said::of_item(item, notes, outcome)?;
            Some((*index, said))
        });
        let mut all: Vec<(usize, Said<'b>)> = refused.chain(items).collect();
        all.sort_by_key(|(index, _)| *index);
        let records = &self.records;
        all.into_iter()
            .map(|(index, said)| said.entry(&records[index]))
    }
}

/// The content of a report entry for a record or an item; the entry itself is built when it is written.
enum Said<'b> {
    /// The reason why the record cannot be read.
    OfRecord(&'b str),
    OfItem(&'b Map<String, Value>, Outcome, Vec<&'b str>),
}

impl<'b> Said<'b> {
    /// The entry of an item; `None` if it was imported without changes.
    fn of_item(
        item: &'b Map<String, Value>,
        notes: &'b [String],
        (outcome, reason): &'b ItemOutcome,
    ) -> Option<Self> {
        let reasons: Vec<&str> = match outcome {
            Outcome::Conflict | Outcome::Refused => vec![reason.as_str()],
            Outcome::Created | Outcome::Existing => notes.iter().map(String::as_str).collect(),
        };
        (!reasons.is_empty()).then_some(Self::OfItem(item, *outcome, reasons))
    }

    fn entry(self, record: &SourceRecord) -> Entry<'b> {
        match self {
            Self::OfRecord(reason) => Entry::unreadable(record, reason.to_owned()),
            Self::OfItem(item, outcome, reasons) => Entry {
                line: record.number,
                outcome,
                reason: reasons.join("; "),
                link: Some(without_password(item)),
                source: source(record),
            },
        }
    }
}

/// True if an item sets a password.
fn sets_password(item: &Map<String, Value>) -> bool {
    item.get("password")
        .is_some_and(|password| !password.is_null())
}

fn progress_bar() -> ProgressBar {
    // Hidden if standard error is not a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  {elapsed} (left: {eta})")
    {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &ImportProgress) {
    let summary = &progress.summary;
    // The progress of an earlier run must not affect the estimate of the remaining time.
    let is_first = bar.length() == Some(0);
    bar.set_length(progress.size);
    bar.set_position(progress.offset);
    if is_first {
        bar.reset_eta();
    }
    bar.set_message(format!(
        "{} read, {} created, {} existing, {} failed",
        summary.records,
        summary.created,
        summary.existing,
        summary.failed()
    ));
}
