//! Files of links: the formats of edgelink and of other systems, read record by record.

mod columns;
mod csv_rows;
mod json_items;
mod json_text;
mod line_item;
mod lines;
mod record;
mod sql_rows;
mod times;

use csv_rows::CsvRows;
use json_items::JsonItems;
use lines::{LineReader, MAX_LINE_BYTES};
use record::RecordContent;
use serde_json::Value;
use sql_rows::SqlRows;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

pub(super) use columns::MAX_PLACES;
pub use record::Format;
pub(super) use record::{Item, SourceRecord};

/// Mapping of records to items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The format.
    pub format: Format,
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
    /// The items of a record: none if it is blank, several if a link has several short URLs.
    pub(super) fn items(&self, record: &SourceRecord) -> Vec<Result<Item, String>> {
        let items = match &record.content {
            RecordContent::Line(line) => line_item::parse(line).into_iter().collect(),
            RecordContent::Row(fields) => columns::items(fields, self.format),
            RecordContent::Wrong(_, reason) => vec![Err(reason.clone())],
        };
        let complete = |item: Result<Item, String>| item.and_then(|item| self.complete(item));
        items.into_iter().map(complete).collect()
    }

    /// Fills in defaults of the item, and replaces its domain.
    fn complete(&self, mut item: Item) -> Result<Item, String> {
        let fields = &mut item.fields;
        if self.is_without_history {
            fields.remove("createdAt");
            fields.remove("importedVisits");
        }
        if let Some(domain) = &self.domain {
            let domain = Value::from(domain.as_str());
            fields.entry("domain").or_insert(domain);
        }
        let domain = fields.get("domain").and_then(Value::as_str);
        let other = domain.and_then(|domain| self.domains.get(&domain.to_ascii_lowercase()));
        if let Some(other) = other.cloned() {
            fields.insert("domain".to_owned(), other.into());
        }
        if self.find_if_exists {
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
    Lines(LineReader<BufReader<File>>),
    Csv(CsvRows),
    Sql(SqlRows<BufReader<File>>),
    Json(JsonItems<BufReader<File>>),
}

impl Records {
    /// Opens a file and continues behind `read` records, which end at the offset `end`.
    pub(super) fn open(path: &Path, format: Format, end: u64, read: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if format == Format::Edgelink {
            file.seek(SeekFrom::Start(end))?;
            let lines = LineReader::starting_at(BufReader::new(file), end, read);
            return Ok(Self(FileReader::Lines(lines)));
        }
        let head = head(&mut file)?;
        let reader = match Shape::of(format, &head) {
            Shape::Csv => FileReader::Csv(CsvRows::new(file, &head, format)?),
            Shape::Sql => FileReader::Sql(SqlRows::new(BufReader::new(file))),
            Shape::Json => FileReader::Json(JsonItems::new(BufReader::new(file))),
        };
        let mut records = Self(reader);
        // Reading cannot begin in the middle of these files, but it is much faster than sending.
        for _ in 0..read {
            records.next()?;
        }
        Ok(records)
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
    /// Detects the syntax of a file by its first bytes; some formats have several.
    fn of(format: Format, head: &[u8]) -> Self {
        let head = head.strip_prefix(lines::BYTE_ORDER_MARK).unwrap_or(head);
        let text = head.trim_ascii_start();
        let is_json = matches!(text.first(), Some(b'{' | b'['));
        match format {
            Format::Edgelink | Format::ShlinkApi | Format::Kutt => Self::Json,
            Format::ShlinkCsv | Format::Csv => Self::Csv,
            Format::Yourls | Format::Bitly if is_json => Self::Json,
            Format::Yourls if is_sql(text) => Self::Sql,
            Format::Yourls | Format::Bitly => Self::Csv,
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
        "--", "/*", "#", "insert ", "create ", "drop ", "set ", "lock ", "use ", "start ",
    ];
    starts.iter().any(|start| begins(start))
}

/// Reads the first bytes of a file, and rewinds it.
fn head(file: &mut File) -> io::Result<Vec<u8>> {
    const BYTES: u64 = 65_536;
    let mut head = Vec::new();
    file.take(BYTES).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head)
}

#[cfg(test)]
mod tests;
