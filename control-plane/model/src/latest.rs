//! Latest values by name, gathered so that a request costs no write.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// The latest value of each name since the last [`Latest::take`].
#[derive(Debug)]
pub struct Latest<K, V> {
    notes: Mutex<HashMap<K, V>>,
    /// Most names; values of further ones are lost.
    most: usize,
}

impl<K: Hash + Ord, V> Latest<K, V> {
    /// Creates an empty set for at most `most` names between two calls of [`Latest::take`].
    pub fn new(most: usize) -> Self {
        Self {
            notes: Mutex::default(),
            most,
        }
    }

    /// Records a value; `renew` merges it into an earlier one of that name.
    pub fn note<Q>(&self, name: &Q, value: V, renew: impl FnOnce(&mut V, V))
    where
        K: Borrow<Q>,
        Q: ?Sized + Hash + Eq + ToOwned<Owned = K>,
    {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = notes.get_mut(name) {
            renew(earlier, value);
        } else if notes.len() < self.most {
            notes.insert(name.to_owned(), value);
        }
    }

    /// Takes all values, ordered by name, so that replicas that write them do not deadlock.
    pub fn take(&self) -> Vec<(K, V)> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes: Vec<(K, V)> = notes.drain().collect();
        notes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_when_full_drops_new_names_and_updates_known_ones() {
        let latest: Latest<String, u32> = Latest::new(2);
        for (name, value) in [("b", 1), ("a", 2), ("c", 3), ("b", 4)] {
            latest.note(name, value, |earlier, value| *earlier = value);
        }
        assert_eq!(latest.take(), [("a".to_owned(), 2), ("b".to_owned(), 4)]);
        assert_eq!(latest.take(), []);
        for value in [5, 4] {
            latest.note("c", value, |earlier, value| *earlier = value.max(*earlier));
        }
        assert_eq!(latest.take(), [("c".to_owned(), 5)]);
    }
}
