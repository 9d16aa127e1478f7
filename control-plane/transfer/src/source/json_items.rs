//! Links in JSON: one after another, in lists, or in the pages of APIs.
//!
//! Lists and pages are streamed. Only a single link is buffered, up to [`MAX_LINE_BYTES`], and passed to a parser.

use super::json_text::{Capture, JsonText};
use super::lines::MAX_LINE_BYTES;
use super::record::{RecordContent, SourceRecord};
use serde_json::Value;
use std::io::{self, BufRead};

/// The fields of pages that contain links, of any system.
const LISTS: [&str; 6] = ["shortUrls", "data", "links", "result", "shortLinks", "urls"];

/// The deepest nesting of lists.
const MAX_DEPTH: usize = 128;

/// Reads links.
#[derive(Debug)]
pub(super) struct JsonItems<R> {
    text: JsonText<R>,
    /// The lists that are being read, the innermost last.
    open: Vec<OpenList>,
    read: u64,
}

/// A list that is being read.
#[derive(Debug)]
struct OpenList {
    members: Members,
    /// Number of enclosing objects of its page that end behind it.
    enclosing: u32,
    is_empty: bool,
}

/// The members of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Members {
    /// Links, lists and pages.
    Values,
    /// Links.
    Links,
    /// Links by name, such as the `link_1` of YOURLS.
    Named,
}

/// An object in a field that may have the links of a page.
enum NestedObject {
    /// A property of a link.
    Property,
    /// The links of a page, which is open now.
    Opened,
    /// The links of a page, of which this is the first.
    First(SourceRecord),
}

