//! Rows of a table of links in an SQL dump, as written by mysqldump and phpMyAdmin.
//!
//! A dump is read token by token: the content of strings and comments is not SQL, and statements are not buffered.

use super::record::{MAX_COLUMNS, MAX_ROW_BYTES, RecordContent, SourceRecord, column_name};
use serde_json::{Map, Value};
use std::io::{self, BufRead};

/// The longest value in bytes.
const MAX_VALUE_BYTES: usize = 65_536;

/// A table of links in the database of a system.
#[derive(Debug)]
pub(super) struct LinkTable {
    /// Its name, behind a prefix that ends with `_`, if it has one.
    pub(super) name: &'static str,
    /// Its columns, if a dump does not name them.
    pub(super) columns: &'static [&'static str],
    /// True if backslashes escape letters of texts, as in MySQL and not in SQLite.
    pub(super) has_escapes: bool,
}

/// Reads rows.
#[derive(Debug)]
pub(super) struct SqlRows<R> {
    tokens: Tokens<R>,
    table: &'static LinkTable,
    /// The columns of the table by its CREATE TABLE.
    columns: Vec<String>,
    /// The columns of the INSERT whose rows are read; `None` outside of one.
    inserting: Option<Vec<String>>,
}

impl<R: BufRead> SqlRows<R> {
    /// Reads a dump from its start.
    pub(super) fn new(reader: R, table: &'static LinkTable) -> Self {
        Self {
            tokens: Tokens {
                reader,
                line: 1,
                offset: 0,
                is_at_end: true,
                has_escapes: table.has_escapes,
            },
            table,
            columns: table
                .columns
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            inserting: None,
        }
    }

    /// The next row of the table; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<SourceRecord>> {
        loop {
            let Some(columns) = self.inserting.take() else {
                if self.find_rows()? {
                    continue;
                } else {
                    return Ok(None);
                }
            };
            match self.tokens.next()? {
                Some(SqlToken::Symbol(b'(')) => {
                    let number = self.tokens.line;
                    let content = self.row(&columns)?;
                    self.inserting = Some(columns);
                    return Ok(Some(SourceRecord {
                        number,
                        end: self.tokens.offset,
                        content,
                    }));
                }
                Some(SqlToken::Symbol(b',')) => self.inserting = Some(columns),
                None => return Ok(None),
                // The end of the statement, or ON DUPLICATE KEY UPDATE.
                Some(SqlToken::Symbol(b';')) => {}
                Some(_) => self.skip_statement()?,
            }
        }
    }

    /// Reads up to the rows of the next INSERT into the table; `false` at the end.
    fn find_rows(&mut self) -> io::Result<bool> {
        while let Some(token) = self.tokens.next()? {
            let found = match token {
                token if token.is_word("insert") || token.is_word("replace") => {
                    self.begin_insert()?
                }
                token if token.is_word("create") => self.read_create()?,
                _ => false,
            };
            if found {
                return Ok(true);
            }
            self.skip_statement()?;
        }
        Ok(false)
    }

    /// Reads from behind INSERT to behind VALUES; `false` if it is for another table.
    fn begin_insert(&mut self) -> io::Result<bool> {
        let mut token = self.tokens.next()?;
        while token.as_ref().is_some_and(|token| {
            ["ignore", "into", "delayed", "low_priority"]
                .iter()
                .any(|word| token.is_word(word))
        }) {
            token = self.tokens.next()?;
        }
        let (table, token) = self.table(token)?;
        if !self.table.is_named(&table) {
            return Ok(false);
        }
        let (columns, token) = match token {
            Some(SqlToken::Symbol(b'(')) => (self.names()?, self.tokens.next()?),
            token => (self.columns.clone(), token),
        };
        let is_rows = token
            .as_ref()
            .is_some_and(|token| token.is_word("values") || token.is_word("value"));
        self.inserting = is_rows.then_some(columns);
        Ok(is_rows)
    }

    /// The name of a table, which may be qualified by its database, and the token behind it.
    fn table(&mut self, first: Option<SqlToken>) -> io::Result<(String, Option<SqlToken>)> {
        let mut name = first.and_then(SqlToken::into_word).unwrap_or_default();
        let mut next = self.tokens.next()?;
        while next == Some(SqlToken::Symbol(b'.')) {
            name = self
                .tokens
                .next()?
                .and_then(SqlToken::into_word)
                .unwrap_or_default();
            next = self.tokens.next()?;
        }
        Ok((name, next))
    }

    /// Reads the columns of a CREATE TABLE; never rows.
    fn read_create(&mut self) -> io::Result<bool> {
        let mut token = self.tokens.next()?;
        if !token.as_ref().is_some_and(|token| token.is_word("table")) {
            return Ok(false);
        }
        token = self.tokens.next()?;
        while token.as_ref().is_some_and(|token| {
            ["if", "not", "exists"]
                .iter()
                .any(|word| token.is_word(word))
        }) {
            token = self.tokens.next()?;
        }
        let (table, token) = self.table(token)?;
        if self.table.is_named(&table) && token == Some(SqlToken::Symbol(b'(')) {
            self.columns = self.names()?;
        }
        Ok(false)
    }

    /// Names of columns in brackets: those that begin an entry and are not keys.
    fn names(&mut self) -> io::Result<Vec<String>> {
        let (mut names, mut depth, mut begins) = (Vec::new(), 1, true);
        while let Some(token) = self.tokens.next()? {
            match token {
                SqlToken::Symbol(b'(') => depth += 1,
                SqlToken::Symbol(b')') => depth -= 1,
                SqlToken::Symbol(b',') if depth == 1 => {
                    begins = true;
                    continue;
                }
                // A row with more values than these is refused.
                _ if names.len() == MAX_COLUMNS => {}
                SqlToken::Name(name) if begins && depth == 1 => names.push(column_name(&name)),
                SqlToken::Word(name) if begins && depth == 1 && !is_key(&name) => {
                    names.push(column_name(&name));
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            begins = false;
        }
        Ok(names)
    }

    /// The values up to the closing bracket.
    fn row(&mut self, columns: &[String]) -> io::Result<RecordContent> {
        let mut values = RowValues::of(columns);
        let mut depth = 1;
        while depth > 0 {
            let Some(token) = self.tokens.next()? else {
                values.wrong = Some("is cut off".to_owned());
                break;
            };
            match token {
                SqlToken::Symbol(b'(') => depth += 1,
                SqlToken::Symbol(b')') => depth -= 1,
                SqlToken::Symbol(b',') if depth == 1 => values.begin(),
                SqlToken::Symbol(b'-') => values.append("-"),
                SqlToken::Text(text) => values.set(text),
                // NULL, or the character set of the text that follows.
                SqlToken::Word(word)
                    if word.eq_ignore_ascii_case("null") || word.starts_with('_') => {}
                SqlToken::Word(word) => values.append(&word),
                _ => {}
            }
        }
        Ok(values.into_content())
    }

    /// Skips to the semicolon that ends the statement, unless it was read already.
    fn skip_statement(&mut self) -> io::Result<()> {
        while !self.tokens.is_at_end && self.tokens.next()?.is_some() {}
        Ok(())
    }
}

/// The values of a row, within their bounds.
struct RowValues<'c> {
    columns: &'c [String],
    list: Vec<String>,
    bytes: usize,
    /// The reason why the row cannot be read.
    wrong: Option<String>,
}

