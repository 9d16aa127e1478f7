//! Creating links: what was made before, a number, its code, a commit, and another number where the code is taken.

use super::group_commit::{GroupCommit, MAX_BATCH};
use super::model::Link;
use super::order::{CreateFailure, Made, Order, Outcome};
use crate::config::StoreConfig;
use crate::numbers::Minter;
use crate::problem::{Kind, Problem};
use crate::store::{CreateError, NewLink, Store, Wanted};
use crate::telemetry::prometheus::{LINKS_CREATED, NUMBERS_ISSUED};
use edgelink_wire::{Code, LinkKey};
use metrics::counter;
use std::cell::LazyCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many numbers are looked up at once.
const LOOK_AHEAD: usize = 512;

/// How many numbers are looked up for one request at most.
const MAX_LOOKED_UP: usize = 128 << 10;

/// Makes links out of orders.
pub(crate) struct Creator {
    store: Arc<Store>,
    minter: Minter,
    commits: GroupCommit,
    max_tries: u8,
}

/// How much longer a link waits than the commit before its own may take, before its caller gets a failure.
const GRACE: Duration = Duration::from_millis(300);

impl Creator {
    /// Creates links in `store` with numbers of `minter`, of which each link tries so many.
    pub(crate) fn new(
        store: Arc<Store>,
        minter: Minter,
        config: &StoreConfig,
        max_tries: u8,
    ) -> Self {
        Self {
            commits: GroupCommit::start(&store, config.create_queue, config.timeout_ms + GRACE),
            store,
            minter,
            max_tries,
        }
    }

    /// Carries one order out. The link is in the database when this answers.
    pub(crate) async fn one(&self, order: Order) -> Outcome {
        let mut outcomes = self.chunk(&[order]).await;
        outcomes.pop().unwrap_or(Err(Problem::new(Kind::Internal)))
    }

    /// Carries orders out until `deadline`; what has not begun by then is answered as a timeout. The outcomes are in the
    /// order of `orders`.
    pub(crate) async fn many(&self, orders: &[Order], deadline: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(orders.len());
        for chunk in orders.chunks(MAX_BATCH) {
            if Instant::now() >= deadline {
                break;
            }
            outcomes.extend(self.chunk(chunk).await);
        }
        outcomes.resize_with(orders.len(), || Err(Problem::new(Kind::RequestTimeout)));
        outcomes
    }

    async fn chunk(&self, orders: &[Order]) -> Vec<Outcome> {
        let mut open: Vec<Open<'_>> = orders.iter().map(Open::new).collect();
        let failure = self.carry_out(&mut open).await.err();
        // It is made, and so logged, once and only if it is needed.
        let failure = LazyCell::new(|| {
            let failure = failure.unwrap_or(CreateFailure::CodesTaken(self.max_tries.into()));
            Problem::from(failure)
        });
        let settled = |open: Open<'_>| open.outcome.unwrap_or_else(|| Err(failure.clone()));
        open.into_iter().map(settled).collect()
    }

