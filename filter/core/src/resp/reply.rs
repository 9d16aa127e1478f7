//! Replies, borrowed from their bytes.

use super::scan;

/// One reply, or one element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+`: a status.
    Simple(&'a [u8]),
    /// `-`: an error, its message without the dash.
    Error(&'a [u8]),
    /// `:`: a number.
    Integer(i64),
    /// `$`: bytes.
    Bulk(&'a [u8]),
    /// The null string or the null array.
    Null,
    /// `*`: further replies.
    Array(Array<'a>),
    /// An array of strings and nulls that a client of the host's own has read.
    Strings(&'a [Option<Vec<u8>>]),
}

/// The elements of an array, parsed lazily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    elements: usize,
    /// Starts with the elements; other bytes may follow them.
    bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads the reply at the front of bytes that [`super::scan::Scanner`] found complete. Other bytes may result in `None`,
    /// or in an array with fewer elements than it claims; it never panics.
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        take(&mut bytes)
    }

    /// The values of an array of exactly `N` strings or nulls, the answer to `HMGET`.
    #[must_use]
    pub fn strings<const N: usize>(self) -> Option<[Option<&'a [u8]>; N]> {
        let array = match self {
            Self::Array(array) => array,
            Self::Strings(values) => {
                let values: &[_; N] = values.try_into().ok()?;
                return Some(values.each_ref().map(Option::as_deref));
            }
            _ => return None,
        };
        if array.len() != N {
            return None;
        }
        let (mut values, mut rest) = ([None; N], array.bytes);
        for value in &mut values {
            *value = match scan::length(b'$', u32::MAX, &mut rest)? {
                Some(length) => Some(take_bytes(length, &mut rest)?),
                None => None,
            };
        }
        Some(values)
    }

    /// The bytes, if it is a string.
    #[cfg(test)]
    pub(crate) fn bulk(self) -> Option<&'a [u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    #[cfg(test)]
    pub(crate) fn array(self) -> Option<Array<'a>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl Array<'_> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements
    }

    /// True if it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }
}

impl<'a> Iterator for Array<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.elements = self.elements.checked_sub(1)?;
        let reply = take(&mut self.bytes)?;
        if let Reply::Array(array) = reply {
            self.bytes = end(array)?;
        }
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.elements))
    }
}

/// The bytes behind an array. It goes through all elements; the scanner bounds how deep.
fn end(mut array: Array<'_>) -> Option<&[u8]> {
    while !array.is_empty() {
        array.next()?;
    }
    Some(array.bytes)
}

/// Takes a reply off the front; of an array, only the head.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<Reply<'a>> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    let line = take_line(bytes)?;
    Some(match kind {
        b'+' => Reply::Simple(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number(line)?),
        b'$' => match usize::try_from(number(line)?) {
            Ok(length) => Reply::Bulk(take_bytes(length, bytes)?),
            Err(_) => Reply::Null,
        },
        b'*' => match usize::try_from(number(line)?) {
            Ok(elements) => Reply::Array(Array { elements, bytes }),
            Err(_) => Reply::Null,
        },
        _ => return None,
    })
}

fn take_line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    take_bytes(end, bytes)
}

/// Takes `length` bytes and the CR LF behind them.
fn take_bytes<'a>(length: usize, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest.get(2..)?;
    Some(taken)
}

fn number(line: &[u8]) -> Option<i64> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    let is_negative = digits.len() < line.len();
    digits.iter().try_fold(0_i64, |value, byte| {
        let digit = i64::from(byte.checked_sub(b'0')?);
        let value = value.checked_mul(10)?;
        if is_negative {
            value.checked_sub(digit)
        } else {
            value.checked_add(digit)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reply_when_of_any_kind_is_read() {
        for (bytes, reply) in [
            (&b"+OK\r\n"[..], Reply::Simple(b"OK")),
            (b"-ERR no\r\n", Reply::Error(b"ERR no")),
            (b":-12\r\n", Reply::Integer(-12)),
            (b"$4\r\na\r\nb\r\n", Reply::Bulk(b"a\r\nb")),
            (b"$0\r\n\r\n", Reply::Bulk(b"")),
            (b"$-1\r\n", Reply::Null),
            (b"*-1\r\n", Reply::Null),
        ] {
            assert_eq!(Reply::parse(bytes), Some(reply), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn element_when_behind_a_nested_array_is_found() {
        let array = Reply::parse(b"*3\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n*0\r\n+end\r\n")
            .and_then(Reply::array)
            .unwrap();
        let elements: Vec<_> = array.collect();
        assert_eq!(elements.len(), 3);
        assert_eq!(elements[0].array().unwrap().count(), 2);
        assert!(elements[1].array().unwrap().is_empty());
        assert_eq!(elements[2], Reply::Simple(b"end"));
    }

    #[test]
    fn array_when_of_the_wrong_shape_yields_no_strings() {
        let values = |bytes| Reply::parse(bytes).and_then(Reply::strings::<2>);
        let two: Option<[Option<&[u8]>; 2]> = Some([Some(b"a"), None]);
        assert_eq!(values(b"*2\r\n$1\r\na\r\n$-1\r\n"), two);
        for bytes in [
            &b"*1\r\n$1\r\na\r\n"[..],
            b"*3\r\n$-1\r\n$-1\r\n$-1\r\n",
            b"*2\r\n$1\r\na\r\n:1\r\n",
            b"*-1\r\n",
            b"+OK\r\n",
        ] {
            assert_eq!(values(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn array_when_never_scanned_has_bounded_elements(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(Reply::Array(array)) = Reply::parse(&bytes) {
                prop_assert!(array.take(1000).count() <= bytes.len());
            }
        }
    }
}