impl<'c> RowValues<'c> {
    fn of(columns: &'c [String]) -> Self {
        Self {
            columns,
            list: vec![String::new()],
            bytes: 0,
            wrong: None,
        }
    }

    /// Begins the next value.
    fn begin(&mut self) {
        if self.list.len() < MAX_COLUMNS {
            self.list.push(String::new());
        } else {
            self.refuse(|| format!("has more than {MAX_COLUMNS} values"));
        }
    }

    /// Sets the value to a text in quotes.
    fn set(&mut self, text: Text) {
        match text.into_value() {
            Ok(text) => {
                self.clear();
                self.append(&text);
            }
            Err(reason) => {
                let column = self.columns.get(self.list.len() - 1);
                let column = column.map_or("a value", String::as_str);
                self.wrong
                    .get_or_insert_with(|| format!("{column} {reason}"));
            }
        }
    }

    fn clear(&mut self) {
        if let Some(value) = self.list.last_mut() {
            value.clear();
        }
    }

    fn append(&mut self, text: &str) {
        self.bytes += text.len();
        if self.bytes > MAX_ROW_BYTES {
            self.refuse(|| format!("is longer than {MAX_ROW_BYTES} bytes"));
        } else if let Some(value) = self.list.last_mut() {
            value.push_str(text);
        }
    }

    /// Records the first reason why the row cannot be read.
    fn refuse(&mut self, reason: impl FnOnce() -> String) {
        self.wrong.get_or_insert_with(reason);
    }

    fn into_content(self) -> RecordContent {
        let (values, columns) = (self.list, self.columns);
        let wrong = self.wrong.or_else(|| {
            let (found, known) = (values.len(), columns.len());
            let reason = || format!("has {found} values, and there are {known} columns");
            (found != known).then(reason)
        });
        match wrong {
            Some(reason) => RecordContent::wrong(&values.join(","), reason),
            None => {
                let values = values.into_iter().map(Value::from);
                RecordContent::Row(columns.iter().cloned().zip(values).collect::<Map<_, _>>())
            }
        }
    }
}

impl LinkTable {
    fn is_named(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let prefix = name.strip_suffix(self.name);
        prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('_'))
    }
}

