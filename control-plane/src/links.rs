//! Creating links: a number, its code, and another number where the code is taken.

use crate::creation::{BatchError, Batcher};
use crate::model::{Link, LinkContent};
use crate::numbers::{IssueError, Minter, Subject};
use crate::store::{CreateError, NewLink, Store, StoreError, Wanted};
use crate::telemetry::prometheus::{LINKS_CREATED, NUMBERS_ISSUED};
use edgelink_wire::{Code, Domain, LinkKey};
use metrics::counter;
use std::sync::Arc;

/// Makes links out of orders.
pub(crate) struct Creator {
    batcher: Batcher,
    numbers: Numbers,
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
    /// The link that would be like this one.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            domain: &self.domain,
            code: self.slug.as_ref(),
            content: &self.content,
        }
    }

    fn subject(&self, attempt: u32) -> Subject<'_> {
        Subject {
            domain: &self.domain,
            target: &self.content.target,
            owner: &self.owner,
            attempt,
        }
    }
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("the slug is taken")]
    SlugTaken,
    #[error("no free code was found in {0} tries")]
    CodesTaken(usize),
    #[error("too many links wait for their commit")]
    Overloaded,
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Creator {
    pub(crate) fn new(batcher: Batcher, numbers: Numbers, max_tries: u8) -> Self {
        Self {
            batcher,
            numbers,
            max_tries,
        }
    }

    /// Creates the link. It is in the database when this answers.
    pub(crate) async fn create(&self, order: Order) -> Result<Link, CreateFailure> {
        for attempt in 0..self.max_tries {
            let mut links = self.numbers.links(&[&order], attempt).await?;
            let Some(link) = links.pop() else {
                break;
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
        Err(CreateFailure::CodesTaken(self.max_tries.into()))
    }
}

/// How many numbers are looked up at once.
const LOOK_AHEAD: usize = 512;

/// How many numbers are looked up for one request at most.
const MAX_LOOKED_UP: usize = 128 << 10;

/// Numbers for new links.
pub(crate) struct Numbers {
    store: Arc<Store>,
    minter: Minter,
}

impl Numbers {
    pub(crate) fn new(store: Arc<Store>, minter: Minter) -> Self {
        Self { store, minter }
    }

    /// New links for these orders. In the first attempt each takes the next number, for that is nearly always free.
    /// In any other they look for free ones: where aliases were imported, or another source has issued numbers, long runs
    /// of them are taken.
    pub(crate) async fn links(
        &self,
        orders: &[&Order],
        attempt: u8,
    ) -> Result<Vec<NewLink>, CreateFailure> {
        if attempt > 0 {
            return self.free_links(orders, attempt.into()).await;
        }
        let mut links = Vec::with_capacity(orders.len());
        for order in orders {
            links.push(self.link(order, 0).await?.0);
        }
        Ok(links)
    }

    async fn free_links(
        &self,
        orders: &[&Order],
        mut attempt: u32,
    ) -> Result<Vec<NewLink>, CreateFailure> {
        let mut free: Vec<Option<NewLink>> = vec![None; orders.len()];
        let (mut looked_up, mut width) = (0, 1);
        while looked_up < MAX_LOOKED_UP && free.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..orders.len()).filter(|at| free[*at].is_none()).collect();
            let each = width.min(LOOK_AHEAD / open.len()).max(1);
            let mut links = Vec::with_capacity(each * open.len());
            let mut keys = Vec::with_capacity(each * open.len());
            for at in open.iter().flat_map(|at| std::iter::repeat_n(*at, each)) {
                attempt = attempt.saturating_add(1);
                let (link, code) = self.link(orders[at], attempt).await?;
                keys.push((link.id, LinkKey::new(link.key.domain.clone(), code)));
                links.push((at, link));
            }
            let taken = self.store.are_taken(&keys).await?;
            looked_up += links.len();
            for ((at, link), is_taken) in links.into_iter().zip(taken) {
                if !is_taken && free[at].is_none() {
                    free[at] = Some(link);
                }
            }
            // What is left over when the run ends is lost, so that is no more than the run was long.
            width *= 2;
        }
        let free: Option<Vec<NewLink>> = free.into_iter().collect();
        free.ok_or(CreateFailure::CodesTaken(looked_up))
    }

    /// A new link with the next number, and the code of that number. An alias does not take the code, but a number whose
    /// code is taken may well be taken itself.
    async fn link(&self, order: &Order, attempt: u32) -> Result<(NewLink, Code), CreateFailure> {
        let minted = self.minter.mint(&order.subject(attempt)).await?;
        counter!(NUMBERS_ISSUED).increment(1);
        let code = order.slug.clone().unwrap_or_else(|| minted.code.clone());
        let link = NewLink {
            id: minted.number,
            key: LinkKey::new(order.domain.clone(), code),
            content: order.content.clone(),
        };
        Ok((link, minted.code))
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
