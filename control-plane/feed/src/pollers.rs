//! The workers that poll the feed, and how far each has applied it.
//!
//! The position after which a worker polls acknowledges everything up to it, in its generation. A worker counts for [`LEASE`] after
//! its last poll, and after its last answer: 5 s after a worker has last read the feed it serves nothing that it has not asked for
//! again. A worker that does not acknowledge what it was given does not renew its lease, however often it polls.
//!
//! Replicas tell each other how far all of their own workers are, and which ones have acknowledged a change: a worker may
//! acknowledge at any replica. A replica counts as a reader as well, because its cache answers lookups.

use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{FeedPoint, FeedPosition};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

/// Time for which a worker counts that is not heard of.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// Period in which leases that have ended are looked for while a request waits.
const PRUNE_PERIOD: Duration = Duration::from_millis(50);

/// The name of a replica: random, of each start.
pub(crate) type ReplicaName = [u8; 16];

/// The end of a wait for workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// By all workers that count.
    ByAll,
    /// By all that still count: the leases of others have ended meanwhile.
    ByRest,
}

/// A replica's report of its workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerReport {
    /// The generation of its feed; 0 if unknown.
    pub(crate) generation: u64,
    /// Position up to which the replica and all its workers have applied the feed; `None` if a worker has applied nothing of
    /// the generation.
    pub(crate) through: Option<FeedPosition>,
    /// True if a worker polls there that cannot acknowledge.
    pub(crate) has_unnamed: bool,
    /// True if the replica ends. Then all of its workers follow, which others wait for from now on.
    pub(crate) leaves: bool,
    /// Workers that have acknowledged something since the last report, and their positions; the start for one that has applied
    /// nothing of the generation.
    pub(crate) acknowledged: Vec<(WorkerId, FeedPosition)>,
}

/// The workers that poll this replica, and the reports of others.
pub(crate) struct Pollers {
    table: Mutex<PollerTable>,
    /// Notified when there is something to report.
    reportable: Notify,
}

struct PollerTable {
    max: usize,
    /// Generation of this process's feed, and its end.
    place: FeedPoint,
    /// The position at which the generation began here.
    origin: FeedPosition,
    pollers: HashMap<WorkerId, Poller>,
    /// Number of workers that count, by the position up to which they have applied the feed.
    counted: BTreeMap<Option<FeedPosition>, usize>,
    /// Time until which a worker counts that cannot acknowledge.
    unnamed_until: Option<Instant>,
    /// `None` in a process without replicas.
    replicas: Option<Replicas>,
    /// The newest change, and the time of its arrival.
    change: Option<(FeedPosition, Instant)>,
    waiters: BTreeMap<FeedPosition, Vec<oneshot::Sender<Acknowledged>>>,
    pruned_at: Instant,
    has_warned: bool,
}

struct Poller {
    /// `None` if it has applied nothing of the generation.
    applied: Option<FeedPosition>,
    /// The end of the last answer that it was given.
    given: Option<FeedPoint>,
    /// True if it has polled from before that end.
    lags: bool,
    /// True while its lease lasts.
    is_counted: bool,
    lease_until: Instant,
    polled_at: Instant,
    /// True if its position is to be reported.
    is_reportable: bool,
}

#[derive(Default)]
struct Replicas {
    others: HashMap<ReplicaName, Replica>,
    /// The place of this process's feed when replicas were last listed.
    listed: Option<FeedPoint>,
    /// Generation, and position up to which all have applied it here, of the last report.
    reported: (u64, Option<FeedPosition>),
    /// Workers whose positions are to be reported.
    reportable: Vec<WorkerId>,
}

struct Replica {
    generation: u64,
    through: Option<FeedPosition>,
    has_unnamed: bool,
    /// True if it was in the last list.
    is_listed: bool,
    heard_at: Option<Instant>,
}

impl Replica {
    fn is_heard(&self, now: Instant) -> bool {
        self.heard_at.is_some_and(|at| now < at + LEASE)
    }
}

