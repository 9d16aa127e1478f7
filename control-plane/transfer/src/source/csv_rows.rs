//! Rows of CSV (RFC 4180), with the delimiter and the columns detected from the first row.

use super::record::{MAX_COLUMNS, MAX_ROW_BYTES, RecordContent, SourceRecord, column_name};
use super::text::DecodedText;
use csv::{ByteRecord, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::io::{self, BufRead, Read};

/// How rows are written in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CsvStyle {
    pub(super) delimiter: u8,
    /// True if quotes are escaped by backslashes, as databases do, and not only doubled.
    pub(super) has_escapes: bool,
}

/// Reads rows.
#[derive(Debug)]
pub(super) struct CsvRows {
    reader: Reader<LimitedReader>,
    columns: Vec<String>,
    /// The first row, if it is not a header.
    first: Option<ByteRecord>,
}

/// A text with a limit of the bytes read for one row. Line ends are normalized to `\n`, so that lines can be counted.
#[derive(Debug)]
struct LimitedReader {
    text: DecodedText,
    left: usize,
    last: u8,
}

impl LimitedReader {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.text.fill_buf()?.first().copied())
    }
}

impl Read for LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let reason = format!("a row is longer than {MAX_ROW_BYTES} bytes: is a quote open?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let mut read = 0;
        while let Some(room) = buffer.get_mut(read) {
            let byte = match self.peek()? {
                None if self.last == b'\n' => break,
                None => b'\n',
                Some(byte) => {
                    self.text.consume(1);
                    if byte == b'\r' && self.peek()? == Some(b'\n') {
                        continue;
                    }
                    byte
                }
            };
            *room = byte;
            self.last = byte;
            read += 1;
        }
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

impl CsvRows {
    /// Reads a text. Its columns are those of `nameless` if it has about as many, and a row of values comes first.
    pub(super) fn new(
        text: DecodedText,
        style: CsvStyle,
        nameless: &'static [&'static str],
    ) -> io::Result<Self> {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(style.delimiter)
            .escape(style.has_escapes.then_some(b'\\'))
            .from_reader(LimitedReader {
                text,
                left: MAX_ROW_BYTES,
                last: b'\n',
            });
        let mut rows = Self {
            reader,
            columns: Vec::new(),
            first: None,
        };
        let Some(first) = rows.row()? else {
            return Ok(rows);
        };
        if first.len() > MAX_COLUMNS {
            let (found, line) = (first.len(), rows.reader.position().line() - 1);
            let reason = format!("line {line} has {found} columns, and may have {MAX_COLUMNS}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let names = first.iter().map(String::from_utf8_lossy);
        let names: Vec<String> = names.map(|name| column_name(name.trim())).collect();
        // The last column may be missing.
        let is_nameless = names.iter().any(|name| name.contains("://"))
            && (nameless.len().saturating_sub(1)..=nameless.len()).contains(&names.len());
        if is_nameless {
            rows.columns = nameless.iter().map(|name| (*name).to_owned()).collect();
            rows.first = Some(first);
        } else {
            rows.columns = names;
        }
        Ok(rows)
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<SourceRecord>> {
        let row = match self.first.take() {
            Some(first) => Some(first),
            None => self.row()?,
        };
        let Some(row) = row else {
            return Ok(None);
        };
        let lines = row.as_slice().iter().filter(|byte| **byte == b'\n');
        let place = self.reader.position();
        Ok(Some(SourceRecord {
            number: place.line().saturating_sub(1 + lines.count() as u64),
            end: place.byte(),
            content: self.content(&row),
        }))
    }

    fn row(&mut self) -> io::Result<Option<ByteRecord>> {
        self.reader.get_mut().left = MAX_ROW_BYTES;
        let line = self.reader.position().line();
        let mut row = ByteRecord::new();
        let is_there = self.reader.read_byte_record(&mut row).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("line {line}: {error}"))
        })?;
        Ok(is_there.then_some(row))
    }

    fn content(&self, row: &ByteRecord) -> RecordContent {
        let lossy = |reason: String| {
            let text: Vec<u8> = row.iter().collect::<Vec<_>>().join(&b',');
            RecordContent::wrong(&String::from_utf8_lossy(&text), reason)
        };
        if row.len() > self.columns.len() {
            return lossy(format!(
                "has {} fields, and there are {} columns",
                row.len(),
                self.columns.len()
            ));
        }
        let mut fields = Map::new();
        for (column, field) in self.columns.iter().zip(row) {
            match str::from_utf8(field) {
                Ok(text) => fields.insert(column.clone(), Value::from(text)),
                Err(error) => return lossy(format!("{column} is not UTF-8: {error}")),
            };
        }
        RecordContent::Row(fields)
    }
}

