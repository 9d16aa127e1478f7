//! Creating links: a number, its code, and another number where the code is taken.

use crate::creation::{BatchError, Batcher};
use crate::issuer::{IssueError, Minter, Subject};
use crate::model::{Link, LinkContent};
use crate::store::{CreateError, NewLink, StoreError};
use crate::telemetry::prometheus::{LINKS_CREATED, NUMBERS_ISSUED};
use edgelink_wire::{Code, Domain, LinkKey};
use metrics::counter;

/// Makes links out of orders.
pub(crate) struct Creator {
    batcher: Batcher,
    minter: Minter,
    max_tries: u8,
}

/// A link that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) domain: Domain,
    /// The alias; a code is generated where there is none.
    pub(crate) slug: Option<Code>,
    pub(crate) content: LinkContent,
    /// The id of the API key that creates it.
    pub(crate) owner: String,
}

impl Order {
    pub(crate) fn subject(&self, attempt: u8) -> Subject<'_> {
        Subject {
            domain: &self.domain,
            target: &self.content.target,
            owner: &self.owner,
            attempt: attempt.into(),
        }
    }
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("the slug is taken")]
    SlugTaken,
    #[error("{0} numbers in a row had codes that are taken")]
    CodesTaken(u8),
    #[error("too many links wait for their commit")]
    Overloaded,
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Creator {
    pub(crate) fn new(batcher: Batcher, minter: Minter, max_tries: u8) -> Self {
        Self {
            batcher,
            minter,
            max_tries,
        }
    }

    /// Creates the link. It is in the database when this answers.
    pub(crate) async fn create(&self, order: Order) -> Result<Link, CreateFailure> {
        for attempt in 0..self.max_tries {
            let minted = self.minter.mint(&order.subject(attempt)).await?;
            counter!(NUMBERS_ISSUED).increment(1);
            let code = order.slug.clone().unwrap_or(minted.code);
            let link = NewLink {
                id: minted.number,
                key: LinkKey::new(order.domain.clone(), code),
                content: order.content.clone(),
            };
            match self.batcher.create(link).await? {
                Ok(link) => {
                    count_created(&order);
                    return Ok(link);
                }
                Err(CreateError::CodeTaken) if order.slug.is_some() => {
                    return Err(CreateFailure::SlugTaken);
                }
                // An alias has the code already, or another link the number.
                Err(CreateError::CodeTaken | CreateError::NumberTaken) => {}
            }
        }
        Err(CreateFailure::CodesTaken(self.max_tries))
    }
}

impl From<BatchError> for CreateFailure {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Overloaded => Self::Overloaded,
            BatchError::Store(error) => Self::Store(error),
        }
    }
}

/// Counts a link that was created.
pub(crate) fn count_created(order: &Order) {
    let kind = if order.slug.is_some() {
        "alias"
    } else {
        "generated"
    };
    counter!(LINKS_CREATED, "kind" => kind).increment(1);
}
