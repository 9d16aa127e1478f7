//! Lines of a text with their offsets, in bounded memory.

use std::io::{self, BufRead};

/// The longest line in bytes, the API's limit of an item.
pub(super) const MAX_LINE_BYTES: usize = 65_536;

/// A line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawLine {
    /// Its number, counted from 1.
    pub(super) number: u64,
    /// Its bytes; the first [`MAX_LINE_BYTES`] of a longer one.
    pub(super) bytes: Vec<u8>,
    /// True if the line is longer.
    pub(super) is_cut: bool,
    /// The offset of its end in the text.
    pub(super) end: u64,
}

/// Reads lines one by one. `\n` and `\r\n` both end a line; the last line needs neither.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: R,
    number: u64,
    offset: u64,
}

impl<R: BufRead> LineReader<R> {
    /// Reads a text from its start.
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            number: 0,
            offset: 0,
        }
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<RawLine>> {
        let mut line = RawLine {
            number: self.number + 1,
            bytes: Vec::new(),
            is_cut: false,
            end: 0,
        };
        let start = self.offset;
        while !self.read_more(&mut line)? {}
        if self.offset == start {
            return Ok(None);
        }
        self.number += 1;
        line.end = self.offset;
        if !line.is_cut && line.bytes.last() == Some(&b'\r') {
            line.bytes.pop();
        }
        Ok(Some(line))
    }

    /// Appends the buffered bytes to the line; returns whether the line has ended.
    fn read_more(&mut self, line: &mut RawLine) -> io::Result<bool> {
        let buffer = self.reader.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let text = &buffer[..end.unwrap_or(buffer.len())];
        let room = MAX_LINE_BYTES - line.bytes.len();
        line.bytes.extend_from_slice(&text[..text.len().min(room)]);
        line.is_cut |= text.len() > room;
        let used = text.len() + usize::from(end.is_some());
        self.reader.consume(used);
        self.offset += used as u64;
        Ok(end.is_some() || used == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(text: &[u8], buffer: usize) -> Vec<RawLine> {
        let mut lines = LineReader::new(BufReader::with_capacity(buffer, text));
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn line_end_when_of_any_kind_is_taken_off() {
        let text = b"a\nb\r\n\r\n\xef\xbb\xbfc\rd\n\ne";
        for buffer in [1, 2, 3, 100] {
            let found = lines(text, buffer);
            let bytes: Vec<&[u8]> = found.iter().map(|line| line.bytes.as_slice()).collect();
            let expected: [&[u8]; 6] = [b"a", b"b", b"", b"\xef\xbb\xbfc\rd", b"", b"e"];
            assert_eq!(bytes, expected);
            let numbers: Vec<u64> = found.iter().map(|line| line.number).collect();
            assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
            assert_eq!(found.last().unwrap().end, text.len() as u64);
        }
    }

    #[test]
    fn line_when_too_long_is_cut_and_the_next_is_whole() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + 1];
        text.extend_from_slice(b"\nnext\n");
        text.extend(vec![b'y'; MAX_LINE_BYTES]);
        let found = lines(&text, 1000);
        assert!(found[0].is_cut);
        assert_eq!(found[0].bytes.len(), MAX_LINE_BYTES);
        assert_eq!(found[1].bytes, b"next");
        assert!(!found[2].is_cut);
    }

    #[test]
    fn file_when_empty_has_no_line() {
        assert!(lines(b"", 10).is_empty());
    }
}
