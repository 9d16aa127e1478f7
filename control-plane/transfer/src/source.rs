//! Files of links: the formats of edgelink and of other systems, read record by record.

mod columns;
mod csv_rows;
mod format;
mod json_items;
mod json_text;
mod line_item;
mod lines;
mod meaning;
mod record;
mod sql_rows;
mod survey;
mod text;

use columns::RowReading;
use csv_rows::{CsvRows, CsvStyle};
use edgelink_wire::domain_name;
use encoding_rs::Encoding;
use json_items::JsonItems;
use lines::{LineReader, MAX_LINE_BYTES};
use record::RecordContent;
use serde_json::Value;
use sql_rows::SqlRows;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use text::{DecodedText, encoding_of};
use time::OffsetDateTime;

pub(super) use columns::MAX_PLACES;
pub use format::Format;
pub use meaning::{ColumnMap, ColumnMapError, Meaning};
pub(super) use record::{Item, SourceRecord};
pub use survey::{Loss, SourceProblem, Survey};

/// Mapping of records to items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The format; `None` if it is to be recognised.
    pub format: Option<Format>,
    /// The encoding; `None` if it is to be recognised.
    pub encoding: Option<&'static Encoding>,
    /// Meanings of columns beside what the format says of them.
    pub columns: ColumnMap,
    /// The domain of links without one.
    pub domain: Option<String>,
    /// Replacements of domains.
    pub domains: HashMap<String, String>,
    /// Default of `findIfExists`.
    pub find_if_exists: bool,
    /// Leaves out dates of creation and counts of clicks.
    pub is_without_history: bool,
}

impl Mapping {
    /// Adds `OLD=NEW`, the replacement of a domain, or the domain of links without one.
    pub fn add_domain(&mut self, text: &str) {
        match text.split_once('=') {
            Some((old, new)) => {
                self.domains.insert(canonical(old), new.to_owned());
            }
            None => self.domain = Some(text.to_owned()),
        }
    }
}

/// The name of a domain in lower case and Punycode, if it is one.
fn canonical(domain: &str) -> String {
    let name = domain_name::parse(domain);
    name.map_or_else(
        |_| domain.to_ascii_lowercase(),
        |name| name.as_str().to_owned(),
    )
}

/// A file whose encoding and format are known, and the mapping of its records.
#[derive(Clone, Debug)]
pub(super) struct LinkFile {
    path: PathBuf,
    encoding: &'static Encoding,
    pub(super) format: Format,
    mapping: Mapping,
}

impl LinkFile {
    /// The file, in the encoding and the format of the mapping, or else in what is found out about it; `None` if the format is
    /// not recognised.
    fn of(path: &Path, mapping: &Mapping) -> io::Result<Option<Self>> {
        let encoding = match mapping.encoding {
            Some(encoding) => encoding,
            None => encoding_of(path)?,
        };
        let format = match mapping.format {
            Some(format) => Some(format),
            None => recognised(path, encoding)?,
        };
        Ok(format.map(|format| Self {
            path: path.to_owned(),
            encoding,
            format,
            mapping: mapping.clone(),
        }))
    }

    /// Reads the records behind the first `read` ones. Reading cannot begin in the middle of most files, but it is much faster
    /// than sending.
    pub(super) fn records(&self, read: u64) -> io::Result<Records> {
        let mut records = Records::open(&self.path, self.encoding, self.format)?;
        for _ in 0..read {
            records.next()?;
        }
        Ok(records)
    }

    /// The items of a record of an import that began at `began` (unix seconds): none if it is blank, several if a link has
    /// several short URLs.
    pub(super) fn items(&self, record: &SourceRecord, began: u64) -> Vec<Result<Item, String>> {
        let items = match &record.content {
            RecordContent::Line(line) => line_item::parse(line).into_iter().collect(),
            RecordContent::Row(fields) => self.rows(began).items(fields),
            RecordContent::Wrong(_, reason) => vec![Err(reason.clone())],
        };
        let complete = |item: Result<Item, String>| item.and_then(|item| self.complete(item));
        items.into_iter().map(complete).collect()
    }

    fn rows(&self, began: u64) -> RowReading<'_> {
        let began = i64::try_from(began).unwrap_or(i64::MAX);
        RowReading {
            rules: self.format.rules(),
            columns: &self.mapping.columns,
            is_without_history: self.mapping.is_without_history,
            now: OffsetDateTime::from_unix_timestamp(began).unwrap_or(OffsetDateTime::UNIX_EPOCH),
        }
    }

    /// Fills in defaults of the item, and replaces its domain.
    fn complete(&self, mut item: Item) -> Result<Item, String> {
        let mapping = &self.mapping;
        let fields = &mut item.fields;
        if mapping.is_without_history {
            fields.remove("createdAt");
            fields.remove("importedVisits");
        }
        if let Some(domain) = &mapping.domain {
            let domain = Value::from(domain.as_str());
            fields.entry("domain").or_insert(domain);
        }
        let domain = fields.get("domain").and_then(Value::as_str);
        let other = domain.and_then(|domain| mapping.domains.get(&canonical(domain)));
        if let Some(other) = other.cloned() {
            fields.insert("domain".to_owned(), other.into());
        }
        if mapping.find_if_exists {
            fields.entry("findIfExists").or_insert(Value::from(true));
        }
        let size = serde_json::to_vec(&fields).map_or(0, |bytes| bytes.len());
        if size > MAX_LINE_BYTES {
            return Err(format!("is longer than {MAX_LINE_BYTES} bytes"));
        }
        Ok(item)
    }
}

