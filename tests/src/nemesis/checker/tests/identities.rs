//! Ids assigned by the database.

use super::*;

impl Story {
    fn identified(mut self, kind: &str, id: u64, name: &str, at: u64) -> Self {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.add(at, What::Identified { kind, id, name });
        self
    }
}

#[test]
fn id_when_given_twice_is_reported() {
    let story = || Story::default().identified("tenant", 2, "one 1000", 1000);
    assert_eq!(
        story().identified("tenant", 3, "two 2000", 2000).breaks(),
        []
    );
    assert_eq!(
        story().identified("tenant", 2, "one 1000", 2000).breaks(),
        []
    );
    assert_eq!(story().identified("user", 2, "two 2000", 2000).breaks(), []);
    let again = story().identified("tenant", 2, "two 2000", 2000);
    assert_eq!(again.breaks(), [Promise::NothingTwice]);
    let restored = story().copied(500, 600).restored(1500, 1600);
    let restored = restored.identified("tenant", 2, "one 2000", 2000);
    assert_eq!(restored.breaks(), [Promise::NothingTwice]);
}
