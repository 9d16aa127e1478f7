//! What is asked for, and what comes of it.

use super::model::{Link, LinkContent};
use crate::numbers::{IssueError, Subject};
use crate::problem::{FieldError, Kind, Problem};
use crate::store::{NewLink, Receipt, StoreError, StoredReceipt, Twin, Wanted};
use edgelink_wire::{Code, Domain, LinkKey};

/// A link that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) domain: Domain,
    /// A code is generated where there is none.
    pub(crate) alias: Option<Code>,
    pub(crate) content: LinkContent,
    /// The id of the API key that creates it.
    pub(crate) owner: String,
    /// Whether a link that is the same already is good enough.
    pub(crate) find_if_exists: bool,
    /// The receipt to leave.
    pub(crate) receipt: Option<Receipt>,
}

impl Order {
    /// The link that would be like this one.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            domain: &self.domain,
            code: self.alias.as_ref(),
            content: &self.content,
        }
    }

    /// What a number is issued for, after so many that were refused.
    pub(super) fn subject(&self, attempt: u32) -> Subject<'_> {
        Subject {
            domain: &self.domain,
            target: &self.content.target,
            owner: &self.owner,
            attempt,
        }
    }

    /// The link with this number, and the code of the number unless it has an alias.
    pub(super) fn link(&self, id: u64, code: &Code) -> NewLink {
        NewLink {
            id,
            key: LinkKey::new(
                self.domain.clone(),
                self.alias.as_ref().unwrap_or(code).clone(),
            ),
            content: self.content.clone(),
            receipt: self.receipt.clone(),
            twin: match (self.find_if_exists, &self.alias) {
                (false, _) => Twin::Allowed,
                (true, Some(_)) => Twin::NotWithThisCode,
                (true, None) => Twin::NotWithAnyCode,
            },
        }
    }

    /// The link that is good enough.
    pub(super) fn known(&self, link: Link) -> NewLink {
        NewLink {
            id: link.id,
            key: link.key(),
            content: link.content.clone(),
            receipt: self.receipt.clone(),
            twin: Twin::Known(Box::new(link)),
        }
    }

    /// The link of a receipt, as it was: what was asked for is known, for it is asked for again.
    pub(super) fn replayed(&self, stored: StoredReceipt) -> Outcome {
        let own = self.receipt.as_ref().map(|receipt| receipt.fingerprint);
        if own != Some(stored.receipt.fingerprint) {
            return Err(Problem::new(Kind::IdempotencyKeyReused));
        }
        Ok(Made {
            link: Link {
                id: stored.id,
                domain: stored.key.domain,
                code: stored.key.code,
                content: self.content.clone(),
                created_at: stored.created_at,
                updated_at: stored.updated_at,
                rev: stored.rev,
            },
            is_found: stored.found,
            is_replayed: true,
        })
    }
}

/// A link, and how it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) link: Link,
    /// Whether it was there already.
    pub(crate) is_found: bool,
    /// Whether that was so when the request came before.
    pub(crate) is_replayed: bool,
}

impl Made {
    /// The key and the revision of a link that was created just now.
    pub(crate) fn new_link(&self) -> Option<(LinkKey, u64)> {
        let is_new = !self.is_found && !self.is_replayed;
        is_new.then(|| (self.link.key(), self.link.rev))
    }
}

/// What comes of an order.
pub(crate) type Outcome = Result<Made, Problem>;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("the alias is taken")]
    AliasTaken,
    #[error("no free code was found in {0} tries")]
    CodesTaken(usize),
    #[error("too many links wait for their commit")]
    Overloaded,
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CreateFailure> for Problem {
    fn from(failure: CreateFailure) -> Self {
        match failure {
            CreateFailure::AliasTaken => {
                Self::new(Kind::SlugTaken).with_errors(vec![FieldError::new(
                    "customSlug",
                    "is taken on this domain",
                )])
            }
            CreateFailure::Overloaded => Self::new(Kind::Overloaded),
            CreateFailure::CodesTaken(_) => {
                tracing::error!(error = %failure, "no code was found for a link");
                Self::new(Kind::CodesTaken)
            }
            CreateFailure::Issue(IssueError::Store(error)) | CreateFailure::Store(error) => {
                error.into()
            }
            CreateFailure::Issue(error @ IssueError::Exhausted { .. }) => {
                tracing::error!(%error, "configure a longer links.code_length");
                Self::new(Kind::CodesExhausted)
            }
            CreateFailure::Issue(
                error @ (IssueError::Source { .. } | IssueError::ClockWentBack { .. }),
            ) => {
                tracing::error!(%error, "there are no numbers for new links");
                Self::new(Kind::IssuerUnavailable)
            }
            CreateFailure::Issue(IssueError::Closed) => Self::new(Kind::Stopping),
        }
    }
}
