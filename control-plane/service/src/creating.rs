//! Creating links: receipts and equal links first, then a number, its code, a commit, and another number if the code is taken.

use super::create_link::{CreateFailure, CreateLink, CreateOutcome, Created};
use super::group_commit::{GRACE, GroupCommit};
use super::lanes::MAX_BATCH;
use crate::problem::{Kind, Problem};
use edgelink_feed::resolve::KnownKeys;
use edgelink_model::links::model::Link;
use edgelink_numbers::Minter;
use edgelink_settings::config::StoreConfig;
use edgelink_settings::telemetry::prometheus::{LINKS_CREATED, NUMBERS_ISSUED};
use edgelink_store::{CreateError, NewLink, Store, Wanted};
use edgelink_wire::{Code, LinkKey};
use metrics::counter;
use std::borrow::Borrow;
use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Limit on the numbers looked up at once.
const LOOK_AHEAD: usize = 512;

/// Limit on the numbers looked up for one request.
const MAX_LOOKED_UP: usize = 128 << 10;

/// Creates the links of requests.
pub(crate) struct Creator {
    store: Arc<Store>,
    minter: Minter,
    known_keys: Arc<KnownKeys>,
    commits: GroupCommit,
    /// Time limit of a single link, in the queue and for its commit.
    wait_limit: Duration,
    max_tries: u8,
}

impl Creator {
    /// A creator of links in `store` with numbers of `minter`; each request has `max_tries` attempts.
    pub(crate) fn new(
        store: Arc<Store>,
        minter: Minter,
        known_keys: Arc<KnownKeys>,
        config: &StoreConfig,
        max_tries: u8,
    ) -> Self {
        Self {
            commits: GroupCommit::start(&store, config.create_queue),
            wait_limit: config.timeout_ms + GRACE,
            store,
            minter,
            known_keys,
            max_tries,
        }
    }

    /// Carries out one request. The link is committed when this returns.
    pub(crate) async fn create(&self, request: CreateLink) -> CreateOutcome {
        let mut outcomes = self.create_chunk(&[request], self.wait_limit).await;
        outcomes.pop().unwrap_or(Err(Problem::new(Kind::Internal)))
    }

    /// Carries out requests; requests not begun at `deadline` are left out, and requests not committed at `end` fail. The outcomes
    /// are in the order of `requests`.
    pub(crate) async fn create_many<O: Borrow<CreateLink>>(
        &self,
        requests: &[O],
        deadline: Instant,
        end: Instant,
    ) -> Vec<CreateOutcome> {
        let mut outcomes = Vec::with_capacity(requests.len());
        for chunk in requests.chunks(MAX_BATCH) {
            if Instant::now() >= deadline {
                break;
            }
            let wait_limit = end.saturating_duration_since(Instant::now());
            outcomes.extend(self.create_chunk(chunk, wait_limit).await);
        }
        outcomes
    }

    /// The outcomes of requests that create nothing, because a receipt or an equal link exists.
    pub(crate) async fn existing<O: Borrow<CreateLink>>(
        &self,
        requests: &[O],
    ) -> Result<Vec<Option<CreateOutcome>>, Problem> {
        let mut open = OpenRequest::all(requests);
        self.find_receipts(&mut open).await?;
        self.find_twins(&mut open).await?;
        for open in &mut open {
            if let Some(link) = open.twin.take() {
                open.settle(Err(CreateError::Found(Box::new(link))));
            }
        }
        Ok(open.into_iter().map(|open| open.outcome).collect())
    }

    async fn create_chunk<O: Borrow<CreateLink>>(
        &self,
        requests: &[O],
        wait_limit: Duration,
    ) -> Vec<CreateOutcome> {
        let mut open = OpenRequest::all(requests);
        let failure = self.carry_out(&mut open, wait_limit).await.err();
        // Converting it logs it: once, and only if a request needs it.
        let failure = LazyCell::new(|| {
            let failure = failure.unwrap_or(CreateFailure::CodesTaken(self.max_tries.into()));
            Problem::from(failure)
        });
        let settled = |open: OpenRequest<'_>| open.outcome.unwrap_or_else(|| Err(failure.clone()));
        open.into_iter().map(settled).collect()
    }