impl Pollers {
    /// At most `max` workers are known; the rest cannot acknowledge.
    pub(crate) fn new(max: usize) -> Self {
        let table = PollerTable {
            max,
            place: FeedPoint::default(),
            origin: FeedPosition::START,
            pollers: HashMap::new(),
            counted: BTreeMap::new(),
            unnamed_until: None,
            replicas: None,
            change: None,
            waiters: BTreeMap::new(),
            pruned_at: Instant::now(),
            has_warned: false,
        };
        Self {
            table: Mutex::new(table),
            reportable: Notify::new(),
        }
    }

    /// Notes a poll that begins, after a position that this process has reached; `None` for a worker without a name.
    pub(crate) fn on_poll(&self, worker: Option<WorkerId>, after: Option<FeedPoint>) {
        self.change_table(|table| table.on_poll(worker, after, Instant::now()));
    }

    /// Notes the answer of a poll, which ends at `next`.
    pub(crate) fn on_answer(&self, worker: Option<WorkerId>, next: FeedPoint) {
        self.change_table(|table| table.on_answer(worker, next, Instant::now()));
    }

    /// Notes that this process has applied the feed up to `position`, where a link or domain has changed if `is_change`.
    pub(crate) fn on_push(&self, position: FeedPosition, is_change: bool) {
        self.change_table(|table| {
            table.place.1 = position;
            if is_change {
                table.change = Some((position, Instant::now()));
            }
        });
    }

    /// Notes a new generation: workers that read it from its beginning ask for everything again.
    pub(crate) fn on_reset(&self, place: FeedPoint) {
        self.change_table(|table| table.on_reset(place, Instant::now()));
    }

    /// Waits until all workers that count have applied everything up to a place.
    pub(crate) async fn acknowledged(&self, place: FeedPoint) -> Acknowledged {
        let mut waiter = self.table().wait(place);
        loop {
            tokio::select! {
                Ok(outcome) = &mut waiter => return outcome,
                () = sleep(PRUNE_PERIOD) => self.prune(),
            }
        }
    }

    /// True if a worker counts that cannot acknowledge.
    pub(crate) fn has_unnamed(&self) -> bool {
        let now = Instant::now();
        let table = self.table();
        let is_unnamed = |replica: &Replica| replica.has_unnamed && replica.is_heard(now);
        let others = table.replicas.iter().flat_map(|all| all.others.values());
        table.has_unnamed(now) || others.into_iter().any(is_unnamed)
    }

    /// Begins to count other replicas: until they are listed, nothing is acknowledged by all.
    pub(crate) fn expect_replicas(&self) {
        self.table().replicas.get_or_insert_default();
    }