    async fn carry_out(&self, open: &mut [Open<'_>]) -> Result<(), CreateFailure> {
        self.find_receipts(open).await?;
        self.find_twins(open).await?;
        for attempt in 0..self.max_tries {
            let mut pending: Vec<&mut Open<'_>> = pending(open).collect();
            if pending.is_empty() {
                break;
            }
            let links = self.links(&mut pending, attempt).await?;
            let answers = self.commits.create(links).await?;
            for (open, answer) in pending.into_iter().zip(answers) {
                open.settle(answer);
            }
        }
        Ok(())
    }

    /// Settles orders that have a receipt already.
    async fn find_receipts(&self, open: &mut [Open<'_>]) -> Result<(), CreateFailure> {
        let (receipts, open): (Vec<_>, Vec<_>) = pending(open)
            .filter_map(|open| Some((open.order.receipt.as_ref()?, open)))
            .unzip();
        if receipts.is_empty() {
            return Ok(());
        }
        let stored = self.store.receipts(&receipts).await?;
        for (open, stored) in open.into_iter().zip(stored) {
            open.outcome = stored.map(|stored| open.order.replayed(stored));
        }
        Ok(())
    }

    /// Settles orders whose link exists already, if they leave no receipt of that.
    async fn find_twins(&self, open: &mut [Open<'_>]) -> Result<(), CreateFailure> {
        let open: Vec<_> = pending(open)
            .filter(|open| open.order.find_if_exists)
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Wanted<'_>> = open.iter().map(|open| open.order.wanted()).collect();
        let found = self.store.find_like(&wanted).await?;
        for (open, found) in open.into_iter().zip(found) {
            match found {
                Some(link) if open.order.receipt.is_none() => {
                    open.settle(Err(CreateError::Found(Box::new(link))));
                }
                found => open.known = found,
            }
        }
        Ok(())
    }

    /// What is to be committed for these orders. In the first attempt each takes the next number, for that is nearly always
    /// free. In any other they look for free ones: where aliases were imported, or another source has issued numbers, long
    /// runs of them are taken.
    async fn links(
        &self,
        pending: &mut [&mut Open<'_>],
        attempt: u8,
    ) -> Result<Vec<NewLink>, CreateFailure> {
        let mut links = Vec::with_capacity(pending.len());
        for open in pending.iter_mut() {
            links.push(match open.known.take() {
                Some(link) => Some(open.order.known(link)),
                None if attempt == 0 => Some(self.link(open.order, 0).await?.0),
                None => None,
            });
        }
        let orders: Vec<&Order> = pending.iter().map(|open| open.order).collect();
        self.fill(&orders, &mut links, attempt.into()).await?;
        let links: Option<Vec<NewLink>> = links.into_iter().collect();
        links.ok_or(CreateFailure::CodesTaken(MAX_LOOKED_UP))
    }

    /// Gives each order that has no link yet one whose number and code are free.
    async fn fill(
        &self,
        orders: &[&Order],
        links: &mut [Option<NewLink>],
        mut attempt: u32,
    ) -> Result<(), CreateFailure> {
        let (mut looked_up, mut width) = (0, 1);
        while looked_up < MAX_LOOKED_UP && links.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..orders.len())
                .filter(|at| links[*at].is_none())
                .collect();
            let each = width.min(LOOK_AHEAD / open.len()).max(1);
            let mut minted = Vec::with_capacity(each * open.len());
            let mut keys = Vec::with_capacity(each * open.len());
            for at in open.iter().flat_map(|at| std::iter::repeat_n(*at, each)) {
                attempt = attempt.saturating_add(1);
                let (link, code) = self.link(orders[at], attempt).await?;
                keys.push((link.id, LinkKey::new(link.key.domain.clone(), code)));
                minted.push((at, link));
            }
            let taken = self.store.are_taken(&keys).await?;
            looked_up += minted.len();
            for ((at, link), is_taken) in minted.into_iter().zip(taken) {
                if !is_taken && links[at].is_none() {
                    links[at] = Some(link);
                }
            }
            // What is left over when the run ends is lost, so that is no more than the run was long.
            width *= 2;
        }
        Ok(())
    }

    /// A new link with the next number, and the code of that number. An alias does not take the code, but a number whose
    /// code is taken may well be taken itself.
    async fn link(&self, order: &Order, attempt: u32) -> Result<(NewLink, Code), CreateFailure> {
        let minted = self.minter.mint(&order.subject(attempt)).await?;
        counter!(NUMBERS_ISSUED).increment(1);
        Ok((order.link(minted.number, &minted.code), minted.code))
    }
}

/// An order that is being carried out.
struct Open<'a> {
    order: &'a Order,
    /// The link that is good enough, and has yet to leave a receipt.
    known: Option<Link>,
    outcome: Option<Outcome>,
}

fn pending<'p, 'o>(open: &'p mut [Open<'o>]) -> impl Iterator<Item = &'p mut Open<'o>> {
    open.iter_mut().filter(|open| open.outcome.is_none())
}

impl<'a> Open<'a> {
    fn new(order: &'a Order) -> Self {
        Self {
            order,
            known: None,
            outcome: None,
        }
    }

    /// Takes the answer of the store. A generated code or a number that is taken leaves the order pending.
    fn settle(&mut self, answer: Result<Link, CreateError>) {
        let made = |link, is_found| {
            Some(Ok(Made {
                link,
                is_found,
                is_replayed: false,
            }))
        };
        let is_alias = self.order.alias.is_some();
        self.outcome = match answer {
            Ok(link) => {
                let kind = if is_alias { "alias" } else { "generated" };
                counter!(LINKS_CREATED, "kind" => kind).increment(1);
                made(link, false)
            }
            Err(CreateError::Found(link)) => made(*link, true),
            Err(CreateError::Repeated(stored)) => Some(self.order.replayed(*stored)),
            Err(CreateError::CodeTaken) if is_alias => Some(Err(CreateFailure::AliasTaken.into())),
            // An alias has the code already, or another link the number.
            Err(CreateError::CodeTaken | CreateError::NumberTaken) => None,
        };
    }
}
