//! Orders for links, and their outcomes.

use crate::domains::NoDomain;
use crate::links::checked::CheckedContent;
use crate::links::model::{History, Link, LinkContent};
use crate::numbers::{IssueError, Subject};
use crate::problem::{FieldError, Kind, Problem};
use crate::store::{NewLink, Receipt, StoreError, StoredReceipt, Twin, Wanted, WantedNames};
use crate::tenancy::Scope;
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkKey};
use std::sync::Arc;

/// A request for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) domain: Domain,
    /// Without an alias a code is generated.
    pub(crate) alias: Option<Code>,
    pub(crate) content: CheckedContent,
    /// The id of the API key that creates it.
    pub(crate) owner: String,
    /// The user who will own it.
    pub(crate) owner_id: u64,
    /// The links that the creator may see; equal ones among them may fulfil the order.
    pub(crate) scope: Arc<Scope>,
    /// What it had before, if it is imported.
    pub(crate) history: History,
    /// The number of an alias that is the code of that number, if it is to have it.
    pub(crate) number: Option<u64>,
    /// Whether an equal link that exists fulfils the order.
    pub(crate) find_if_exists: bool,
    /// The receipt to store.
    pub(crate) receipt: Option<Receipt>,
}

impl Order {
    /// The fields of an equal link.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            scope: &self.scope,
            domain: &self.domain,
            code: self.alias.as_ref(),
            content: &self.content,
        }
    }

    /// The names of the link that other links may have.
    pub(super) fn names(&self) -> WantedNames<'_> {
        WantedNames {
            tenant_id: self.scope.tenant_id,
            domain: &self.domain,
            code: self.alias.as_ref(),
            external_id: self.content.external_id.as_deref(),
        }
    }

    /// The subject for which a number is issued in this attempt.
    pub(super) fn subject(&self, attempt: u32) -> Subject<'_> {
        Subject {
            domain: &self.domain,
            target: &self.content.target,
            owner: &self.owner,
            attempt,
        }
    }

    /// The new link with number `id`, and with the alias or else `code`.
    pub(super) fn link(&self, id: u64, code: &Code) -> NewLink {
        NewLink {
            id,
            key: LinkKey::new(
                self.domain.clone(),
                self.alias.as_ref().unwrap_or(code).clone(),
            ),
            scope: self.scope.clone(),
            owner_id: Some(self.owner_id),
            content: self.content.clone().into_content(),
            history: self.history,
            receipt: self.receipt.clone(),
            twin: match (self.find_if_exists, &self.alias) {
                (false, _) => Twin::Allowed,
                (true, Some(_)) => Twin::NotWithThisCode,
                (true, None) => Twin::NotWithAnyCode,
            },
        }
    }

    /// An equal link that exists, for which only a receipt is stored.
    pub(super) fn existing(&self, link: Link) -> NewLink {
        NewLink {
            id: link.id,
            key: link.key(),
            scope: self.scope.clone(),
            owner_id: link.owner_id,
            content: link.content.clone(),
            history: History::default(),
            receipt: self.receipt.clone(),
            twin: Twin::Known(Box::new(link)),
        }
    }

    /// The link of a receipt, as it was then. Its content is that of this order, which has the same fingerprint.
    pub(super) fn replayed(&self, stored: StoredReceipt) -> OrderOutcome {
        let own = self.receipt.as_ref().map(|receipt| receipt.fingerprint);
        if own != Some(stored.receipt.fingerprint) {
            return Err(Problem::new(Kind::IdempotencyKeyReused));
        }
        let link = Link {
            id: stored.id,
            domain: stored.key.domain,
            code: stored.key.code,
            tenant_id: self.scope.tenant_id,
            owner_id: Some(self.owner_id),
            content: self.content.clone().into_content(),
            imported_visits: self.history.visits,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            rev: stored.rev,
        };
        Ok(FulfilledOrder {
            is_found: stored.found,
            is_replayed: true,
            ..FulfilledOrder::created(link)
        })
    }
}

/// The link that an order has led to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FulfilledOrder {
    pub(crate) link: Link,
    /// Whether it existed already.
    pub(crate) is_found: bool,
    /// Whether it comes from the receipt of an earlier request.
    pub(crate) is_replayed: bool,
    /// Whether the answer has no room for the link, of which only key and revision are kept.
    is_left_out: bool,
}

impl FulfilledOrder {
    /// A link that was created for an order.
    pub(crate) fn created(link: Link) -> Self {
        Self {
            link,
            is_found: false,
            is_replayed: false,
            is_left_out: false,
        }
    }

    /// A link that was there.
    pub(crate) fn found(link: Link) -> Self {
        Self {
            is_found: true,
            ..Self::created(link)
        }
    }

    /// Leaves the link out of the answer.
    pub(crate) fn leave_out(&mut self) {
        self.link.content = LinkContent::to(TargetUrl::from_store(""));
        self.is_left_out = true;
    }

    /// The link, if the answer has it.
    pub(crate) fn shown(&self) -> Option<&Link> {
        (!self.is_left_out).then_some(&self.link)
    }

    /// Key and revision of the link if this order has created it.
    pub(crate) fn new_link(&self) -> Option<(LinkKey, u64)> {
        let is_new = !self.is_found && !self.is_replayed;
        is_new.then(|| (self.link.key(), self.link.rev))
    }
}

/// The outcome of an order.
pub(crate) type OrderOutcome = Result<FulfilledOrder, Problem>;

/// Why an order has not led to a link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("the alias is taken")]
    AliasTaken,
    #[error("the external id is taken")]
    ExternalIdTaken,
    #[error("the domain is gone")]
    DomainGone,
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
            CreateFailure::ExternalIdTaken => Self::external_id_taken(),
            // As if it had been asked for a moment later.
            CreateFailure::DomainGone => {
                let reason = NoDomain::Unknown.to_string();
                Self::of_field("domain", reason)
            }
            CreateFailure::Overloaded => Self::new(Kind::Overloaded),
            CreateFailure::CodesTaken(_) => {
                tracing::error!(error = %failure, "no free code was found: the creation is refused with 503");
                Self::new(Kind::CodesTaken)
            }
            CreateFailure::Issue(IssueError::Store(error)) | CreateFailure::Store(error) => {
                error.into()
            }
            CreateFailure::Issue(error @ IssueError::Exhausted { .. }) => {
                tracing::error!(%error, "all codes are in use: creations get 503; configure a longer links.code_length");
                Self::new(Kind::CodesExhausted)
            }
            CreateFailure::Issue(
                error @ (IssueError::Source { .. } | IssueError::ClockWentBack { .. }),
            ) => {
                tracing::error!(%error, "the number source failed: the creation is refused with 503");
                Self::new(Kind::IssuerUnavailable)
            }
            CreateFailure::Issue(IssueError::Closed) => Self::new(Kind::Stopping),
        }
    }
}
