//! Unsigned LEB128 (the DWARF standard, section 7.6), minimal form only.

use crate::record::RecordError;

pub(crate) fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes one number off the front of `input`. One number has one encoding: padded ones are refused.
pub(crate) fn read(input: &mut &[u8]) -> Result<u64, RecordError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_that_are_padded_too_long_or_cut_off_are_refused() {
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
        fn what_was_written_is_read(number: u64) {
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.push(7);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(read(&mut rest), Ok(number));
            prop_assert_eq!(rest, [7]);
        }
    }
}
