//! Base62 with the alphabet `0-9a-zA-Z`, most significant digit first, fixed length.
//!
//! A fixed length makes the mapping one to one: `0000001` and `1` are different strings, and only one of them is the
//! encoding of 1 at length 7. A leading `0` is a digit like any other.

/// The digits in order of their value.
pub const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The longest string [`decode`] takes: 62^10 is the largest power of 62 that fits 64 bits.
pub const MAX_LENGTH: usize = 10;

const INVALID: u8 = 0xff;
const VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let mut table = [INVALID; 256];
    let mut value = 0;
    #[allow(
        clippy::indexing_slicing,
        reason = "evaluated by the compiler: out of bounds would not build"
    )]
    while value < ALPHABET.len() {
        table[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    table
}

/// The number of digits of generated codes: 6 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeLength(u8);

impl CodeLength {
    /// Seven digits: 3,521,614,606,208 codes.
    pub const DEFAULT: Self = Self(7);

    /// A length of 6 to 10; `None` for any other.
    #[must_use]
    pub fn new(digits: u8) -> Option<Self> {
        (6..=10).contains(&digits).then_some(Self(digits))
    }

    /// The number of digits.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Number of codes of this length: `62^length`.
    #[must_use]
    pub fn count(self) -> u64 {
        62u64.pow(u32::from(self.0))
    }
}

/// Failure to convert between a number and a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Base62Error {
    /// The number needs more digits than were asked for.
    #[error("the number does not fit the length")]
    Overflow,
    /// The string is empty or longer than [`MAX_LENGTH`].
    #[error("the length must be 1 to 10")]
    Length,
    /// The string has a byte outside of [`ALPHABET`].
    #[error("a byte is not one of 0-9a-zA-Z")]
    Alphabet,
}

/// Writes `number` as exactly `digits.len()` digits.
///
/// # Errors
/// [`Base62Error::Length`] where `digits` is empty or longer than [`MAX_LENGTH`], [`Base62Error::Overflow`] where the
/// number needs more digits. `digits` is unspecified then.
pub fn encode(mut number: u64, digits: &mut [u8]) -> Result<(), Base62Error> {
    if digits.is_empty() || digits.len() > MAX_LENGTH {
        return Err(Base62Error::Length);
    }
    for digit in digits.iter_mut().rev() {
        // The remainder is below 62, so the look-up cannot miss.
        *digit = ALPHABET
            .get((number % 62) as usize)
            .copied()
            .unwrap_or(INVALID);
        number /= 62;
    }
    if number == 0 {
        Ok(())
    } else {
        Err(Base62Error::Overflow)
    }
}

/// Reads the number that `digits` represent.
///
/// # Errors
/// [`Base62Error::Length`] for an empty or over-long string, [`Base62Error::Alphabet`] for any other byte.
pub fn decode(digits: &[u8]) -> Result<u64, Base62Error> {
    if digits.is_empty() || digits.len() > MAX_LENGTH {
        return Err(Base62Error::Length);
    }
    let mut number = 0;
    for digit in digits {
        let value = value_of(*digit);
        if value == INVALID {
            return Err(Base62Error::Alphabet);
        }
        // Ten digits stay below 62^10 < 2^60, so this cannot overflow.
        number = number * 62 + u64::from(value);
    }
    Ok(number)
}

/// True if `byte` is one of the 62 digits.
#[must_use]
pub fn is_digit(byte: u8) -> bool {
    value_of(byte) != INVALID
}

fn value_of(byte: u8) -> u8 {
    VALUES.get(usize::from(byte)).copied().unwrap_or(INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(number: u64, length: usize) -> Result<String, Base62Error> {
        let mut digits = vec![0; length];
        encode(number, &mut digits)?;
        Ok(String::from_utf8(digits).unwrap())
    }

    #[test]
    fn number_when_one_above_largest_of_length_overflows() {
        for length in 1..=MAX_LENGTH {
            let end = 62u64.pow(length as u32);
            assert_eq!(encoded(end - 1, length).unwrap(), "Z".repeat(length));
            assert_eq!(encoded(end, length), Err(Base62Error::Overflow));
        }
    }

    #[test]
    fn length_when_outside_1_to_10_is_refused() {
        assert_eq!(encoded(0, 0), Err(Base62Error::Length));
        assert_eq!(encoded(0, 11), Err(Base62Error::Length));
        assert_eq!(decode(b""), Err(Base62Error::Length));
        assert_eq!(decode(b"00000000000"), Err(Base62Error::Length));
    }

    #[test]
    fn digit_when_outside_alphabet_is_refused() {
        for byte in (0..=255u8).filter(|byte| !ALPHABET.contains(byte)) {
            for place in 0..7 {
                let mut digits = *b"0000000";
                digits[place] = byte;
                assert_eq!(decode(&digits), Err(Base62Error::Alphabet));
            }
        }
    }

    proptest! {
        #[test]
        fn number_when_encoded_and_decoded_is_equal(number in 0..62u64.pow(10), spare in 0usize..3) {
            let needed = (1..=10).find(|n| number < 62u64.pow(*n)).unwrap() as usize;
            let length = (needed + spare).min(10);
            prop_assert_eq!(decode(encoded(number, length).unwrap().as_bytes()), Ok(number));
        }

        #[test]
        fn digits_when_decoded_and_encoded_are_equal(digits in "[0-9a-zA-Z]{1,10}") {
            let number = decode(digits.as_bytes()).unwrap();
            prop_assert_eq!(encoded(number, digits.len()).unwrap(), digits);
        }

        #[test]
        fn number_when_encoded_keeps_order(a in 0..62u64.pow(7), b in 0..62u64.pow(7)) {
            let value = |number| {
                let mut digits = [0; 7];
                encode(number, &mut digits).unwrap();
                digits.map(|digit| ALPHABET.iter().position(|d| *d == digit).unwrap())
            };
            prop_assert_eq!(a.cmp(&b), value(a).cmp(&value(b)));
        }
    }
}
