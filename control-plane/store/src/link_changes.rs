//! Changes of links, and their outcomes.

use super::audit::Actor;
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::difference::difference;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_wire::LinkKey;
use serde_json::{Value as Json, json};

/// A change of a link.
pub enum LinkChange {
    /// Its content is replaced.
    Update(ChangeFn),
    /// It is deleted.
    Delete(CheckFn),
    /// It is restored. The function is given the link as restored.
    Restore(ChangeFn),
}

/// A change of one link by an author.
#[derive(Clone, Copy)]
pub struct SingleChange<'a> {
    /// The link.
    pub key: &'a LinkKey,
    /// Its change.
    pub change: &'a LinkChange,
    /// The author, for the audit log.
    pub actor: &'a Actor,
}

impl LinkChange {
    /// The action in the audit log.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::Update(_) => "link.update",
            Self::Delete(_) => "link.delete",
            Self::Restore(_) => "link.restore",
        }
    }

    /// The detail in the audit log.
    pub(super) fn detail(&self, from: &LinkContent, to: &LinkContent) -> Json {
        match self {
            Self::Update(_) => difference(from, to),
            Self::Delete(_) | Self::Restore(_) => json!({ "longUrl": to.target.as_str() }),
        }
    }
}

/// The subject of a link in the audit log.
pub fn subject(key: &LinkKey) -> String {
    format!("link:{key}")
}

/// Computes the new content of the link, or refuses the change. It is called again after a deadlock, with the link as
/// read again.
pub type ChangeFn = Box<dyn Fn(&Link) -> Result<CheckedContent, ChangeError> + Send + Sync>;

/// Checks that a link may be deleted; called again like a [`ChangeFn`].
pub type CheckFn = Box<dyn Fn(&Link) -> Result<(), ChangeError> + Send + Sync>;

/// The link after its change, with the revision of the deletion if it was deleted. `None` if there is no such link.
pub type ChangeOutcome = Option<Result<Link, ChangeError>>;

/// Reason why a link is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A property does not fit the present link.
    #[error("{field} {reason}")]
    Invalid {
        /// The field in the API's spelling.
        field: &'static str,
        /// The reason why it is invalid.
        reason: String,
    },
    /// The link is not visible to the caller.
    #[error("there is no such link")]
    Hidden,
    /// The link has another revision than the caller has seen.
    #[error("the link has changed meanwhile")]
    Changed,
    /// Another link has the external id.
    #[error("the external id is taken")]
    ExternalIdTaken,
    /// A link to be restored is not deleted.
    #[error("the link is not deleted")]
    NotDeleted,
    /// The content of the deleted link was removed.
    #[error("the content of the link was purged")]
    Purged,
    /// The link has properties of a later version.
    #[error("the link has properties of a later version")]
    Later,
}

impl ChangeError {
    /// An error about a property, in the API's spelling, that does not fit the link, with the reason.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { field, reason }
    }
}
