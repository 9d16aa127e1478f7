//! Creating links with care: many in a transaction, those that exist found, those of a repeated request repeated.

use crate::issuer::Minter;
use crate::links::{CreateFailure, Order, count_created};
use crate::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{CreateError, NewLink, OnceLink, Receipt, Store, StoredReceipt, Twin};
use edgelink_wire::LinkKey;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// How many links are created in one transaction.
const CHUNK: usize = 500;

/// Creates links with care.
pub(crate) struct Careful {
    store: Arc<dyn Store>,
    minter: Minter,
    max_tries: u8,
}

/// An order and how it is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CarefulOrder {
    pub(super) order: Order,
    /// Whether a link that is the same already is good enough.
    pub(super) find_if_exists: bool,
    /// The receipt to leave.
    pub(super) receipt: Option<Receipt>,
}

impl CarefulOrder {
    fn twin(&self) -> Twin {
        match (self.find_if_exists, &self.order.slug) {
            (false, _) => Twin::Allowed,
            (true, Some(_)) => Twin::NotWithThisCode,
            (true, None) => Twin::NotWithAnyCode,
        }
    }
}

/// A link, and how it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// It was created just now.
    New(Link),
    /// It was created when the request came before.
    Before(Link),
    /// It was there.
    Found(Link),
}

type Outcome = Result<Made, Problem>;

impl Careful {
    pub(crate) fn new(store: Arc<dyn Store>, minter: Minter, max_tries: u8) -> Self {
        Self {
            store,
            minter,
            max_tries,
        }
    }

    /// Carries one order out.
    pub(super) async fn one(&self, order: CarefulOrder) -> Outcome {
        let mut outcomes = self.chunk(&[order]).await;
        outcomes.pop().unwrap_or(Err(Problem::new(Kind::Internal)))
    }

    /// Carries orders out until `deadline`; what has not begun by then is answered as a timeout. The outcomes are in the
    /// order of `orders`.
    pub(super) async fn many(&self, orders: &[CarefulOrder], deadline: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(orders.len());
        while outcomes.len() < orders.len() && Instant::now() < deadline {
            let rest = &orders[outcomes.len()..];
            outcomes.extend(self.chunk(&rest[..chunk_length(rest)]).await);
        }
        outcomes.resize_with(orders.len(), || Err(Problem::new(Kind::RequestTimeout)));
        outcomes
    }

    async fn chunk(&self, orders: &[CarefulOrder]) -> Vec<Outcome> {
        let mut chunk = Chunk {
            orders,
            outcomes: vec![None; orders.len()],
        };
        let failure = self.carry_out(&mut chunk).await.err();
        chunk.finish(&failure.unwrap_or_else(|| CreateFailure::CodesTaken(self.max_tries).into()))
    }

    async fn carry_out(&self, chunk: &mut Chunk<'_>) -> Result<(), Problem> {
        self.repeat(chunk).await?;
        self.find(chunk).await?;
        for attempt in 0..self.max_tries {
            let pending = chunk.pending();
            if pending.is_empty() {
                break;
            }
            let links = self.mint(chunk, &pending, attempt).await?;
            match self.store.create_links_once(links).await? {
                Some(results) => chunk.settle(&pending, results),
                // The same request is at work elsewhere, or another one for the same link, and was faster.
                None => {
                    self.repeat(chunk).await?;
                    self.find(chunk).await?;
                }
            }
        }
        if chunk.has_taken_slugs() {
            // Taken, perhaps, by this very request when it came before.
            self.repeat(chunk).await?;
        }
        Ok(())
    }

    /// Answers what has a receipt.
    async fn repeat(&self, chunk: &mut Chunk<'_>) -> Result<(), Problem> {
        let open = chunk.receipts();
        let (Some(first), Some(last)) = (open.first(), open.last()) else {
            return Ok(());
        };
        let items = first.1.item..last.1.item + 1;
        let stored = self.store.receipts(&first.1.request, items).await?;
        for (index, receipt) in open {
            if let Some(stored) = stored.iter().find(|stored| stored.item == receipt.item) {
                chunk.outcomes[index] = Some(repeated(&chunk.orders[index].order, receipt, stored));
            }
        }
        Ok(())
    }

