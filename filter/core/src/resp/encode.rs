//! Writes commands: arrays of bulk strings.

/// Starts a command of `arguments` arguments, including its name.
pub fn command(arguments: usize, out: &mut Vec<u8>) {
    head(b'*', arguments, out);
}

/// Appends one argument.
pub fn argument(bytes: &[u8], out: &mut Vec<u8>) {
    argument_of_parts([bytes, b""], out);
}

/// Appends one argument from two parts, without joining them first.
pub fn argument_of_parts(parts: [&[u8]; 2], out: &mut Vec<u8>) {
    head(b'$', parts.iter().map(|part| part.len()).sum(), out);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends one argument that is a number.
pub fn number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    argument(decimal(number, &mut digits), out);
}

/// Appends a whole command.
pub fn words(words: &[&[u8]], out: &mut Vec<u8>) {
    command(words.len(), out);
    for word in words {
        argument(word, out);
    }
}

fn head(kind: u8, number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    out.push(kind);
    out.extend_from_slice(decimal(number as u64, &mut digits));
    out.extend_from_slice(b"\r\n");
}

/// Writes `number` at the end of `digits`, which has room for every 64-bit number.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn command_when_encoded_is_an_array_of_bulk_strings() {
        let mut out = b"before".to_vec();
        words(&[b"XREAD", b"", b"\r\n"], &mut out);
        assert_eq!(out, b"before*3\r\n$5\r\nXREAD\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn argument_when_of_two_parts_is_one() {
        let mut out = Vec::new();
        argument_of_parts([b"link:", b"a/b"], &mut out);
        assert_eq!(out, b"$8\r\nlink:a/b\r\n");
    }

    proptest! {
        #[test]
        fn number_when_encoded_is_decimal(value: u64) {
            for value in [value, 0, 9, 10, u64::MAX] {
                let mut out = Vec::new();
                number(value, &mut out);
                let text = value.to_string();
                prop_assert_eq!(out, format!("${}\r\n{text}\r\n", text.len()).into_bytes());
            }
        }
    }
}
