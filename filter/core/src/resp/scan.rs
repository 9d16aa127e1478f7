//! Finds the end of a reply: an automaton over bytes that keeps its state between chunks and looks at each byte once.
//!
//! It is strict: anything but RESP2 exactly as Redis writes it is an error. A [`super::reply::Reply`] is only ever made
//! of bytes that passed through here.

/// Maximum nesting of arrays.
pub const MAX_DEPTH: usize = 8;

/// Limits of a reply. Each bounds memory, or time spent on one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest bulk string, in bytes.
    pub bulk_bytes: u32,
    /// The longest array, in elements.
    pub array_elements: u32,
    /// The longest reply as a whole, in bytes; the decoder holds at most this much of an incomplete one.
    pub reply_bytes: usize,
}

/// Reason why bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// No reply starts with this byte.
    #[error("a reply cannot start with the byte {0:#04x}")]
    Kind(u8),
    /// A number or length has this byte in the wrong place.
    #[error("unexpected byte {0:#04x} in a number")]
    Digit(u8),
    /// A number does not fit 64 bits, or a length is negative and not -1.
    #[error("a number is out of range")]
    Range,
    /// CR LF should be where this byte is.
    #[error("byte {0:#04x} instead of the end of a line")]
    LineEnd(u8),
    /// A bulk string is longer than [`Limits::bulk_bytes`].
    #[error("a bulk string of {0} bytes is too long")]
    BulkLength(u64),
    /// An array is longer than [`Limits::array_elements`].
    #[error("an array of {0} elements is too long")]
    ArrayLength(u64),
    /// Arrays are nested deeper than [`MAX_DEPTH`].
    #[error("arrays are nested too deep")]
    Depth,
    /// The reply is longer than [`Limits::reply_bytes`].
    #[error("the reply is too long")]
    ReplyLength,
}

/// Finds the ends of replies in a stream of chunks.
#[derive(Clone, Debug)]
pub struct Scanner {
    limits: Limits,
    expected: Expected,
    /// Missing elements of each open array, outermost first.
    open: [u32; MAX_DEPTH],
    depth: usize,
    /// Bytes of the current reply that were seen.
    seen: usize,
    /// Number of steps so far, as a measure of time.
    #[cfg(test)]
    pub(super) steps: usize,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Kind,
    /// The text of a simple string or an error.
    Text,
    Number(Number),
    /// The LF of a line, and what follows it.
    LineFeed(Then),
    Bulk {
        left: u32,
    },
    BulkCr,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Done,
    Bulk(u32),
    Elements(u32),
}

#[derive(Clone, Copy, Debug)]
struct Number {
    purpose: NumberKind,
    is_negative: bool,
    /// `None` until the first digit.
    value: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum NumberKind {
    Integer,
    BulkLength,
    ArrayLength,
}

impl Scanner {
    /// Starts between two replies.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            expected: Expected::Kind,
            open: [0; MAX_DEPTH],
            depth: 0,
            seen: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// The end of an array of strings and nulls that is complete at the front of `chunk`, as the answer to a lookup nearly
    /// always is. `None` within a reply, and for everything else, valid or not, which is left to [`Self::scan`].
    #[must_use]
    pub fn whole_strings(&self, chunk: &[u8]) -> Option<usize> {
        if self.seen > 0 {
            return None;
        }
        let mut rest = chunk;
        let elements = length(b'*', self.limits.array_elements, &mut rest)??;
        for _ in 0..elements {
            if let Some(length) = length(b'$', self.limits.bulk_bytes, &mut rest)? {
                rest = rest.get(length..)?.strip_prefix(b"\r\n")?;
            }
        }
        let end = chunk.len() - rest.len();
        (elements > 0 && end <= self.limits.reply_bytes).then_some(end)
    }

    /// Scans the next chunk. `Some(length)`: a reply ends after that many bytes of it, and the next one follows. `None`: all of it
    /// belongs to an incomplete reply.
    ///
    /// # Errors
    /// [`ProtocolError`] for malformed input. The scanner is unusable after it.
    pub fn scan(&mut self, chunk: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let mut rest = chunk;
        while !rest.is_empty() {
            let before = rest.len();
            let is_complete = self.step(&mut rest)?;
            self.seen += before - rest.len();
            if self.seen > self.limits.reply_bytes {
                return Err(ProtocolError::ReplyLength);
            }
            if is_complete {
                self.seen = 0;
                return Ok(Some(chunk.len() - rest.len()));
            }
        }
        Ok(None)
    }

    /// Takes one byte, or a run of bytes that need no inspection. Returns `true` if the reply is complete.
    fn step(&mut self, rest: &mut &[u8]) -> Result<bool, ProtocolError> {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        match self.expected {
            Expected::Bulk { left } => {
                self.skip_bulk(left, rest);
                return Ok(false);
            }
            Expected::Text => skip_text(rest),
            _ => {}
        }
        let Some((&byte, tail)) = rest.split_first() else {
            return Ok(false);
        };
        *rest = tail;
        self.byte(byte)
    }

    fn skip_bulk(&mut self, left: u32, rest: &mut &[u8]) {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let taken = wanted.min(rest.len());
        *rest = rest.get(taken..).unwrap_or_default();
        let left = left.saturating_sub(u32::try_from(taken).unwrap_or(left));
        self.expect_bulk(left);
    }

