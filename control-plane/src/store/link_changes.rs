//! What may be changed of links, and what comes of it.

use crate::links::checked::CheckedContent;
use crate::links::difference::difference;
use crate::links::model::{Link, LinkContent};
use edgelink_wire::LinkKey;
use serde_json::{Value as Json, json};

/// What becomes of a link.
pub enum LinkChange {
    /// Its content is replaced.
    Update(ChangeFn),
    /// It is deleted.
    Delete(CheckFn),
    /// It is no longer deleted. What is given is the link as it would be.
    Restore(ChangeFn),
}

impl LinkChange {
    /// What the audit log calls it.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::Update(_) => "link.update",
            Self::Delete(_) => "link.delete",
            Self::Restore(_) => "link.restore",
        }
    }

    /// What the audit log says of it.
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

/// Makes the new content of the link, or refuses. It is called again after a deadlock, then with the link as it is by
/// then.
pub type ChangeFn = Box<dyn Fn(&Link) -> Result<CheckedContent, ChangeError> + Send + Sync>;

/// Whether a link may be deleted; called again like a [`ChangeFn`].
pub type CheckFn = Box<dyn Fn(&Link) -> Result<(), ChangeError> + Send + Sync>;

/// The link after its change, with the revision of the deletion if it was deleted. `None` if there is no such link.
pub type ChangeOutcome = Option<Result<Link, ChangeError>>;

/// Why a link is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A property does not fit the present link.
    #[error("{field} {reason}")]
    Invalid {
        /// The field in the API's spelling.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The link is none of those that the caller may see.
    #[error("there is no such link")]
    Hidden,
    /// The link has another revision than the caller has seen.
    #[error("the link has changed meanwhile")]
    Changed,
    /// Another link has the external id.
    #[error("the external id is taken")]
    ExternalIdTaken,
    /// A link that is to be restored is not deleted.
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
    /// A property, in the API's spelling, that does not fit the link, and what is wrong with it.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { field, reason }
    }
}
