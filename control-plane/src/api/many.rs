//! Creating links with care: many in a transaction, those that exist found, those of a repeated request repeated.

use crate::links::{CreateFailure, Numbers, Order, count_created};
use crate::model::Link;
use crate::numbers::Minter;
use crate::problem::{Kind, Problem};
use crate::store::{CreateError, NewLink, OnceLink, Receipt, Store, StoredReceipt, Twin, Wanted};
use edgelink_wire::LinkKey;
use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// How many links are created in one transaction.
const CHUNK: usize = 500;

/// Creates links with care.
pub(crate) struct Careful {
    store: Arc<Store>,
    numbers: Numbers,
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
    /// It was there when the request came before.
    FoundBefore(Link),
}

impl Made {
    /// The key and the revision of a link that was created just now.
    pub(super) fn new_link(&self) -> Option<(LinkKey, u64)> {
        match self {
            Self::New(link) => Some((link.key(), link.rev)),
            Self::Before(_) | Self::Found(_) | Self::FoundBefore(_) => None,
        }
    }
}

type Outcome = Result<Made, Problem>;

impl Careful {
    pub(crate) fn new(store: Arc<Store>, minter: Minter, max_tries: u8) -> Self {
        Self {
            numbers: Numbers::new(store.clone(), minter),
            store,
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
        chunk.finish(|| {
            failure.unwrap_or_else(|| CreateFailure::CodesTaken(self.max_tries.into()).into())
        })
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

    /// Answers what exists already. With it a receipt is left: the same request has the same answer.
    async fn find(&self, chunk: &mut Chunk<'_>) -> Result<(), Problem> {
        for _ in 0..self.max_tries {
            let found = self.find_pending(chunk).await?;
            let receipts = chunk.receipts_of_found(&found);
            if receipts.is_empty() || self.store.leave_receipts(&receipts).await? {
                return Ok(());
            }
            // The same request is at work elsewhere, and was faster.
            chunk.reopen(&found);
            self.repeat(chunk).await?;
        }
        Err(Problem::new(Kind::Overloaded))
    }

    /// The indices of orders whose link was there.
    async fn find_pending(&self, chunk: &mut Chunk<'_>) -> Result<Vec<usize>, Problem> {
        let mut pending = chunk.pending();
        pending.retain(|index| chunk.orders[*index].find_if_exists);
        if pending.is_empty() {
            return Ok(pending);
        }
        let wanted = |index: &usize| chunk.orders[*index].order.wanted();
        let wanted: Vec<Wanted<'_>> = pending.iter().map(wanted).collect();
        let like = self.store.find_like(&wanted).await?;
        let mut found = Vec::new();
        for (index, link) in pending.into_iter().zip(like) {
            if let Some(link) = link {
                chunk.outcomes[index] = Some(Ok(Made::Found(link)));
                found.push(index);
            }
        }
        Ok(found)
    }

    async fn mint(
        &self,
        chunk: &Chunk<'_>,
        pending: &[usize],
        attempt: u8,
    ) -> Result<Vec<OnceLink>, Problem> {
        let orders: Vec<&Order> = pending
            .iter()
            .map(|index| &chunk.orders[*index].order)
            .collect();
        let links = self.numbers.links(&orders, attempt).await?;
        let once = |(index, link): (&usize, NewLink)| {
            let careful = &chunk.orders[*index];
            OnceLink {
                link,
                receipt: careful.receipt.clone(),
                twin: careful.twin(),
            }
        };
        Ok(pending.iter().zip(links).map(once).collect())
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

    fn receipts_of_found(&self, found: &[usize]) -> Vec<(&'a Receipt, &Link)> {
        let receipt = |index: &usize| match &self.outcomes[*index] {
            Some(Ok(Made::Found(link))) => Some((self.orders[*index].receipt.as_ref()?, link)),
            _ => None,
        };
        found.iter().filter_map(receipt).collect()
    }

    fn reopen(&mut self, indices: &[usize]) {
        for index in indices {
            self.outcomes[*index] = None;
        }
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

    /// The outcomes; `failure`, which is made and so logged only if it is needed, for those that have none.
    fn finish(self, failure: impl FnOnce() -> Problem) -> Vec<Outcome> {
        let failure = LazyCell::new(failure);
        let settled = |outcome: Option<Outcome>| outcome.unwrap_or_else(|| Err(failure.clone()));
        self.outcomes.into_iter().map(settled).collect()
    }
}

/// The link of a receipt, as it was: what was asked for is known, for it is asked for again.
fn repeated(order: &Order, receipt: &Receipt, stored: &StoredReceipt) -> Outcome {
    if stored.fingerprint != receipt.fingerprint {
        return Err(Problem::new(Kind::IdempotencyKeyReused));
    }
    let link = Link {
        id: stored.id,
        domain: stored.key.domain.clone(),
        code: stored.key.code.clone(),
        content: order.content.clone(),
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        rev: stored.rev,
    };
    Ok(match stored.found {
        false => Made::Before(link),
        true => Made::FoundBefore(link),
    })
}