impl<R: BufRead> JsonItems<R> {
    /// Reads a file from its start.
    pub(super) fn new(reader: R) -> Self {
        Self {
            text: JsonText::new(reader),
            open: Vec::new(),
            read: 0,
        }
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<SourceRecord>> {
        loop {
            let Some(list) = self.open.last_mut() else {
                if self.text.peek_value()?.is_none() {
                    return Ok(None);
                }
                if let Some(record) = self.value()? {
                    return Ok(Some(record));
                }
                continue;
            };
            let end = match list.members {
                Members::Named => b'}',
                Members::Values | Members::Links => b']',
            };
            if !self.text.advance(&mut list.is_empty, end)? {
                self.close()?;
                continue;
            }
            let record = match list.members {
                Members::Values => self.value()?,
                Members::Links => Some(self.link()?),
                Members::Named => self.named()?,
            };
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// Reads a value; `None` if it is a list or a page, whose links follow.
    fn value(&mut self) -> io::Result<Option<SourceRecord>> {
        match self.text.peek_value()? {
            Some(b'[') => {
                self.open_list(Members::Values, 0)?;
                Ok(None)
            }
            Some(b'{') => self.object(),
            _ => self.link().map(Some),
        }
    }

    /// Begins a list whose first byte is next.
    fn open_list(&mut self, members: Members, enclosing: u32) -> io::Result<()> {
        if self.open.len() == MAX_DEPTH {
            let reason = format!("lists are nested more than {MAX_DEPTH} deep");
            return Err(self.text.malformed(&reason));
        }
        self.text.skip_byte();
        self.open.push(OpenList {
            members,
            enclosing,
            is_empty: true,
        });
        Ok(())
    }

    /// Ends the innermost list, and reads to the end of its page.
    fn close(&mut self) -> io::Result<()> {
        let closed = self.open.pop();
        self.text
            .leave_objects(closed.map_or(0, |list| list.enclosing))
    }

    /// Reads an object: a link, or a page whose links follow.
    fn object(&mut self) -> io::Result<Option<SourceRecord>> {
        let mut link = self.text.capture(MAX_LINE_BYTES);
        let mut is_empty = true;
        self.text.take_into(&mut link)?;
        while let Some(name) = self.text.member(&mut is_empty, &mut link)? {
            let is_list = LISTS.contains(&name.as_str());
            match self.text.peek_value()? {
                Some(b'[') if is_list => {
                    self.open_list(Members::Links, 1)?;
                    return Ok(None);
                }
                Some(b'{') if is_list => match self.inner(&name, &mut link)? {
                    NestedObject::Property => {}
                    NestedObject::Opened => return Ok(None),
                    NestedObject::First(record) => return Ok(Some(record)),
                },
                _ => self.text.value(&mut link)?,
            }
        }
        self.record(&link).map(Some)
    }

    /// Reads an object in the field `outer` of an object that looks like a link so far.
    fn inner(&mut self, outer: &str, link: &mut Capture) -> io::Result<NestedObject> {
        let is_of_shlink = outer == "shortUrls";
        let mut is_empty = true;
        self.text.take_into(link)?;
        loop {
            let is_first = is_empty;
            let Some(name) = self.text.member(&mut is_empty, link)? else {
                return Ok(NestedObject::Property);
            };
            match self.text.peek_value()? {
                Some(b'[') if is_of_shlink && name == "data" => {
                    self.open_list(Members::Links, 2)?;
                    return Ok(NestedObject::Opened);
                }
                Some(b'{') if is_first && !is_of_shlink => {
                    self.open.push(OpenList {
                        members: Members::Named,
                        enclosing: 1,
                        is_empty: false,
                    });
                    return self.link().map(NestedObject::First);
                }
                _ => self.text.value(link)?,
            }
        }
    }

    /// Reads a link with its name; `None` if it is something else.
    fn named(&mut self) -> io::Result<Option<SourceRecord>> {
        let mut nothing = self.text.capture(0);
        self.text.name(&mut nothing)?;
        if self.text.peek_value()? == Some(b'{') {
            return self.link().map(Some);
        }
        self.text.value(&mut nothing)?;
        Ok(None)
    }

    /// Reads a value as a link.
    fn link(&mut self) -> io::Result<SourceRecord> {
        let mut link = self.text.capture(MAX_LINE_BYTES);
        self.text.value(&mut link)?;
        self.record(&link)
    }

    /// The record of a captured link.
    fn record(&mut self, link: &Capture) -> io::Result<SourceRecord> {
        self.read += 1;
        let content = if link.is_cut {
            let start = link.start;
            let reason =
                format!("is longer than {MAX_LINE_BYTES} bytes: it begins at byte {start}");
            RecordContent::wrong(&String::from_utf8_lossy(&link.bytes), reason)
        } else {
            match serde_json::from_slice(&link.bytes) {
                Ok(Value::Object(fields)) => RecordContent::Row(fields),
                Ok(other) => RecordContent::wrong(&other.to_string(), "is not an object"),
                Err(error) => return Err(link.malformed(&error)),
            }
        };
        Ok(SourceRecord {
            number: self.read,
            end: self.text.offset(),
            content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> io::Result<Vec<SourceRecord>> {
        let mut items = JsonItems::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(record) = items.next()? {
            found.push(record);
        }
        Ok(found)
    }

    fn items(text: &str) -> io::Result<Vec<String>> {
        let shown = |record: &SourceRecord| record.shown().to_string();
        Ok(records(text)?.iter().map(shown).collect())
    }

    #[test]
    fn page_when_of_any_system_is_taken_apart() {
        for text in [
            r#"{"shortUrls":{"data":[{"a":1},{"a":2}],"pagination":{}}}"#,
            r#"{"shortUrls":{"pagination":{"data":{"x":[1]}},"data":[{"a":1},{"a":2}]},"more":["}"]}"#,
            r#"{"shortUrls":{"data":[{"a":1}]}}{"shortUrls":{"data":[]}} {"shortUrls":{"data":[{"a":2}]}}"#,
            r#"{"total":2,"data":[{"a":1},{"a":2}]}"#,
            r#"{"links":[{"a":1},{"a":2}],"pagination":{"data":[{"a":3}]}}"#,
            r#"{"links":{"link_9":{"a":1},"count":2,"link_10":{"a":2}},"stats":{}}"#,
            r#"[{"a":1},{"a":2}]"#,
            r#"[[{"a":1}],[],{"data":[{"a":2}]}]"#,
            "{\"a\":1}\n{\"a\" : 2 }\n",
        ] {
            assert_eq!(items(text).unwrap(), [r#"{"a":1}"#, r#"{"a":2}"#], "{text}");
        }
        assert!(items("").unwrap().is_empty() && items("[]").unwrap().is_empty());
    }

    #[test]
    fn link_when_its_fields_resemble_a_page_keeps_them() {
        for link in [
            r#"{"data":"x","links":{"self":"[{"},"shortUrls":{"total":{"a":1}}}"#,
            r#"{"a":"\"}{","b":[[],{}],"result":null}"#,
            "{}",
        ] {
            assert_eq!(items(link).unwrap(), [link]);
        }
    }

    #[test]
    fn json_when_malformed_ends_reading_and_names_the_place() {
        let long = format!("[{}", "[".repeat(MAX_DEPTH));
        for (text, place) in [
            ("{\"a\":1} {", "byte 9"),
            ("[{\"a\":1},]", "byte 9"),
            ("[{\"a\":1} {\"a\":2}]", "byte 9"),
            ("[{\"a\":x}]", "byte 1"),
            ("{\"a\"}", "byte 4"),
            ("<html>", "byte 0"),
            ("}", "byte 0"),
            ("{\"data\":[{}]", "byte 12"),
            ("\"a", "byte 2"),
            (long.as_str(), "128 deep"),
        ] {
            let error = items(text).unwrap_err().to_string();
            assert!(error.contains(place), "{text}: {error}");
        }
    }

    #[test]
    fn item_when_not_a_link_is_reported_and_leaves_the_next() {
        let found = items("[1, {\"a\":1}, \"x\"]").unwrap();
        assert_eq!(found, ["\"1\"", r#"{"a":1}"#, r#""\"x\"""#]);
        for (before, after) in [("[", "]"), ("", ""), ("{\"data\":[", "]}")] {
            let comma = if before.is_empty() { "" } else { "," };
            let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_LINE_BYTES));
            let text = format!("{before}{long}{comma}{{\"a\":1}}{after}");
            let found = records(&text).unwrap();
            let RecordContent::Wrong(shown, reason) = &found[0].content else {
                panic!("it is too long");
            };
            assert!(shown.len() <= 4_096 && reason.contains("65536"), "{reason}");
            let place = format!("byte {}", before.len());
            assert!(reason.contains(&place), "{reason}");
            assert_eq!(found[1].shown().to_string(), r#"{"a":1}"#);
            assert_eq!((found[1].number, found.len()), (2, 2));
        }
    }
}