/// Reads the records of a file.
#[derive(Debug)]
pub(super) struct Records(FileReader);

#[derive(Debug)]
enum FileReader {
    Lines(LineReader<DecodedText>),
    Csv(Box<CsvRows>),
    Sql(SqlRows<DecodedText>),
    Json(JsonItems<DecodedText>),
}

impl Records {
    fn open(path: &Path, encoding: &'static Encoding, format: Format) -> io::Result<Self> {
        let rules = format.rules();
        let text = || DecodedText::open(path, encoding);
        if format == Format::Edgelink {
            return Ok(Self(FileReader::Lines(LineReader::new(text()?))));
        }
        let reader = match (Shape::of(&head(path, encoding)?), &rules.table) {
            (Shape::Json, _) => FileReader::Json(JsonItems::new(text()?)),
            (Shape::Sql, Some(table)) => FileReader::Sql(SqlRows::new(text()?, table)),
            (Shape::Sql | Shape::Csv, _) => {
                let style = CsvStyle::of(text()?)?;
                let rows = CsvRows::new(text()?, style, rules.nameless())?;
                FileReader::Csv(Box::new(rows))
            }
        };
        Ok(Self(reader))
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<SourceRecord>> {
        match &mut self.0 {
            FileReader::Lines(lines) => {
                let line = lines.next()?;
                Ok(line.map(|line| SourceRecord {
                    number: line.number,
                    end: line.end,
                    content: RecordContent::Line(line),
                }))
            }
            FileReader::Csv(rows) => rows.next(),
            FileReader::Sql(rows) => rows.next(),
            FileReader::Json(items) => items.next(),
        }
    }
}

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Csv,
    Sql,
    Json,
}

impl Shape {
    /// Detects the syntax of a text by its beginning.
    fn of(head: &[u8]) -> Self {
        let text = head.trim_ascii_start();
        match text.first() {
            Some(b'{' | b'[') => Self::Json,
            _ if is_sql(text) => Self::Sql,
            _ => Self::Csv,
        }
    }
}

/// True if a text begins like an SQL dump, with a comment or a statement.
fn is_sql(text: &[u8]) -> bool {
    let begins = |start: &str| {
        let head = text.get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
    };
    let starts = [
        "--", "/*", "#", "insert ", "replace ", "create ", "drop ", "set ", "lock ", "use ",
        "start ", "begin", "pragma ",
    ];
    starts.iter().any(|start| begins(start))
}

/// The first bytes of a text.
fn head(path: &Path, encoding: &'static Encoding) -> io::Result<Vec<u8>> {
    const BYTES: u64 = 4_096;
    let mut head = Vec::new();
    let text = DecodedText::open(path, encoding)?;
    text.take(BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The format of a file by the names in its first record; `None` if no format has such names.
fn recognised(path: &Path, encoding: &'static Encoding) -> io::Result<Option<Format>> {
    let head = head(path, encoding)?;
    let head = head.trim_ascii_start();
    if head.starts_with(b"http://") || head.starts_with(b"https://") {
        return Ok(Some(Format::Edgelink));
    }
    let shape = Shape::of(head);
    for format in Format::ALL {
        let is_candidate = match shape {
            Shape::Json => format != Format::ShlinkCsv,
            Shape::Sql => format.rules().table.is_some(),
            Shape::Csv => format != Format::Edgelink,
        };
        if is_candidate && is_of(path, encoding, format)? {
            return Ok(Some(format));
        }
    }
    Ok(None)
}

/// True if the first record of a file, read as of the format, has the names of it.
fn is_of(path: &Path, encoding: &'static Encoding, format: Format) -> io::Result<bool> {
    let first = Records::open(path, encoding, format).and_then(|mut records| records.next());
    let record = match first {
        Err(error) if is_malformed(&error) => return Ok(false),
        first => first?,
    };
    let fields = match record.map(|record| record.content) {
        Some(RecordContent::Row(fields)) => fields,
        Some(RecordContent::Line(line)) => match serde_json::from_slice(&line.bytes) {
            Ok(Value::Object(fields)) => fields,
            _ => return Ok(false),
        },
        Some(RecordContent::Wrong(..)) | None => return Ok(false),
    };
    Ok(format.rules().is_shown_by(&fields))
}

/// True for the error of a file that can be read, and has another syntax than it seems to have.
fn is_malformed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