impl CsvStyle {
    /// Detects the style of a text. The most frequent delimiter in its first line separates fields. A quote behind a backslash,
    /// and in the middle of a field, is escaped by it.
    pub(super) fn of(mut text: DecodedText) -> io::Result<Self> {
        let (mut is_quoted, mut is_first_line) = (false, true);
        let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
        let mut last = [0, 0];
        let mut has_escapes = false;
        loop {
            let piece = text.fill_buf()?;
            let read = piece.len();
            for byte in piece {
                match byte {
                    b'"' => is_quoted = !is_quoted,
                    b'\n' | b'\r' if !is_quoted => is_first_line = false,
                    _ if !is_quoted && is_first_line => {
                        for (delimiter, count) in &mut counts {
                            *count += usize::from(byte == delimiter);
                        }
                    }
                    _ => {}
                }
                has_escapes |= last == *b"\\\"" && !b",;\t\"\r\n".contains(byte);
                last = [last[1], *byte];
            }
            text.consume(read);
            if read == 0 {
                break;
            }
        }
        // The first one in case of a tie.
        let most = counts.iter().rev().max_by_key(|(_, count)| *count);
        Ok(Self {
            delimiter: most.map_or(b',', |(delimiter, _)| *delimiter),
            has_escapes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const NAMELESS: &[&str] = &["keyword", "url", "title", "timestamp", "ip", "clicks"];

    fn rows(text: &[u8]) -> io::Result<Vec<SourceRecord>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let open = || DecodedText::open(file.path(), encoding_rs::UTF_8).unwrap();
        let mut rows = CsvRows::new(open(), CsvStyle::of(open())?, NAMELESS)?;
        let mut found = Vec::new();
        while let Some(record) = rows.next()? {
            found.push(record);
        }
        Ok(found)
    }

    fn shown(text: &[u8]) -> Vec<String> {
        let rows = rows(text).unwrap();
        rows.iter().map(|row| row.shown().to_string()).collect()
    }

    #[test]
    fn csv_file_when_quotes_and_delimiters_vary_is_read() {
        let text = b"\xef\xbb\xbfa,b\r\n\"x, \"\"y\"\"\r\nz\",=1+1\r\n\r\n,\r\nlast";
        assert_eq!(
            shown(text),
            [
                r#"{"a":"x, \"y\"\nz","b":"=1+1"}"#,
                r#"{"a":"","b":""}"#,
                r#"{"a":"last"}"#
            ]
        );
        let numbers: Vec<u64> = rows(text).unwrap().iter().map(|row| row.number).collect();
        assert_eq!(numbers, [2, 5, 6]);
        assert_eq!(
            shown(b"a;\"b,c\";d\n1;2;3"),
            [r#"{"a":"1","b,c":"2","d":"3"}"#]
        );
        assert_eq!(shown(b"a\tb\n1\t2"), [r#"{"a":"1","b":"2"}"#]);
        assert!(shown(b"").is_empty() && shown(b"a,b\n").is_empty());
    }

    #[test]
    fn csv_file_when_of_a_database_has_escapes() {
        let text = b"a,b\n\"Say \\\"hello\\\"\",\\N\n\"C:\\\\\",1\n";
        assert_eq!(
            shown(text),
            [
                r#"{"a":"Say \"hello\"","b":"\\N"}"#,
                r#"{"a":"C:\\","b":"1"}"#
            ]
        );
        let without = b"a,b\n\"C:\\\",1\n";
        assert_eq!(shown(without), [r#"{"a":"C:\\","b":"1"}"#]);
    }

    #[test]
    fn csv_row_when_unreadable_is_wrong_alone() {
        let found = rows(b"a,b\n1,2,3\n\xff,x\nok,1\n").unwrap();
        let is_wrong = |record: &SourceRecord| matches!(record.content, RecordContent::Wrong(..));
        let wrong: Vec<bool> = found.iter().map(is_wrong).collect();
        assert_eq!(wrong, [true, true, false]);
    }

    #[test]
    fn quote_when_never_closed_ends_the_reading() {
        let mut text = b"a,b\n\"x,".to_vec();
        text.resize(3 << 20, b'y');
        let error = rows(&text).unwrap_err();
        assert!(error.to_string().contains("is a quote open?"), "{error}");
    }

    #[test]
    fn yourls_table_when_without_column_names_is_read() {
        let text = b"\"abc\",\"https://e/\",\"T\",\"2014-03-08 00:38:44\",\"127.0.0.1\",\"7\"\n";
        let found = rows(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].shown()["clicks"], "7");
    }
}
