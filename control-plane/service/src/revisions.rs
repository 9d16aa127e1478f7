//! The revisions that a link must have for a change.

use super::caller::Caller;
use edgelink_model::links::model::Link;
use edgelink_store::ChangeError;

/// A condition on the revision of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revisions(Option<Vec<u64>>);

impl Revisions {
    /// Any revision.
    pub fn any() -> Self {
        Self(None)
    }

    /// The revisions that strong entity tags name; `*` is any. Weak tags never match (section 8.8.3.2), and without tags all do.
    pub fn of_tags(tags: Option<&str>) -> Self {
        let Some(tags) = tags else {
            return Self::any();
        };
        let tags = || tags.split(',').map(str::trim);
        if tags().any(|tag| tag == "*") {
            return Self::any();
        }
        let revision = |tag: &str| {
            let rev = tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()?;
            (tag_of(rev) == tag).then_some(rev)
        };
        Self(Some(tags().filter_map(revision).collect()))
    }

    /// Refuses a link that the caller may not see, or that has none of the revisions. A change checks this under the lock of the
    /// link, even if it was checked before.
    pub(crate) fn check(&self, caller: &Caller, link: &Link) -> Result<(), ChangeError> {
        caller.check(link)?;
        let Some(revisions) = &self.0 else {
            return Ok(());
        };
        if revisions.contains(&link.rev) {
            Ok(())
        } else {
            Err(ChangeError::Changed)
        }
    }
}

/// The revision as a strong entity tag (RFC 9110, section 8.8.3).
pub fn tag_of(rev: u64) -> String {
    format!("\"{rev}\"")
}