fn is_key(word: &str) -> bool {
    [
        "primary",
        "key",
        "unique",
        "index",
        "fulltext",
        "constraint",
    ]
    .iter()
    .any(|key| word.eq_ignore_ascii_case(key))
}

/// A token of SQL.
#[derive(Debug, PartialEq, Eq)]
enum SqlToken {
    /// A keyword, a name without quotes, or a number.
    Word(String),
    /// A name in quotes.
    Name(String),
    /// A value in quotes.
    Text(Text),
    Symbol(u8),
}

/// The bytes of a value, up to [`MAX_VALUE_BYTES`].
#[derive(Debug, Default, PartialEq, Eq)]
struct Text {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Text {
    fn push(&mut self, byte: u8) {
        if self.bytes.len() < MAX_VALUE_BYTES {
            self.bytes.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    fn into_value(self) -> Result<String, String> {
        if self.is_cut {
            return Err(format!("is longer than {MAX_VALUE_BYTES} bytes"));
        }
        String::from_utf8(self.bytes).map_err(|error| format!("is not UTF-8: {error}"))
    }

    fn into_lossy(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl SqlToken {
    fn is_word(&self, wanted: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(wanted))
    }

    fn into_word(self) -> Option<String> {
        match self {
            Self::Word(word) | Self::Name(word) => Some(word),
            Self::Text(text) => Some(text.into_lossy()),
            Self::Symbol(_) => None,
        }
    }
}

/// Reads tokens.
#[derive(Debug)]
struct Tokens<R> {
    reader: R,
    line: u64,
    offset: u64,
    /// True if the last token was a semicolon.
    is_at_end: bool,
    has_escapes: bool,
}

impl<R: BufRead> Tokens<R> {
    /// The next token; `None` at the end.
    fn next(&mut self) -> io::Result<Option<SqlToken>> {
        let token = self.read()?;
        self.is_at_end = token == Some(SqlToken::Symbol(b';'));
        Ok(token)
    }

    fn read(&mut self) -> io::Result<Option<SqlToken>> {
        loop {
            let Some(byte) = self.take()? else {
                return Ok(None);
            };
            match byte {
                byte if byte.is_ascii_whitespace() => {}
                b'#' => self.skip_line()?,
                b'-' if self.peek()? == Some(b'-') => self.skip_line()?,
                b'/' if self.peek()? == Some(b'*') => self.skip_comment()?,
                b'\'' => return Ok(Some(SqlToken::Text(self.quoted(b'\'')?))),
                b'"' => return Ok(Some(SqlToken::Text(self.quoted(b'"')?))),
                b'`' => return Ok(Some(SqlToken::Name(self.quoted(b'`')?.into_lossy()))),
                byte if is_of_word(byte) => return self.word(byte).map(Some),
                symbol => return Ok(Some(SqlToken::Symbol(symbol))),
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    fn take(&mut self) -> io::Result<Option<u8>> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.reader.consume(1);
            self.offset += 1;
            self.line += u64::from(byte == Some(b'\n'));
        }
        Ok(byte)
    }

    fn skip_line(&mut self) -> io::Result<()> {
        while !matches!(self.take()?, None | Some(b'\n')) {}
        Ok(())
    }

    fn skip_comment(&mut self) -> io::Result<()> {
        let mut last = 0;
        self.take()?;
        while let Some(byte) = self.take()? {
            if (last, byte) == (b'*', b'/') {
                break;
            }
            last = byte;
        }
        Ok(())
    }

    /// Reads a text in quotes. Backslashes escape in values, not in names; a doubled quote stands for itself.
    fn quoted(&mut self, quote: u8) -> io::Result<Text> {
        let mut text = Text::default();
        while let Some(byte) = self.take()? {
            match byte {
                b'\\' if self.has_escapes && quote != b'`' => {
                    if let Some(byte) = self.take()? {
                        text.push(unescaped(byte));
                    }
                }
                byte if byte == quote => {
                    if self.peek()? != Some(quote) {
                        return Ok(text);
                    }
                    self.take()?;
                    text.push(quote);
                }
                byte => text.push(byte),
            }
        }
        text.is_cut = true;
        Ok(text)
    }

    /// A word, or a value in hexadecimal digits: `0x61`, `X'61'`.
    fn word(&mut self, first: u8) -> io::Result<SqlToken> {
        let mut word = Text::default();
        word.push(first);
        while let Some(byte) = self.peek()?.filter(|byte| is_of_word(*byte)) {
            self.take()?;
            word.push(byte);
        }
        if word.bytes.eq_ignore_ascii_case(b"x") && self.peek()? == Some(b'\'') {
            self.take()?;
            let digits = self.quoted(b'\'')?;
            return Ok(SqlToken::Text(from_hexadecimal(&digits)));
        }
        if let Some(digits) = word.bytes.strip_prefix(b"0x") {
            let digits = Text {
                bytes: digits.to_vec(),
                is_cut: word.is_cut,
            };
            return Ok(SqlToken::Text(from_hexadecimal(&digits)));
        }
        Ok(SqlToken::Word(word.into_lossy()))
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'@') || byte >= 0x80
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'Z' => 26,
        byte => byte,
    }
}

fn from_hexadecimal(digits: &Text) -> Text {
    let bytes = hex::decode(&digits.bytes);
    Text {
        is_cut: digits.is_cut || bytes.is_err(),
        bytes: bytes.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: LinkTable = LinkTable {
        name: "url",
        columns: &["keyword", "url", "title", "timestamp", "ip", "clicks"],
        has_escapes: true,
    };

    fn rows(dump: &[u8]) -> Vec<SourceRecord> {
        let mut rows = SqlRows::new(dump, &TABLE);
        std::iter::from_fn(|| rows.next().unwrap()).collect()
    }

    fn shown(dump: &[u8]) -> Vec<String> {
        rows(dump)
            .iter()
            .map(|row| row.shown().to_string())
            .collect()
    }

    #[test]
    fn dump_when_of_mysqldump_is_read() {
        let dump = br"-- MariaDB dump 10.19; INSERT INTO `yourls_url` VALUES ('no');
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `yourls_url`;
CREATE TABLE `yourls_url` (
  `keyword` varchar(100) NOT NULL DEFAULT '',
  `url` text NOT NULL,
  `title` text DEFAULT 'a, (b)',
  `timestamp` timestamp NOT NULL DEFAULT current_timestamp(),
  `clicks` int(10) unsigned NOT NULL,
  PRIMARY KEY (`keyword`),
  KEY `timestamp` (`timestamp`)
) ENGINE=InnoDB;
INSERT INTO `yourls_options` VALUES (1,'INSERT INTO `yourls_url` VALUES (1)','x;y');
LOCK TABLES `yourls_url` WRITE;
INSERT INTO `yourls_url` VALUES
('a','https://e/?q=\'1\';--','O''Hara \\ \n','2026-02-25 08:28:34',88),
('b',0x687474703a2f2f65,NULL,'2026-02-25 08:28:34',0),('c',_binary 'https://e/',X'c3a4','',-1);
UNLOCK TABLES;
INSERT INTO `yourls_log` VALUES (1,'2026-01-01','a');
";
        let rows = rows(dump);
        let shown: Vec<String> = rows.iter().map(|row| row.shown().to_string()).collect();
        assert_eq!(
            shown,
            [
                r#"{"clicks":"88","keyword":"a","timestamp":"2026-02-25 08:28:34","title":"O'Hara \\ \n","url":"https://e/?q='1';--"}"#,
                r#"{"clicks":"0","keyword":"b","timestamp":"2026-02-25 08:28:34","title":"","url":"http://e"}"#,
                r#"{"clicks":"-1","keyword":"c","timestamp":"","title":"ä","url":"https://e/"}"#,
            ]
        );
        assert_eq!((rows[0].number, rows[2].number), (16, 17));
    }

    #[test]
    fn insert_when_it_names_columns_is_read_by_them() {
        let dump = br"INSERT IGNORE INTO db.`my_url` (url, keyword) VALUES ('https://e/', 'a') ON DUPLICATE KEY UPDATE url = 'x';
            REPLACE INTO url VALUES ('b','https://f/','T','2026-02-25 08:28:34','::1',3)";
        assert_eq!(
            shown(dump),
            [
                r#"{"keyword":"a","url":"https://e/"}"#,
                r#"{"clicks":"3","ip":"::1","keyword":"b","timestamp":"2026-02-25 08:28:34","title":"T","url":"https://f/"}"#,
            ]
        );
    }

    #[test]
    fn sql_row_when_unreadable_leaves_the_next_ones() {
        let start = b"INSERT INTO yourls_url (keyword, url) VALUES ('a'),('\xff','u'),('";
        let mut dump = start.to_vec();
        dump.resize(dump.len() + MAX_VALUE_BYTES + 1, b'x');
        dump.extend_from_slice(b"','u'),('d','https://e/'),('e','");
        let rows = rows(&dump);
        let is_wrong = |row: &SourceRecord| matches!(row.content, RecordContent::Wrong(..));
        let wrong: Vec<bool> = rows.iter().map(is_wrong).collect();
        assert_eq!(wrong, [true, true, true, false, true]);
    }

    #[test]
    fn dump_when_without_the_table_has_no_rows() {
        for dump in [
            "",
            ";",
            "-- only",
            "/* open",
            "INSERT INTO other VALUES (1);",
            "INSERT",
            "CREATE TABLE x",
        ] {
            assert!(rows(dump.as_bytes()).is_empty(), "{dump}");
        }
    }
}
