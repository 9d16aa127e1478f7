//! Many values in one column.

/// Consecutive values, each preceded by its length (four bytes, big-endian).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed(Vec<u8>);

/// Error for bytes that are not [`Packed`] values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the values in a column are truncated")]
pub struct CutOff;

const LENGTH_BYTES: usize = 4;

impl Packed {
    /// Adds the value that `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.0.len();
        self.0.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.0);
        let length = self.0.len() - at - LENGTH_BYTES;
        // No value is that long; it could not be read back.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.0[at..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }

    /// The values, up to the first truncated one.
    pub fn values(&self) -> impl Iterator<Item = Result<&[u8], CutOff>> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let taken = take(&mut rest);
            if taken.is_none() {
                rest = &[];
            }
            Some(taken.ok_or(CutOff))
        })
    }

    /// The bytes in the column.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Packed {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(values: &[&[u8]]) -> Packed {
        let mut packed = Packed::default();
        for value in values {
            packed.push(|bytes| bytes.extend_from_slice(value));
        }
        packed
    }

    #[test]
    fn values_when_packed_and_unpacked_are_equal() {
        assert!(packed(&[]).values().next().is_none());
        let values: [&[u8]; 4] = [b"a.example/b", b"", &[0; 300], b"c"];
        let packed = packed(&values);
        assert_eq!(
            packed.values().collect::<Result<Vec<_>, _>>().unwrap(),
            values
        );
        assert_eq!(&packed.as_bytes()[..5], b"\0\0\0\x0ba");
    }

    #[test]
    fn packed_value_when_cut_off_is_an_error() {
        let whole = packed(&[b"one", b"two"]);
        for length in 0..whole.as_bytes().len() {
            let cut = Packed::from(whole.as_bytes()[..length].to_vec());
            let values: Vec<_> = cut.values().collect();
            let expected = match length {
                0 => vec![],
                7 => vec![Ok(&b"one"[..])],
                1..7 => vec![Err(CutOff)],
                _ => vec![Ok(&b"one"[..]), Err(CutOff)],
            };
            assert_eq!(values, expected, "{length}");
        }
    }
}
