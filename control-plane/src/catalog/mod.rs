//! Which keys there are, without asking the database: a filter of all keys that ever were, and one of the codes that edges
//! cannot tell from their number. Both are built by going through the database in the background, and kept by the feed.
//!
//! Deleted links stay in until the next start: what is known of them is the revision of their deletion, and only the
//! database has that. So nothing is ever taken out, and no key that is there is ever denied.

mod codes;
mod scan;

pub use scan::Scanner;

use crate::feed::Listener;
use crate::issuer::Membership;
use codes::Codes;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{CodeFilter, CodeSpace, LinkKey, RecordError};
use rand_09::SeedableRng;
use rand_09::rngs::SmallRng;
use scalable_cuckoo_filter::{DefaultHasher, ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How many keys the filter has room for at first; it grows by itself.
const INITIAL_KEYS: usize = 100_000;

/// Out of how many keys that are not there one may be taken for one that is.
const FALSE_POSITIVES: f64 = 0.001;

/// Keys and codes, as far as they are known.
struct Sets {
    keys: ScalableCuckooFilter<str, DefaultHasher, SmallRng>,
    codes: Codes,
}

impl Sets {
    fn new() -> Result<Self, RecordError> {
        let keys = ScalableCuckooFilterBuilder::new()
            .initial_capacity(INITIAL_KEYS)
            .false_positive_probability(FALSE_POSITIVES)
            // Only chooses which entry makes room.
            .rng(SmallRng::seed_from_u64(0))
            .finish();
        Ok(Self {
            keys,
            codes: Codes::new()?,
        })
    }
}

struct State {
    /// What holds by now; nothing before everything was gone through once.
    complete: Option<Sets>,
    /// What is being gone through.
    building: Option<Sets>,
}

/// Which keys there are.
pub struct Catalog {
    codes: CodeSpace,
    state: Mutex<State>,
    /// Notified when everything has to be gone through again.
    outdated: Notify,
}

impl Catalog {
    /// A catalogue that knows nothing yet.
    #[must_use]
    pub fn new(codes: CodeSpace) -> Self {
        let catalog = Self {
            codes,
            state: Mutex::new(State {
                complete: None,
                building: None,
            }),
            outdated: Notify::new(),
        };
        catalog.outdated.notify_one();
        catalog
    }

    /// Whether the key may be there. False only where there is no such row as far as the feed has come.
    #[must_use]
    pub fn may_have(&self, key: &str) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_none_or(|sets| sets.keys.contains(key))
    }

    /// Notes keys that are there.
    pub fn note<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state();
        for key in keys {
            state.note(key, self.number(key));
        }
    }

    /// The codes that are known by name, for the edges; `None` before everything was gone through.
    #[must_use]
    pub fn code_filter(&self) -> Option<CodeFilter> {
        self.state().complete.as_ref()?.codes.filter()
    }

    /// Says that everything was gone through and nothing was there.
    #[cfg(test)]
    pub(crate) fn complete_for_tests(&self) {
        self.state().complete = Some(Sets::new().unwrap());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that the code of a key has, where it has the shape of a generated one.
    fn number(&self, key: &str) -> Option<u64> {
        let (_, code) = key.split_once('/')?;
        self.codes.number(code.as_bytes())
    }
}

impl Sets {
    fn note(&mut self, key: &str, number: Option<u64>) {
        self.keys.insert_if_not_contained(key);
        if let Some((_, code)) = key.split_once('/') {
            self.codes.note(code, number);
        }
    }
}

impl State {
    fn note(&mut self, key: &str, number: Option<u64>) {
        for sets in self.complete.iter_mut().chain(self.building.iter_mut()) {
            sets.note(key, number);
        }
    }
}

impl Membership for Catalog {
    /// Says no as long as not everything was gone through: the first code of a link is then tried, as it should be.
    fn may_contain(&self, key: &LinkKey) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_some_and(|sets| sets.keys.contains(&key.to_string()))
    }
}

impl Listener for Catalog {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put { key, .. } | FeedMessage::Changed { key } => {
                let number = self.number(key);
                self.state().note(key, number);
            }
            FeedMessage::Beat(beat) => {
                let mut state = self.state();
                let State { complete, building } = &mut *state;
                for sets in complete.iter_mut().chain(building) {
                    sets.codes.note_bound(beat.bound);
                }
            }
            FeedMessage::Flush => self.start_anew(),
            FeedMessage::Del { .. } => {}
        }
    }

    fn start_anew(&self) {
        let mut state = self.state();
        state.complete = None;
        state.building = None;
        self.outdated.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::feed::Beat;
    use edgelink_wire::{CodeLength, Record};

    fn catalog() -> Catalog {
        Catalog::new(CodeSpace::new(CodeLength::DEFAULT, None))
    }

    fn complete(catalog: &Catalog) {
        catalog.complete_for_tests();
    }

    fn put(key: &str) -> FeedMessage<'_> {
        let record = Record::Absent { rev: 1 };
        FeedMessage::Put {
            key,
            record,
            hot: false,
        }
    }

    #[test]
    fn before_everything_was_gone_through_nothing_is_denied() {
        let catalog = catalog();
        assert!(catalog.may_have("a.example/x"));
        assert!(catalog.code_filter().is_none());
        complete(&catalog);
        assert!(!catalog.may_have("a.example/x"));
        catalog.start_anew();
        assert!(catalog.may_have("a.example/x"));
    }

    #[test]
    fn what_the_feed_brings_is_there_and_stays_when_it_is_deleted() {
        let catalog = catalog();
        complete(&catalog);
        catalog.apply(&put("a.example/x"));
        catalog.apply(&FeedMessage::Del {
            key: "a.example/x",
            rev: 2,
        });
        assert!(catalog.may_have("a.example/x"));
        assert!(!catalog.may_have("a.example/y"));
    }

    #[test]
    fn a_link_is_taken_for_one_that_exists_only_once_everything_was_gone_through() {
        let catalog = catalog();
        let (there, absent) = ("a.example/x".parse(), "a.example/y".parse());
        let (there, absent): (LinkKey, LinkKey) = (there.unwrap(), absent.unwrap());
        assert!(!catalog.may_contain(&there));
        complete(&catalog);
        catalog.apply(&put("a.example/x"));
        assert!(catalog.may_contain(&there) && !catalog.may_contain(&absent));
    }

    #[test]
    fn an_alias_of_any_shape_is_in_the_filter_at_once() {
        let catalog = catalog();
        complete(&catalog);
        catalog.apply(&FeedMessage::Beat(Beat {
            bound: 1000,
            ..Beat::default()
        }));
        catalog.apply(&put("a.example/ZZZZZZZ"));
        catalog.apply(&put("a.example/other-shape"));
        catalog.apply(&FeedMessage::Changed {
            key: "a.example/changed",
        });
        catalog.apply(&put("a.example/0000007"));
        let filter = catalog.code_filter().unwrap();
        for code in ["ZZZZZZZ", "other-shape", "changed"] {
            assert!(filter.may_contain(code.as_bytes()), "{code}");
        }
        // Generated, and below the bound.
        assert!(!filter.may_contain(b"0000007"));
    }
}
