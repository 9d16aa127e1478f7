//! Few lengths of lists, so that each statement is prepared once for each of them.
//!
//! A statement that is not kept costs another round trip, and MySQL's protocol closes it with a message that has no
//! answer. The next small message then waits until the server's system has acknowledged that one (Nagle's algorithm
//! against delayed acknowledgements): 40 ms for nothing. Lengths are therefore powers of two.

/// The longest piece.
pub(in crate::store) const LONGEST: usize = 512;

/// Cuts `items` into pieces whose lengths are powers of two up to [`LONGEST`], the longest first.
pub(in crate::store) fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = 1 << items.len().min(LONGEST).checked_ilog2()?;
        let (piece, rest) = items.split_at(length);
        items = rest;
        Some(piece)
    })
}

/// `items`, and the last one again until there is a power of two of them: for lists in which it does not matter how often
/// something is named.
pub(in crate::store) fn padded<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let length = items.len().next_power_of_two();
    let last = items.last();
    items
        .iter()
        .chain(std::iter::repeat_with(move || last).flatten())
        .take(if items.is_empty() { 0 } else { length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two_and_miss_nothing() {
        for length in [0, 1, 2, 3, 31, 250, 512, 1300] {
            let items: Vec<usize> = (0..length).collect();
            let cut: Vec<&[usize]> = pieces(&items).collect();
            assert!(cut.iter().all(|piece| piece.len().is_power_of_two()));
            assert!(cut.iter().all(|piece| piece.len() <= LONGEST));
            assert_eq!(cut.concat(), items);
        }
    }

    #[test]
    fn padding_repeats_the_last() {
        let padded = |items: &[u8]| padded(items).copied().collect::<Vec<_>>();
        assert!(padded(&[]).is_empty());
        assert_eq!(padded(&[1]), [1]);
        assert_eq!(padded(&[1, 2, 3]), [1, 2, 3, 3]);
        assert_eq!(padded(&[1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(padded(&[1, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 5, 5, 5]);
    }
}
