//! Compares texts on the hot path.

/// Compares two texts for equality, up to eight bytes at a time and from their end, where keys and user agents differ: on wasm the
/// standard comparison of slices goes byte by byte.
#[must_use]
#[inline(always)]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (Some(end), Some(other_end)) = (one.last_chunk(), other.last_chunk()) {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let (one, other) = (one.as_chunks().0, other.as_chunks().0);
        return number(end) == number(other_end)
            && (one.iter().zip(other)).all(|(one, other)| number(one) == number(other));
    }
    match (ends(one), ends(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.iter().zip(other).all(|(one, other)| one == other),
    }
}

/// The first and the last four bytes, which may overlap.
#[inline(always)]
fn ends(text: &[u8]) -> Option<(u32, u32)> {
    let (first, last) = (text.first_chunk()?, text.last_chunk()?);
    Some((u32::from_le_bytes(*first), u32::from_le_bytes(*last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_when_one_byte_differs_are_unequal() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).collect();
            assert!(is_same(&text, &text.clone()));
            assert!(!is_same(&text, &[&text[..], b"x"].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!is_same(&text, &other), "{length} {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn texts_when_arbitrary_compare_as_slices_do(one: Vec<u8>, other: Vec<u8>) {
            prop_assert_eq!(is_same(&one, &other), one == other);
        }
    }
}