    async fn carry_out(
        &self,
        open: &mut [OpenRequest<'_>],
        wait_limit: Duration,
    ) -> Result<(), CreateFailure> {
        self.find_receipts(open).await?;
        self.find_twins(open).await?;
        self.find_taken(open).await?;
        for attempt in 0..self.max_tries {
            let mut pending: Vec<&mut OpenRequest<'_>> = pending(open).collect();
            if pending.is_empty() {
                break;
            }
            let links = self.links(&mut pending, attempt).await?;
            let answers = self.commits.create(links, wait_limit).await?;
            for (open, answer) in pending.into_iter().zip(answers) {
                open.settle(answer);
            }
        }
        Ok(())
    }

    /// Settles requests whose receipt exists.
    async fn find_receipts(&self, open: &mut [OpenRequest<'_>]) -> Result<(), CreateFailure> {
        let (receipts, open): (Vec<_>, Vec<_>) = pending(open)
            .filter_map(|open| Some((open.request.receipt.as_ref()?, open)))
            .unzip();
        if receipts.is_empty() {
            return Ok(());
        }
        let stored = self.store.receipts(&receipts).await?;
        for (open, stored) in open.into_iter().zip(stored) {
            open.outcome = stored.map(|stored| open.request.replayed(stored));
        }
        Ok(())
    }

    /// Finds equal links of requests with `find_if_exists`; settles those that store no receipt.
    async fn find_twins(&self, open: &mut [OpenRequest<'_>]) -> Result<(), CreateFailure> {
        let open: Vec<_> = pending(open)
            .filter(|open| open.request.find_if_exists)
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Wanted<'_>> = open.iter().map(|open| open.request.wanted()).collect();
        let found = self.store.find_like(&wanted).await?;
        for (open, found) in open.into_iter().zip(found) {
            match found {
                Some(link) if open.request.receipt.is_none() => {
                    open.settle(Err(CreateError::Found(Box::new(link))));
                }
                found => open.twin = found,
            }
        }
        Ok(())
    }

    /// Settles requests for a code or an external id that another link has. Inserting them would fail as well, but would wait for a
    /// lock on that link, together with everything in the same commit.
    async fn find_taken(&self, open: &mut [OpenRequest<'_>]) -> Result<(), CreateFailure> {
        let named = open.iter().enumerate();
        let named = named.filter(|(_, open)| open.is_new() && self.may_be_taken(open.request));
        let (places, names): (Vec<_>, Vec<_>) = named
            .map(|(place, open)| (place, open.request.names()))
            .unzip();
        if names.is_empty() {
            return Ok(());
        }
        let taken = self.store.find_taken(&names).await?;
        let taken = places.into_iter().zip(taken);
        let taken: Vec<_> = taken
            .filter_map(|(place, error)| Some((place, error?)))
            .collect();
        if !taken.is_empty() {
            // The link that has them may have been created by this very request before.
            self.find_receipts(open).await?;
        }
        for (place, error) in taken {
            if let Some(open) = open.get_mut(place).filter(|open| open.outcome.is_none()) {
                open.settle(Err(error));
            }
        }
        Ok(())
    }

    /// True if another link may have the alias or the external id of the request. A request that allows no equal link finds it
    /// among the equal ones, on a lane of its own.
    fn may_be_taken(&self, request: &CreateLink) -> bool {
        let is_known = |alias: &Code| {
            let key = LinkKey::new(request.domain.clone(), alias.clone());
            self.known_keys.may_have(&key.to_string())
        };
        !request.find_if_exists
            && (request.content.external_id.is_some()
                || request.alias.as_ref().is_some_and(is_known))
    }

    /// The links to commit for these requests. In the first attempt each takes the next number, which is nearly always free. Later
    /// attempts look up free numbers: after an import of aliases, or a change of the source, long runs of them are taken.
    async fn links(
        &self,
        pending: &mut [&mut OpenRequest<'_>],
        attempt: u8,
    ) -> Result<Vec<NewLink>, CreateFailure> {
        let mut links = Vec::with_capacity(pending.len());
        for open in pending.iter_mut() {
            links.push(match open.twin.take() {
                Some(link) => Some(open.request.existing(link)),
                None if attempt == 0 => Some(self.link(open.request, 0).await?.0),
                None => None,
            });
        }
        let requests: Vec<&CreateLink> = pending.iter().map(|open| open.request).collect();
        self.fill(&requests, &mut links, attempt.into()).await?;
        let links: Option<Vec<NewLink>> = links.into_iter().collect();
        links.ok_or(CreateFailure::CodesTaken(MAX_LOOKED_UP))
    }

    /// Gives each request without a link a link with a free number and code.
    async fn fill(
        &self,
        requests: &[&CreateLink],
        links: &mut [Option<NewLink>],
        mut attempt: u32,
    ) -> Result<(), CreateFailure> {
        let (mut looked_up, mut width) = (0, 1);
        while looked_up < MAX_LOOKED_UP && links.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..requests.len())
                .filter(|at| links[*at].is_none())
                .collect();
            let each = width.min(LOOK_AHEAD / open.len()).max(1);
            let mut minted = Vec::with_capacity(each * open.len());
            let mut keys = Vec::with_capacity(each * open.len());
            for at in open.iter().flat_map(|at| std::iter::repeat_n(*at, each)) {
                attempt = attempt.saturating_add(1);
                let (link, code) = self.link(requests[at], attempt).await?;
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
            // Numbers after the run of taken ones are lost: at most as many as the run was long.
            width *= 2;
        }
        Ok(())
    }

    /// The number below `bound` whose code this is, if any.
    pub(crate) fn number_of(&self, code: &Code, bound: u64) -> Option<u64> {
        self.minter.number_of(code).filter(|number| *number < bound)
    }

    /// Number of attempts to find a free number and code.
    pub(super) fn max_tries(&self) -> u8 {
        self.max_tries
    }

    /// The next number, for a link made from another one.
    pub(super) async fn number(
        &self,
        request: &CreateLink,
        attempt: u32,
    ) -> Result<u64, CreateFailure> {
        let (link, _) = self.link(request, attempt).await?;
        Ok(link.id)
    }

    /// A new link with the next number, and the code of that number. The code is needed for an alias too: a number whose code is
    /// taken may be taken itself.
    async fn link(
        &self,
        request: &CreateLink,
        attempt: u32,
    ) -> Result<(NewLink, Code), CreateFailure> {
        if let (0, Some(number), Some(code)) = (attempt, request.number, &request.alias) {
            return Ok((request.link(number, code), code.clone()));
        }
        let minted = self.minter.mint(&request.subject(attempt)).await?;
        counter!(NUMBERS_ISSUED).increment(1);
        Ok((request.link(minted.number, &minted.code), minted.code))
    }
}

/// A request that is being carried out.
struct OpenRequest<'a> {
    request: &'a CreateLink,
    /// The existing equal link whose receipt has yet to be stored.
    twin: Option<Link>,
    outcome: Option<CreateOutcome>,
}

fn pending<'p, 'o>(
    open: &'p mut [OpenRequest<'o>],
) -> impl Iterator<Item = &'p mut OpenRequest<'o>> {
    open.iter_mut().filter(|open| open.outcome.is_none())
}

impl<'a> OpenRequest<'a> {
    fn all<O: Borrow<CreateLink>>(requests: &'a [O]) -> Vec<Self> {
        let open = |request: &'a O| Self {
            request: request.borrow(),
            twin: None,
            outcome: None,
        };
        requests.iter().map(open).collect()
    }

    /// True if a link has to be created for the request.
    fn is_new(&self) -> bool {
        self.outcome.is_none() && self.twin.is_none()
    }

    /// Applies the answer of the store. A generated code or a number that is taken leaves the request pending.
    fn settle(&mut self, answer: Result<Link, CreateError>) {
        let is_alias = self.request.alias.is_some();
        self.outcome = match answer {
            Ok(link) => {
                let is_generated = !is_alias || self.request.number == Some(link.id);
                let kind = if is_generated { "generated" } else { "alias" };
                counter!(LINKS_CREATED, "kind" => kind).increment(1);
                Some(Ok(Created::fresh(link)))
            }
            Err(CreateError::Found(link)) => Some(Ok(Created::found(*link))),
            Err(CreateError::Repeated(stored)) => Some(self.request.replayed(*stored)),
            Err(CreateError::CodeTaken) if is_alias => Some(Err(CreateFailure::AliasTaken.into())),
            Err(CreateError::ExternalIdTaken) => Some(Err(CreateFailure::ExternalIdTaken.into())),
            Err(CreateError::DomainGone) => Some(Err(CreateFailure::DomainGone.into())),
            // The next attempt takes another number.
            Err(CreateError::CodeTaken | CreateError::NumberTaken) => None,
        };
    }
}