    /// True if there are other replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        let table = self.table();
        let replicas = table.replicas.as_ref();
        replicas.is_some_and(|replicas| !replicas.others.is_empty())
    }

    /// The report of this process, and the place of its feed.
    pub(crate) fn report(&self) -> (WorkerReport, FeedPoint) {
        self.prune();
        let mut table = self.table();
        (table.report(Instant::now()), table.place)
    }

    /// The report of this process when it ends.
    pub(crate) fn last_report(&self) -> WorkerReport {
        let mut table = self.table();
        let report = table.report(Instant::now());
        let counted = table.pollers.iter().filter(|(_, poller)| poller.is_counted);
        let position = |poller: &Poller| poller.applied.unwrap_or(FeedPosition::START);
        let acknowledged = counted.map(|(worker, poller)| (*worker, position(poller)));
        WorkerReport {
            leaves: true,
            acknowledged: acknowledged.collect(),
            ..report
        }
    }

    /// Notes all replicas that are alive, as listed since this process's feed was at `place`.
    pub(crate) fn on_list(&self, names: &[ReplicaName], place: FeedPoint) {
        self.change_table(|table| table.on_list(names, place, Instant::now()));
    }

    /// Notes the report of another replica.
    pub(crate) fn on_report(&self, name: ReplicaName, report: &WorkerReport) {
        self.change_table(|table| table.on_report(name, report, Instant::now()));
    }

    /// Waits until there is something to report, but not for longer than `period`, or a shorter time while a change is on its way.
    pub(crate) async fn await_reportable(&self, period: Duration) {
        let period = period.min(self.table().report_period(Instant::now()));
        // After a timeout or a notice alike there is a report.
        let _ = tokio::time::timeout(period, self.reportable.notified()).await;
    }

    /// Ends the leases that are over.
    fn prune(&self) {
        let mut table = self.table();
        table.prune(Instant::now());
        table.resolve(Acknowledged::ByRest);
    }

    fn change_table(&self, change: impl FnOnce(&mut PollerTable)) {
        let mut table = self.table();
        change(&mut table);
        if table.is_report_due(Instant::now()) {
            self.reportable.notify_one();
        }
        table.resolve(Acknowledged::ByAll);
    }

    fn table(&self) -> MutexGuard<'_, PollerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PollerTable {
    fn on_poll(&mut self, worker: Option<WorkerId>, after: Option<FeedPoint>, now: Instant) {
        let Some(worker) = worker.filter(|worker| self.has_room(worker, now)) else {
            self.unnamed_until = Some(now + LEASE);
            return;
        };
        let (generation, end) = self.place;
        let poller = self.pollers.entry(worker).or_insert(Poller::new(now));
        poller.polled_at = now;
        poller.lags = poller.lags_behind(after, generation);
        let applied = after.filter(|after| after.0 == generation && generation != 0);
        let applied = applied.map(|(_, position)| position);
        if let Some(position) = applied.filter(|position| *position <= end) {
            self.note_applied(&worker, position, true);
        }
        self.renew(&worker, now);
    }

    fn on_answer(&mut self, worker: Option<WorkerId>, next: FeedPoint, now: Instant) {
        let Some(worker) = worker else {
            return;
        };
        if let Some(poller) = self.pollers.get_mut(&worker) {
            poller.given = Some(next);
        }
        self.renew(&worker, now);
    }

    fn on_reset(&mut self, place: FeedPoint, now: Instant) {
        (self.place, self.origin) = (place, place.1);
        for poller in self.pollers.values_mut() {
            poller.applied = None;
        }
        let count: usize = self.counted.values().sum();
        self.counted.clear();
        if count > 0 {
            self.counted.insert(None, count);
        }
        let waiters: Vec<_> = std::mem::take(&mut self.waiters)
            .into_values()
            .flatten()
            .collect();
        if !waiters.is_empty() {
            self.waiters.insert(self.origin, waiters);
        }
        self.change = Some((self.origin, now));
    }

    fn on_list(&mut self, names: &[ReplicaName], place: FeedPoint, now: Instant) {
        let Some(replicas) = &mut self.replicas else {
            return;
        };
        for replica in replicas.others.values_mut() {
            replica.is_listed = false;
        }
        for name in names {
            replicas.other(*name).is_listed = true;
        }
        let is_alive = |replica: &Replica| replica.is_listed || replica.is_heard(now);
        replicas.others.retain(|_, replica| is_alive(replica));
        replicas.listed = Some(place);
    }

    fn on_report(&mut self, name: ReplicaName, report: &WorkerReport, now: Instant) {
        let Some(replicas) = &mut self.replicas else {
            return;
        };
        if report.leaves {
            replicas.others.remove(&name);
            return self.take_over(report, now);
        }
        let replica = replicas.other(name);
        replica.generation = report.generation;
        replica.through = report.through;
        replica.has_unnamed = report.has_unnamed;
        replica.heard_at = Some(now);
        if report.generation == self.place.0 {
            for (worker, position) in &report.acknowledged {
                self.note_applied(worker, *position, false);
            }
        }
    }

    /// Counts the workers of a replica that has ended, which have yet to poll another one.
    fn take_over(&mut self, report: &WorkerReport, now: Instant) {
        let is_same = report.generation == self.place.0;
        for (worker, position) in &report.acknowledged {
            if !self.has_room(worker, now) {
                self.unnamed_until = Some(now + LEASE);
                continue;
            }
            self.pollers.entry(*worker).or_insert(Poller::new(now));
            self.renew(worker, now);
            if is_same && *position != FeedPosition::START {
                self.note_applied(worker, *position, false);
            }
        }
    }

    /// True if a worker is known, or may become so.
    fn has_room(&mut self, worker: &WorkerId, now: Instant) -> bool {
        let has_room =
            |table: &Self| table.pollers.len() < table.max || table.pollers.contains_key(worker);
        if !has_room(self) {
            self.prune(now);
        }
        if !has_room(self) && !std::mem::replace(&mut self.has_warned, true) {
            let max = self.max;
            tracing::warn!(
                max,
                "more workers poll the feed than feed.max_pollers; further ones are not waited for by name (not logged again)"
            );
        }
        has_room(self)
    }

    /// Notes that a known worker has applied everything up to a position; `is_here` if it says so here.
    fn note_applied(&mut self, worker: &WorkerId, position: FeedPosition, is_here: bool) {
        let is_travelling = self.is_change_travelling(Instant::now());
        let Some(poller) = self.pollers.get_mut(worker) else {
            return;
        };
        if poller.applied >= Some(position) {
            return;
        }
        let before = poller.applied.replace(position);
        if poller.is_counted {
            move_count(&mut self.counted, Some(before), Some(Some(position)));
        }
        if let (true, true, Some(replicas)) = (is_here, is_travelling, &mut self.replicas)
            && !std::mem::replace(&mut poller.is_reportable, true)
        {
            replicas.reportable.push(*worker);
        }
    }

    /// Renews the lease of a known worker, unless it lags behind what it was given.
    fn renew(&mut self, worker: &WorkerId, now: Instant) {
        let Some(poller) = self.pollers.get_mut(worker) else {
            return;
        };
        // A new worker gets a lease with its first poll.
        if poller.lags {
            return;
        }
        poller.lease_until = now + LEASE;
        if !std::mem::replace(&mut poller.is_counted, true) {
            move_count(&mut self.counted, None, Some(poller.applied));
        }
    }

    /// Ends the leases that are over, and forgets workers that poll no longer, and waits that have ended.
    fn prune(&mut self, now: Instant) {
        if now < self.pruned_at + PRUNE_PERIOD {
            return;
        }
        self.pruned_at = now;
        let counted = &mut self.counted;
        self.pollers.retain(|_, poller| {
            if poller.is_counted && poller.lease_until <= now {
                poller.is_counted = false;
                move_count(counted, Some(poller.applied), None);
            }
            poller.is_counted || now < poller.polled_at + LEASE
        });
        self.waiters.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.is_closed());
            !waiters.is_empty()
        });
    }

    fn wait(&mut self, (generation, position): FeedPoint) -> oneshot::Receiver<Acknowledged> {
        let position = if generation == self.place.0 {
            position
        } else {
            self.origin
        };
        let (waiter, receiver) = oneshot::channel();
        self.waiters.entry(position).or_default().push(waiter);
        self.resolve(Acknowledged::ByAll);
        receiver
    }

    /// Ends the waits for positions that all have applied.
    fn resolve(&mut self, outcome: Acknowledged) {
        if self.waiters.is_empty() {
            return;
        }
        let visible = self.visible();
        while let Some(waiters) = self.waiters.first_entry()
            && Some(*waiters.key()) <= visible
        {
            for waiter in waiters.remove() {
                // Without a receiver the request has ended meanwhile.
                let _ = waiter.send(outcome);
            }
        }
    }

    fn report(&mut self, now: Instant) -> WorkerReport {
        let own = (self.place.0, self.own());
        let workers = self.replicas.as_mut().map(|replicas| {
            replicas.reported = own;
            std::mem::take(&mut replicas.reportable)
        });
        let mut acknowledged = Vec::new();
        for worker in workers.unwrap_or_default() {
            if let Some(poller) = self.pollers.get_mut(&worker) {
                poller.is_reportable = false;
                acknowledged.extend(poller.applied.map(|position| (worker, position)));
            }
        }
        WorkerReport {
            generation: own.0,
            through: own.1,
            has_unnamed: self.has_unnamed(now),
            leaves: false,
            acknowledged,
        }
    }

    /// Position up to which this process and all its workers have applied the feed.
    fn own(&self) -> Option<FeedPosition> {
        let end = Some(self.place.1);
        let slowest = self.counted.first_key_value();
        slowest.map_or(end, |(position, _)| end.min(*position))
    }

    /// Position up to which all replicas and their workers have applied the feed.
    fn visible(&self) -> Option<FeedPosition> {
        let own = self.own();
        let Some(replicas) = &self.replicas else {
            return own;
        };
        let generation = self.place.0;
        let in_generation = |of: u64, through| (of == generation).then_some(through)?;
        let listed = replicas.listed;
        let listed = listed.and_then(|(of, position)| in_generation(of, Some(position)));
        let others = replicas.others.values();
        let others = others.map(|other| in_generation(other.generation, other.through));
        others.chain([own, listed]).min().flatten()
    }

    /// True if a change came lately that not all have applied yet.
    fn is_change_travelling(&self, now: Instant) -> bool {
        let change = self.change.filter(|(_, at)| now < *at + LEASE);
        change.is_some_and(|(position, _)| self.visible() < Some(position))
    }

    /// Longest time until the next report.
    fn report_period(&self, now: Instant) -> Duration {
        let is_waiting = self.is_change_travelling(now) || self.is_report_due(now);
        if is_waiting { PRUNE_PERIOD } else { LEASE }
    }

    /// True if other replicas wait for what this one knows by now: they have not heard that all here have applied the newest change.
    fn is_report_due(&self, now: Instant) -> bool {
        let change = self.change.filter(|(_, at)| now < *at + LEASE);
        let (Some(replicas), Some((position, _))) = (&self.replicas, change) else {
            return false;
        };
        let own = (self.place.0, self.own());
        let (generation, through) = replicas.reported;
        let is_through = generation == own.0 && through >= Some(position);
        !replicas.reportable.is_empty() || (!is_through && own != replicas.reported)
    }

    fn has_unnamed(&self, now: Instant) -> bool {
        self.unnamed_until.is_some_and(|until| now < until)
    }
}