    fn byte(&mut self, byte: u8) -> Result<bool, ProtocolError> {
        match (self.expected, byte) {
            (Expected::Kind, _) => self.expected = Expected::of_kind(byte)?,
            (Expected::Text, b'\r') => self.expected = Expected::LineFeed(Then::Done),
            (Expected::Number(number), b'\r') => {
                self.expected = Expected::LineFeed(number.then(self.limits)?);
            }
            (Expected::Number(number), _) => {
                self.expected = Expected::Number(number.with_digit(byte)?);
            }
            (Expected::BulkCr, b'\r') => self.expected = Expected::LineFeed(Then::Done),
            (Expected::LineFeed(then), b'\n') => return self.after_line(then),
            // A bulk string's bytes are skipped before this, without inspection.
            _ => return Err(ProtocolError::LineEnd(byte)),
        }
        Ok(false)
    }

    fn after_line(&mut self, then: Then) -> Result<bool, ProtocolError> {
        match then {
            Then::Done | Then::Elements(0) => return Ok(self.value_is_complete()),
            Then::Bulk(length) => self.expect_bulk(length),
            Then::Elements(elements) => {
                *self.open.get_mut(self.depth).ok_or(ProtocolError::Depth)? = elements;
                self.depth += 1;
                self.expected = Expected::Kind;
            }
        }
        Ok(false)
    }

    /// Closes the arrays whose last element was the value. Returns `true` if the reply is complete.
    fn value_is_complete(&mut self) -> bool {
        self.expected = Expected::Kind;
        while let Some(missing) = self
            .depth
            .checked_sub(1)
            .and_then(|top| self.open.get_mut(top))
        {
            *missing -= 1;
            if *missing > 0 {
                return false;
            }
            self.depth -= 1;
        }
        true
    }

    fn expect_bulk(&mut self, left: u32) {
        self.expected = if left == 0 {
            Expected::BulkCr
        } else {
            Expected::Bulk { left }
        };
    }
}

/// Takes a line with a length up to `most`; the inner `None` is null. One number has one spelling.
pub(super) fn length(kind: u8, most: u32, rest: &mut &[u8]) -> Option<Option<usize>> {
    let mut bytes = rest.strip_prefix(&[kind])?;
    if let Some(behind) = bytes.strip_prefix(b"-1\r\n") {
        *rest = behind;
        return Some(None);
    }
    let mut value = None;
    loop {
        let (byte, behind) = bytes.split_first()?;
        bytes = behind;
        match byte {
            b'0'..=b'9' if value != Some(0) => {
                let digit = u32::from(byte - b'0');
                value = Some(value.unwrap_or(0_u32).checked_mul(10)?.checked_add(digit)?);
            }
            b'\r' => break,
            _ => return None,
        }
    }
    *rest = bytes.strip_prefix(b"\n")?;
    let value = value.filter(|value| *value <= most)?;
    usize::try_from(value).ok().map(Some)
}

/// Skips to the end of the line; a lone LF ends it too, and is refused there.
fn skip_text(rest: &mut &[u8]) {
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    *rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
}

impl Expected {
    fn of_kind(byte: u8) -> Result<Self, ProtocolError> {
        Ok(match byte {
            b'+' | b'-' => Self::Text,
            b':' => Self::Number(Number::new(NumberKind::Integer)),
            b'$' => Self::Number(Number::new(NumberKind::BulkLength)),
            b'*' => Self::Number(Number::new(NumberKind::ArrayLength)),
            _ => return Err(ProtocolError::Kind(byte)),
        })
    }
}

impl Number {
    fn new(purpose: NumberKind) -> Self {
        Self {
            purpose,
            is_negative: false,
            value: None,
        }
    }

    /// One number has one spelling: no '+', no leading zeros.
    fn with_digit(self, byte: u8) -> Result<Self, ProtocolError> {
        let digit = match byte {
            b'-' if self.value.is_none() && !self.is_negative => {
                return Ok(Self {
                    is_negative: true,
                    ..self
                });
            }
            b'0'..=b'9' if self.value != Some(0) => u64::from(byte - b'0'),
            _ => return Err(ProtocolError::Digit(byte)),
        };
        let value = self.value.unwrap_or(0).checked_mul(10);
        let value = value.and_then(|value| value.checked_add(digit));
        Ok(Self {
            value: Some(value.ok_or(ProtocolError::Range)?),
            ..self
        })
    }

    fn then(self, limits: Limits) -> Result<Then, ProtocolError> {
        let value = self.value.ok_or(ProtocolError::Digit(b'\r'))?;
        match self.purpose {
            NumberKind::Integer => self.integer(value),
            // -1 is null, for strings and arrays alike.
            _ if self.is_negative && value == 1 => Ok(Then::Done),
            _ if self.is_negative => Err(ProtocolError::Range),
            NumberKind::BulkLength => within(value, limits.bulk_bytes)
                .map(Then::Bulk)
                .ok_or(ProtocolError::BulkLength(value)),
            NumberKind::ArrayLength => within(value, limits.array_elements)
                .map(Then::Elements)
                .ok_or(ProtocolError::ArrayLength(value)),
        }
    }

    fn integer(self, value: u64) -> Result<Then, ProtocolError> {
        let least = i64::MIN.unsigned_abs();
        let is_in_range = if self.is_negative {
            (1..=least).contains(&value)
        } else {
            value < least
        };
        if is_in_range {
            Ok(Then::Done)
        } else {
            Err(ProtocolError::Range)
        }
    }
}

fn within(value: u64, limit: u32) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| *value <= limit)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
