//! Records of files, and the items they are mapped to.

use super::lines::RawLine;
use serde_json::{Map, Value};

/// The most bytes of a row, of CSV or of an SQL dump.
pub(super) const MAX_ROW_BYTES: usize = 1 << 20;

/// The most columns of a table, and values of a row.
pub(super) const MAX_COLUMNS: usize = 256;

/// The longest name of a column in bytes; a longer one is truncated.
const MAX_NAME_BYTES: usize = 256;

/// Number of leading bytes of an unreadable record that are kept for the report.
const SHOWN_BYTES: usize = 4_096;

/// A record of a file.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct SourceRecord {
    /// The line on which it begins, or its index among the items of a file without lines. Counted from 1.
    pub(in super::super) number: u64,
    /// The offset of its end in the text, or of the end of the chunk it was read with.
    pub(in super::super) end: u64,
    pub(super) content: RecordContent,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RecordContent {
    Line(RawLine),
    /// The fields by their names.
    Row(Map<String, Value>),
    /// The beginning of an unreadable record, and the reason.
    Wrong(String, String),
}

impl RecordContent {
    /// An unreadable record, with the beginning of its text.
    pub(super) fn wrong(text: &str, reason: impl Into<String>) -> Self {
        Self::Wrong(beginning(text, SHOWN_BYTES).to_owned(), reason.into())
    }
}

/// The name of a column, truncated to its bound.
pub(super) fn column_name(name: &str) -> String {
    beginning(name, MAX_NAME_BYTES).to_owned()
}

/// The longest prefix of a text that fits into `most` bytes.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// An item of an import, ready to be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Item {
    pub(in super::super) fields: Map<String, Value>,
    /// Properties of the link that are not kept, or changed.
    pub(in super::super) notes: Vec<String>,
}

impl SourceRecord {
    /// The record in the form for the report.
    pub(in super::super) fn shown(&self) -> Value {
        match &self.content {
            RecordContent::Line(line) => Value::from(String::from_utf8_lossy(&line.bytes)),
            RecordContent::Row(fields) => Value::Object(fields.clone()),
            RecordContent::Wrong(text, _) => Value::from(text.as_str()),
        }
    }

    /// Approximate size in bytes: a value counts as 32 bytes plus its text, and a name as at least 32.
    pub(in super::super) fn size(&self) -> usize {
        match &self.content {
            RecordContent::Line(line) => line.bytes.len(),
            RecordContent::Row(fields) => fields_size(fields),
            RecordContent::Wrong(text, _) => text.len(),
        }
    }
}

/// The minimum size of a name or a value.
const UNIT: usize = 32;

fn fields_size(fields: &Map<String, Value>) -> usize {
    let field = |(name, value): (&String, &Value)| name.len().max(UNIT) + value_size(value);
    fields.iter().map(field).sum()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => {
            UNIT + list
                .iter()
                .map(|value| UNIT + value_size(value))
                .sum::<usize>()
        }
        Value::Object(fields) => UNIT + fields_size(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => UNIT,
    }
}
