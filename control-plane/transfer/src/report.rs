//! The report of an import: a line with a JSON object for each item that was not imported, or only with changes.

use super::client::ItemResult;
use super::source::SourceRecord;
use super::{TransferError, in_file, open_behind};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

/// The outcome of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    /// Its link was created.
    Created,
    /// The link existed already.
    Existing,
    /// Another link has its code.
    Conflict,
    /// It cannot be a link.
    Refused,
}

impl Outcome {
    /// The outcome of an item that was sent.
    pub(super) fn of(result: &ItemResult) -> Self {
        match result.status {
            201 => Self::Created,
            200 => Self::Existing,
            409 => Self::Conflict,
            _ => Self::Refused,
        }
    }
}

/// An entry of the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    /// The line of the file, or the index of the item in it, counted from 1.
    pub(super) line: u64,
    pub(super) outcome: Outcome,
    /// The reason, or the properties that were not kept.
    pub(super) reason: String,
    /// The item as sent, without its password; `None` if the record could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<Cow<'a, Map<String, Value>>>,
    /// The record as read, without passwords.
    pub(super) source: Value,
}

impl Entry<'_> {
    /// The entry of a record that cannot be read.
    pub(super) fn unreadable(record: &SourceRecord, reason: String) -> Self {
        Self {
            line: record.number,
            outcome: Outcome::Refused,
            reason,
            link: None,
            source: source(record),
        }
    }
}

/// Replaces the password of an item by a flag that is true if it has one.
pub(super) fn without_password(item: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    let mut item = Cow::Borrowed(item);
    let names: Vec<String> = item
        .keys()
        .filter(|name| is_password(name))
        .cloned()
        .collect();
    for name in names {
        let has_one = match &item[&name] {
            Value::Null => Value::Null,
            Value::Bool(has_one) => Value::Bool(*has_one),
            _ => Value::Bool(true),
        };
        item.to_mut().insert(name, has_one);
    }
    item
}

/// True if a field with this name may hold a password. Systems spell their names in different ways.
fn is_password(name: &str) -> bool {
    name.to_ascii_lowercase().contains("password")
}

/// The form of a record in the report. A text that is not JSON may contain a password anywhere.
pub(super) fn source(record: &SourceRecord) -> Value {
    match record.shown() {
        Value::Object(fields) => Value::Object(without_password(&fields).into_owned()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) if fields.keys().any(|name| is_password(name)) => {
                Value::from(Value::Object(without_password(&fields).into_owned()).to_string())
            }
            Err(_) if is_password(&text) && text.trim_start().starts_with('{') => {
                Value::from("not shown, as it may hold a password")
            }
            _ => Value::String(text),
        },
        other => other,
    }
}

/// Writes a report.
pub(super) struct ReportWriter<'a> {
    path: &'a Path,
    file: BufWriter<File>,
}

impl<'a> ReportWriter<'a> {
    /// Opens the report and truncates it to `bytes`.
    pub(super) fn open(path: &'a Path, bytes: u64) -> Result<Self, TransferError> {
        let file = BufWriter::new(open_behind(path, bytes)?);
        Ok(Self { path, file })
    }

    /// Appends entries one by one; returns the size of the report.
    pub(super) fn add<'e>(
        &mut self,
        entries: impl Iterator<Item = Entry<'e>>,
    ) -> Result<u64, TransferError> {
        let write = || {
            let mut is_longer = false;
            for entry in entries {
                serde_json::to_writer(&mut self.file, &entry)?;
                self.file.write_all(b"\n")?;
                is_longer = true;
            }
            self.file.flush()?;
            if is_longer {
                self.file.get_ref().sync_data()?;
            }
            self.file.stream_position()
        };
        write().map_err(in_file(self.path))
    }
}