impl Poller {
    /// One that does not count yet.
    fn new(now: Instant) -> Self {
        Self {
            applied: None,
            given: None,
            lags: false,
            is_counted: false,
            lease_until: now,
            polled_at: now,
            is_reportable: false,
        }
    }

    /// True if a poll shows that the last answer was not applied: the worker is given the same again.
    fn lags_behind(&self, after: Option<FeedPoint>, current: u64) -> bool {
        match (self.given, after) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(given), Some(after)) if after.0 == given.0 => after.1 < given.1,
            (Some(_), Some(after)) => after.0 != current,
        }
    }
}

impl Replicas {
    fn other(&mut self, name: ReplicaName) -> &mut Replica {
        self.others.entry(name).or_insert(Replica {
            generation: 0,
            through: None,
            has_unnamed: false,
            is_listed: false,
            heard_at: None,
        })
    }
}

/// Counts a worker at another position; `None` stands for not being counted.
fn move_count(
    counted: &mut BTreeMap<Option<FeedPosition>, usize>,
    from: Option<Option<FeedPosition>>,
    to: Option<Option<FeedPosition>>,
) {
    if let Some(from) = from
        && let Some(count) = counted.get_mut(&from)
    {
        *count -= 1;
        if *count == 0 {
            counted.remove(&from);
        }
    }
    if let Some(to) = to {
        *counted.entry(to).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinHandle;

    const GENERATION: u64 = 5;
    const ONE: WorkerId = [1; 16];
    const TWO: WorkerId = [2; 16];
    const OTHER: ReplicaName = [9; 16];

    fn at(millis: u64) -> FeedPoint {
        (GENERATION, FeedPosition::new(millis, 0))
    }

    /// A feed that ends with the change at 10-0.
    fn pollers() -> Arc<Pollers> {
        let pollers = Pollers::new(2);
        pollers.on_reset(at(1));
        pollers.on_push(at(10).1, true);
        Arc::new(pollers)
    }

    fn replicated() -> Arc<Pollers> {
        let pollers = pollers();
        pollers.expect_replicas();
        pollers
    }

    fn report(through: u64, acknowledged: &[(WorkerId, u64)]) -> WorkerReport {
        let acknowledged = acknowledged.iter();
        WorkerReport {
            generation: GENERATION,
            through: Some(at(through).1),
            has_unnamed: false,
            leaves: false,
            acknowledged: acknowledged
                .map(|(worker, position)| (*worker, at(*position).1))
                .collect(),
        }
    }

    impl Pollers {
        /// A worker gets the answer of a poll, and polls again behind it.
        fn acknowledge(&self, worker: WorkerId, place: FeedPoint) {
            self.on_answer(Some(worker), place);
            self.on_poll(Some(worker), Some(place));
        }
    }

    /// A wait for the change at 10-0, begun.
    async fn waiting(pollers: &Arc<Pollers>) -> JoinHandle<Acknowledged> {
        let waiting = pollers.clone();
        let waiting = tokio::spawn(async move { waiting.acknowledged(at(10)).await });
        tokio::task::yield_now().await;
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn wait_when_the_last_worker_has_applied_it_ends() {
        let pollers = pollers();
        assert_eq!(pollers.acknowledged(at(10)).await, Acknowledged::ByAll);
        for worker in [ONE, TWO] {
            pollers.on_poll(Some(worker), Some(at(9)));
        }
        let start = Instant::now();
        let wait = waiting(&pollers).await;
        pollers.acknowledge(ONE, at(10));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished());
        pollers.acknowledge(TWO, at(11));
        assert!(!wait.is_finished(), "beyond the end of the feed");
        pollers.on_push(at(11).1, false);
        pollers.acknowledge(TWO, at(11));
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_it_ends_is_waited_for_until_its_lease_is_over() {
        let pollers = pollers();
        pollers.on_poll(Some(ONE), Some(at(9)));
        sleep(Duration::from_secs(2)).await;
        let wait = waiting(&pollers).await;
        assert_eq!(wait.await.unwrap(), Acknowledged::ByRest);
        let start = Instant::now();
        assert_eq!(pollers.acknowledged(at(10)).await, Acknowledged::ByAll);
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleep(LEASE).await;
        pollers.prune();
        assert!(pollers.table().pollers.is_empty(), "it is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_idle_keeps_its_lease() {
        let pollers = pollers();
        pollers.on_poll(Some(ONE), Some(at(9)));
        for _ in 0..10 {
            sleep(Duration::from_secs(2)).await;
            pollers.acknowledge(ONE, at(9));
        }
        let wait = waiting(&pollers).await;
        sleep(Duration::from_secs(4)).await;
        assert!(!wait.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_it_applies_nothing_that_it_is_given_loses_its_lease() {
        let pollers = pollers();
        let lying = pollers.clone();
        let lying = tokio::spawn(async move {
            loop {
                lying.on_poll(Some(ONE), Some(at(9)));
                lying.on_answer(Some(ONE), at(10));
                sleep(Duration::from_millis(100)).await;
            }
        });
        let start = Instant::now();
        let wait = waiting(&pollers).await;
        assert_eq!(wait.await.unwrap(), Acknowledged::ByRest);
        assert!(start.elapsed() < LEASE + Duration::from_millis(200));
        sleep(LEASE).await;
        let start = Instant::now();
        assert_eq!(pollers.acknowledged(at(10)).await, Acknowledged::ByAll);
        assert_eq!(start.elapsed(), Duration::ZERO, "it delays no other change");
        lying.abort();
        pollers.acknowledge(ONE, at(10));
        pollers.on_push(at(11).1, true);
        let wait = pollers.acknowledged(at(11));
        let wait = tokio::time::timeout(Duration::from_secs(1), wait).await;
        assert!(wait.is_err(), "it counts again");
    }

    #[tokio::test(start_paused = true)]
    async fn position_when_of_another_generation_acknowledges_nothing() {
        let pollers = pollers();
        let other = GENERATION + 1;
        pollers.on_poll(Some(ONE), Some((other, at(10).1)));
        let wait = waiting(&pollers).await;
        pollers.on_reset((other, at(3).1));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished(), "it acknowledges again");
        pollers.on_poll(Some(TWO), Some(at(10)));
        pollers.acknowledge(ONE, (other, at(3).1));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished(), "the other has not read the generation");
        pollers.acknowledge(TWO, (other, at(3).1));
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll);
        let before = pollers.acknowledged(at(10));
        assert_eq!(
            before.await,
            Acknowledged::ByAll,
            "of a wait that began before"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_above_the_bound_cannot_acknowledge() {
        let pollers = pollers();
        for worker in [ONE, TWO] {
            pollers.on_poll(Some(worker), Some(at(10)));
        }
        assert!(!pollers.has_unnamed());
        let third = Some([3; 16]);
        pollers.on_poll(third, Some(at(9)));
        pollers.on_answer(third, at(10));
        assert!(pollers.has_unnamed());
        assert_eq!(pollers.acknowledged(at(10)).await, Acknowledged::ByAll);
        sleep(LEASE).await;
        assert!(!pollers.has_unnamed());
        pollers.on_poll(third, Some(at(10)));
        assert!(!pollers.has_unnamed(), "others have left room");
    }

    #[tokio::test(start_paused = true)]
    async fn replica_when_listed_is_waited_for() {
        let pollers = replicated();
        let wait = waiting(&pollers).await;
        pollers.on_list(&[OTHER], at(9));
        pollers.on_report(OTHER, &report(10, &[]));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished(), "there may be others by now");
        pollers.on_list(&[OTHER], at(10));
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll);
        pollers.on_push(at(11).1, true);
        pollers.on_list(&[OTHER], at(11));
        let waiting = pollers.clone();
        let wait = tokio::spawn(async move { waiting.acknowledged(at(11)).await });
        tokio::task::yield_now().await;
        let elsewhere = WorkerReport {
            generation: GENERATION + 1,
            ..report(99, &[])
        };
        pollers.on_report(OTHER, &elsewhere);
        pollers.on_list(&[], at(11));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished(), "it was heard of lately");
        sleep(LEASE).await;
        pollers.on_list(&[], at(11));
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll, "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_it_moves_to_another_replica_acknowledges_there() {
        let (here, there) = (replicated(), replicated());
        here.on_poll(Some(ONE), Some(at(9)));
        let wait = waiting(&here).await;
        let share = |from: &Pollers, to: &Pollers, names: [ReplicaName; 2]| {
            let (report, place) = from.report();
            to.on_report(names[0], &report);
            from.on_list(&[names[1]], place);
        };
        there.acknowledge(ONE, at(10));
        let here_name = [8; 16];
        share(&here, &there, [here_name, OTHER]);
        share(&there, &here, [OTHER, here_name]);
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll);
        assert!(
            there.report().0.acknowledged.is_empty(),
            "it is reported once"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn worker_when_its_replica_ends_is_waited_for_elsewhere() {
        let (here, there) = (replicated(), replicated());
        there.on_poll(Some(ONE), Some(at(9)));
        there.on_poll(Some(TWO), None);
        here.on_list(&[OTHER], at(10));
        here.on_report(OTHER, &there.report().0);
        let wait = waiting(&here).await;
        here.on_report(OTHER, &there.last_report());
        here.on_list(&[], at(10));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished());
        here.on_poll(Some(ONE), Some(at(10)));
        tokio::task::yield_now().await;
        assert!(!wait.is_finished());
        here.on_poll(Some(TWO), Some(at(10)));
        assert_eq!(wait.await.unwrap(), Acknowledged::ByAll);
    }

    #[tokio::test(start_paused = true)]
    async fn report_when_a_change_is_applied_is_due_at_once() {
        let pollers = replicated();
        let is_due = || {
            let period = Duration::from_millis(1);
            let start = Instant::now();
            let pollers = pollers.clone();
            async move {
                pollers.await_reportable(period).await;
                start.elapsed().is_zero()
            }
        };
        let reported = |pollers: &Pollers| {
            let (report, place) = pollers.report();
            pollers.on_list(&[OTHER], place);
            pollers.on_report(OTHER, &self::report(99, &[]));
            report
        };
        reported(&pollers);
        assert!(!is_due().await);
        pollers.on_poll(Some(ONE), Some(at(10)));
        pollers.on_push(at(11).1, true);
        assert!(!is_due().await, "the worker has not applied it");
        pollers.acknowledge(ONE, at(11));
        assert!(is_due().await);
        let report = reported(&pollers);
        assert_eq!(report.acknowledged, [(ONE, at(11).1)]);
        assert_eq!(report.through, Some(at(11).1));
        pollers.on_push(at(12).1, false);
        pollers.acknowledge(ONE, at(12));
        assert!(!is_due().await, "a beat is no change");
    }
}