    async fn find(&self, chunk: &mut Chunk<'_>) -> Result<(), Problem> {
        let wanted: Vec<usize> = chunk
            .pending()
            .into_iter()
            .filter(|index| chunk.orders[*index].find_if_exists)
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let targets: Vec<_> = wanted
            .iter()
            .map(|index| &chunk.orders[*index].order.content.target)
            .collect();
        let links = self.store.links_to(&targets).await?;
        for index in wanted {
            let order = &chunk.orders[index].order;
            let same = links.iter().find(|link| is_same(link, order));
            chunk.outcomes[index] = same.map(|link| Ok(Made::Found(link.clone())));
        }
        Ok(())
    }

    async fn mint(
        &self,
        chunk: &Chunk<'_>,
        pending: &[usize],
        attempt: u8,
    ) -> Result<Vec<OnceLink>, Problem> {
        let mut links = Vec::with_capacity(pending.len());
        for index in pending {
            let careful = &chunk.orders[*index];
            let order = &careful.order;
            let minted = self.minter.mint(&order.subject(attempt)).await;
            let minted = minted.map_err(CreateFailure::from)?;
            let code = order.slug.clone().unwrap_or(minted.code);
            let link = NewLink {
                id: minted.number,
                key: LinkKey::new(order.domain.clone(), code),
                content: order.content.clone(),
            };
            links.push(OnceLink {
                link,
                receipt: careful.receipt.clone(),
                twin: careful.twin(),
            });
        }
        Ok(links)
    }
}

/// How many of `orders` go into one transaction. Two that would find each other do not.
fn chunk_length(orders: &[CarefulOrder]) -> usize {
    let mut seen = HashSet::new();
    for (index, order) in orders.iter().take(CHUNK).enumerate() {
        let is_new = seen.insert(order.order.content.target.as_str());
        if order.find_if_exists && !is_new {
            return index;
        }
    }
    orders.len().min(CHUNK)
}

struct Chunk<'a> {
    orders: &'a [CarefulOrder],
    outcomes: Vec<Option<Outcome>>,
}

impl<'a> Chunk<'a> {
    fn pending(&self) -> Vec<usize> {
        let indices = 0..self.outcomes.len();
        indices
            .filter(|index| self.outcomes[*index].is_none())
            .collect()
    }

    /// The receipts of what has no link yet.
    fn receipts(&self) -> Vec<(usize, &'a Receipt)> {
        let is_open = |outcome: &Option<Outcome>| !matches!(outcome, Some(Ok(_)));
        let orders = self.orders.iter().zip(&self.outcomes).enumerate();
        orders
            .filter(|(_, (_, outcome))| is_open(outcome))
            .filter_map(|(index, (order, _))| Some((index, order.receipt.as_ref()?)))
            .collect()
    }

    fn has_taken_slugs(&self) -> bool {
        let is_taken = |outcome: &Option<Outcome>| matches!(outcome, Some(Err(problem)) if problem.kind() == Kind::SlugTaken);
        self.outcomes.iter().any(is_taken)
    }

    /// Takes the results of an attempt. A generated code or a number that is taken leaves its order pending.
    fn settle(&mut self, pending: &[usize], results: Vec<Result<Link, CreateError>>) {
        for (index, result) in pending.iter().zip(results) {
            let order = &self.orders[*index].order;
            self.outcomes[*index] = match result {
                Ok(link) => {
                    count_created(order);
                    Some(Ok(Made::New(link)))
                }
                Err(CreateError::CodeTaken) if order.slug.is_some() => {
                    Some(Err(CreateFailure::SlugTaken.into()))
                }
                Err(CreateError::CodeTaken | CreateError::NumberTaken) => None,
            };
        }
    }

    fn finish(self, failure: &Problem) -> Vec<Outcome> {
        let settled = |outcome: Option<Outcome>| outcome.unwrap_or_else(|| Err(failure.clone()));
        self.outcomes.into_iter().map(settled).collect()
    }
}

/// The link of a receipt, as it was: what was asked for is known, for it is asked for again.
fn repeated(order: &Order, receipt: &Receipt, stored: &StoredReceipt) -> Outcome {
    if stored.fingerprint != receipt.fingerprint {
        return Err(Problem::new(Kind::IdempotencyKeyReused));
    }
    Ok(Made::Before(Link {
        id: stored.id,
        domain: stored.key.domain.clone(),
        code: stored.key.code.clone(),
        content: order.content.clone(),
        created_at: stored.created_at,
        updated_at: stored.created_at,
        rev: stored.rev,
    }))
}

fn is_same(link: &Link, order: &Order) -> bool {
    let is_same_code = order.slug.as_ref().is_none_or(|slug| *slug == link.code);
    is_same_code && link.domain == order.domain && link.content == order.content
}
