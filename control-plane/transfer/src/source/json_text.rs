//! JSON text, read byte by byte to find the ends of values. A parser checks the captured values.

use std::fmt::Display;
use std::io::{self, BufRead};

/// The longest name of a field that is examined; a longer one is truncated.
const MAX_NAME_BYTES: usize = 64;

/// A JSON text being read.
#[derive(Debug)]
pub(super) struct JsonText<R> {
    reader: R,
    offset: u64,
}

/// The captured part of a value.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) bytes: Vec<u8>,
    most: usize,
    /// True if the value is longer.
    pub(super) is_cut: bool,
    /// The offset of its first byte.
    pub(super) start: u64,
}

impl Capture {
    fn push(&mut self, byte: u8) {
        if self.bytes.len() < self.most {
            self.bytes.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    /// The error of a parser about the value.
    pub(super) fn malformed(&self, error: &impl Display) -> io::Error {
        malformed(format!("the value at byte {}: {error}", self.start))
    }
}

impl<R: BufRead> JsonText<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, offset: 0 }
    }

    /// Number of bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Begins to capture the next value, up to `most` bytes.
    pub(super) fn capture(&self, most: usize) -> Capture {
        Capture {
            bytes: Vec::new(),
            most,
            is_cut: false,
            start: self.offset,
        }
    }

    /// Peeks at the next byte that is not white space; `None` at the end.
    pub(super) fn peek_value(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.skip_byte(),
                next => return Ok(next),
            }
        }
    }

    /// Reads the comma before the next member of a list or an object, or its `end`; returns whether there is a member.
    pub(super) fn advance(&mut self, is_empty: &mut bool, end: u8) -> io::Result<bool> {
        let was_empty = std::mem::replace(is_empty, false);
        match self.peek_value()? {
            Some(byte) if byte == end => {
                self.skip_byte();
                return Ok(false);
            }
            Some(b',') if !was_empty => self.skip_byte(),
            Some(_) if was_empty => {}
            Some(_) => return Err(self.malformed("a comma is missing")),
            None => return Err(self.ended()),
        }
        match self.peek_value()? {
            Some(byte) if byte == end => Err(self.malformed("a comma has nothing behind it")),
            _ => Ok(true),
        }
    }

    /// The name of the next member of an object, which is captured to the colon; `None` at the end of the object.
    pub(super) fn member(
        &mut self,
        is_empty: &mut bool,
        capture: &mut Capture,
    ) -> io::Result<Option<String>> {
        let is_first = *is_empty;
        if !self.advance(is_empty, b'}')? {
            capture.push(b'}');
            return Ok(None);
        }
        if !is_first {
            capture.push(b',');
        }
        self.name(capture).map(Some)
    }

    /// The name of a field, which is captured to the colon.
    pub(super) fn name(&mut self, capture: &mut Capture) -> io::Result<String> {
        if self.peek_value()? != Some(b'"') {
            return Err(self.malformed("a name is missing"));
        }
        let mut name = self.capture(MAX_NAME_BYTES);
        self.take_into(capture)?;
        while self.string_byte(capture, &mut name)? {}
        if self.peek_value()? != Some(b':') {
            return Err(self.malformed("a colon is missing"));
        }
        self.take_into(capture)?;
        Ok(String::from_utf8_lossy(&name.bytes).into_owned())
    }

    /// Reads a byte of a string, whose first quote was read; returns true if the string continues.
    fn string_byte(&mut self, capture: &mut Capture, text: &mut Capture) -> io::Result<bool> {
        let byte = self.take_into(capture)?;
        match byte {
            b'"' => return Ok(false),
            b'\\' => {
                self.take_into(capture)?;
            }
            _ => {}
        }
        text.push(byte);
        Ok(true)
    }

    /// Captures the next value.
    pub(super) fn value(&mut self, capture: &mut Capture) -> io::Result<()> {
        match self.peek_value()? {
            Some(b'{' | b'[' | b'"') => self.delimited(capture),
            Some(_) => self.scalar(capture),
            None => Err(self.ended()),
        }
    }

    /// Captures a string, or a text in brackets.
    fn delimited(&mut self, capture: &mut Capture) -> io::Result<()> {
        let mut depth = 0_u64;
        let mut nothing = self.capture(0);
        loop {
            match self.take_into(capture)? {
                b'"' => while self.string_byte(capture, &mut nothing)? {},
                b'{' | b'[' => depth += 1,
                // The first byte opens one.
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Captures a number or a word.
    fn scalar(&mut self, capture: &mut Capture) -> io::Result<()> {
        let start = self.offset;
        while let Some(byte) = self.peek()? {
            let is_of_it = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            if !is_of_it {
                break;
            }
            self.take_into(capture)?;
        }
        if self.offset == start {
            Err(self.malformed("a value is missing"))
        } else {
            Ok(())
        }
    }

    /// Skips to the end of `count` enclosing objects; the position must be between two members.
    pub(super) fn leave_objects(&mut self, count: u32) -> io::Result<()> {
        for _ in 0..count {
            let mut nothing = self.capture(0);
            let mut is_empty = false;
            while self.member(&mut is_empty, &mut nothing)?.is_some() {
                self.value(&mut nothing)?;
            }
        }
        Ok(())
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    /// Consumes the peeked byte.
    pub(super) fn skip_byte(&mut self) {
        self.reader.consume(1);
        self.offset += 1;
    }

    /// Captures a byte.
    pub(super) fn take_into(&mut self, capture: &mut Capture) -> io::Result<u8> {
        let byte = self.peek()?.ok_or_else(|| self.ended())?;
        self.skip_byte();
        capture.push(byte);
        Ok(byte)
    }

    /// The error of a text that is not JSON at this position.
    pub(super) fn malformed(&self, reason: &str) -> io::Error {
        malformed(format!("{reason} at byte {}", self.offset))
    }

    fn ended(&self) -> io::Error {
        let reason = format!("the file ends inside of a value, at byte {}", self.offset);
        io::Error::new(io::ErrorKind::UnexpectedEof, reason)
    }
}

fn malformed(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
