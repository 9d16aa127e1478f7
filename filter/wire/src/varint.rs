//! Unsigned LEB128 (the DWARF standard, section 7.6), minimal form only.

use crate::error::RecordError;

/// The most bytes of an encoded number.
pub const MOST_BYTES: usize = 10;

/// Appends a number.
pub fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes one number off the front of `input`. One number has one encoding: padded ones are refused.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read(input: &mut &[u8]) -> Result<u64, RecordError> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = input.split_first().ok_or(RecordError::Truncated)?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            let padded = *byte == 0 && shift > 0;
            return if padded {
                Err(RecordError::Number)
            } else {
                Ok(number)
            };
        }
    }
    Err(RecordError::Number)
}

/// Appends `bytes` behind their length.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Takes length-prefixed bytes off the front of `input`.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    let length = usize::try_from(read(input)?).map_err(|_| RecordError::Truncated)?;
    let (bytes, rest) = input
        .split_at_checked(length)
        .ok_or(RecordError::Truncated)?;
    *input = rest;
    Ok(bytes)
}

/// Takes a length-prefixed text off the front of `input`; `name` is the name of the field, for the error.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read_text<'a>(input: &mut &'a [u8], name: &'static str) -> Result<&'a str, RecordError> {
    std::str::from_utf8(read_bytes(input)?).map_err(|_| RecordError::Field(name))
}

/// Takes `LENGTH` bytes off the front of `input`.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read_array<const LENGTH: usize>(input: &mut &[u8]) -> Result<[u8; LENGTH], RecordError> {
    let (bytes, rest) = input.split_first_chunk().ok_or(RecordError::Truncated)?;
    *input = rest;
    Ok(*bytes)
}

/// Refuses every version but `known`.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn read_version(input: &mut &[u8], known: u8) -> Result<(), RecordError> {
    match read_array(input)? {
        [version] if version == known => Ok(()),
        [version] => Err(RecordError::Version(version)),
    }
}

/// Refuses bytes behind the end.
///
/// # Errors
/// The [`RecordError`] that says what is wrong.
pub fn expect_end(input: &[u8]) -> Result<(), RecordError> {
    if input.is_empty() {
        Ok(())
    } else {
        Err(RecordError::Trailing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varint_when_padded_long_or_cut_off_is_refused() {
        for (bytes, error) in [
            (&[][..], RecordError::Truncated),
            (&[0x80], RecordError::Truncated),
            (&[0x80, 0x00], RecordError::Number),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
                RecordError::Number,
            ),
            (&[0xff; 11], RecordError::Number),
        ] {
            assert_eq!(read(&mut &*bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn varint_when_written_and_read_is_equal(number: u64) {
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.push(7);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(read(&mut rest), Ok(number));
            prop_assert_eq!(rest, [7]);
        }
    }
}
