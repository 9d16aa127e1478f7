//! Links in JSON: one after another, in lists, or in the pages that APIs answer.

use super::record::{Content, Record};
use serde_json::de::IoRead;
use serde_json::{Deserializer, Map, StreamDeserializer, Value};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};

/// Where the pages of APIs have their links: Shlink, Kutt, Bitly and YOURLS.
const LISTS: [&str; 6] = [
    "/shortUrls/data",
    "/data",
    "/links",
    "/result",
    "/shortUrls",
    "/shortLinks",
];

/// Reads links. One value of the file, such as a page, is held in memory.
pub(super) struct JsonItems {
    values: StreamDeserializer<'static, IoRead<BufReader<File>>, Value>,
    page: VecDeque<Value>,
    read: u64,
}

impl fmt::Debug for JsonItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonItems")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl JsonItems {
    /// Reads a file.
    pub(super) fn new(file: File) -> Self {
        let reader = IoRead::new(BufReader::new(file));
        Self {
            values: Deserializer::new(reader).into_iter(),
            page: VecDeque::new(),
            read: 0,
        }
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        while self.page.is_empty() {
            match self.values.next() {
                Some(value) => self.page = links(value.map_err(io::Error::from)?).into(),
                None => return Ok(None),
            }
        }
        let Some(value) = self.page.pop_front() else {
            return Ok(None);
        };
        self.read += 1;
        let content = match value {
            Value::Object(fields) => Content::Row(fields),
            other => Content::Wrong(other.to_string(), "is not an object".to_owned()),
        };
        Ok(Some(Record {
            number: self.read,
            end: self.values.byte_offset() as u64,
            content,
        }))
    }
}

/// The links of a value: those of a list or a page, or else itself.
fn links(value: Value) -> Vec<Value> {
    if let Value::Array(list) = value {
        return list.into_iter().flat_map(links).collect();
    }
    for path in LISTS {
        match value.pointer(path) {
            Some(Value::Array(list)) => return list.clone(),
            // YOURLS: link_1, link_2 ...
            Some(Value::Object(named)) if named.values().all(Value::is_object) => {
                return in_order(named);
            }
            _ => {}
        }
    }
    vec![value]
}

fn in_order(named: &Map<String, Value>) -> Vec<Value> {
    let number = |name: &str| -> Option<u64> { name.rsplit('_').next()?.parse().ok() };
    let mut named: Vec<(&String, &Value)> = named.iter().collect();
    named.sort_by_key(|(name, _)| (number(name), name.to_owned()));
    named.into_iter().map(|(_, link)| link.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn items(text: &str) -> io::Result<Vec<String>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        let mut items = JsonItems::new(file);
        let mut found = Vec::new();
        while let Some(record) = items.next()? {
            found.push(record.shown().to_string());
        }
        Ok(found)
    }

    #[test]
    fn pages_of_every_system_are_taken_apart() {
        for text in [
            r#"{"shortUrls":{"data":[{"a":1},{"a":2}],"pagination":{}}}"#,
            r#"{"shortUrls":{"data":[{"a":1}]}}{"shortUrls":{"data":[]}} {"shortUrls":{"data":[{"a":2}]}}"#,
            r#"{"total":2,"data":[{"a":1},{"a":2}]}"#,
            r#"{"links":[{"a":1},{"a":2}],"pagination":{}}"#,
            r#"{"links":{"link_10":{"a":2},"link_9":{"a":1}},"stats":{}}"#,
            r#"[{"a":1},{"a":2}]"#,
            "{\"a\":1}\n{\"a\":2}\n",
        ] {
            assert_eq!(items(text).unwrap(), [r#"{"a":1}"#, r#"{"a":2}"#], "{text}");
        }
        assert!(items("").unwrap().is_empty() && items("[]").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_json_ends_the_reading_and_what_is_no_link_is_reported() {
        assert!(items("{\"a\":1} {").is_err());
        let found = items("[1, {\"a\":1}]").unwrap();
        assert_eq!(found, ["\"1\"", r#"{"a":1}"#]);
    }
}
