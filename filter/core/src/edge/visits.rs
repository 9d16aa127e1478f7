//! Visits of limited links: a redirect takes one from the worker's block, or waits until the control plane has leased
//! another block.

use super::action::{Action, Resumed, Uses};
use super::{AnswerContent, Edge, Step};
use crate::cache::Found;
use crate::control_plane::Callout;
use crate::control_plane::callout::{CalloutError, LookupCallout, Response};
use crate::control_plane::visits::{self, is_stale};
use crate::flights::{Completed, FlightId, Join, Waiter, Wanted};
use crate::host::Clients;
use crate::metrics::{Metric, Tier, VisitsOutcome};
use crate::time::Moment;
use crate::visits::{AskedRecord, UseOutcome};
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::{Extension, has_extension};
use edgelink_wire::rules::is_bot;
use edgelink_wire::{Outcome, Record};
use std::sync::Arc;

/// Outcome of taking a visit of a limited link.
enum VisitOutcome {
    Taken,
    UsedUp,
    Waits(Option<LookupCallout>),
    Unavailable,
}

impl Edge {
    /// Takes a visit for the current request, if its link is limited. Kept out of line so that links without an extension do not
    /// pay for it.
    #[cold]
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        client: &impl Clients,
        found: Found,
        refresh: Option<LookupCallout>,
        visitor: Waiter,
    ) -> Step<AnswerContent> {
        let record = self.caches.record(found);
        let now = self.wall.seconds(self.now);
        let is_visit = |limited: &LimitedLink| {
            (!visitor.is_below || limited.forward_path)
                && (!visitor.is_other || limited.keeps_method)
                && !limited.is_locked(client, &self.key, now)
        };
        let Some(limited) = LimitedLink::of(record, now).filter(is_visit) else {
            return Step::Answer(AnswerContent::Found(found), refresh);
        };
        let rev = limited.rev;
        let admitted = if visitor.is_click && !limited.withholds(client, visitor) {
            let asked = AskedRecord {
                record: record.into(),
                rev,
            };
            let key = Arc::from(self.key.as_slice());
            self.take_visit(&key, asked, visitor)
        } else if self.is_used_up(rev) {
            VisitOutcome::UsedUp
        } else {
            VisitOutcome::Taken
        };
        let content = match admitted {
            VisitOutcome::Taken => AnswerContent::Found(found),
            VisitOutcome::UsedUp => AnswerContent::UsedUp(found),
            VisitOutcome::Unavailable => AnswerContent::Unavailable,
            VisitOutcome::Waits(callout) => {
                // A request can send one callout; the refresh goes out with the next tick, as no request waits for it.
                self.lost.extend(refresh.map(|refresh| refresh.flight));
                return Step::Wait(callout);
            }
        };
        Step::Answer(content, refresh)
    }

    fn is_used_up(&self, rev: u64) -> bool {
        let leases = &self.background.visits.leases;
        leases.is_used_up(&self.key, rev, self.now)
    }

    /// Takes a visit, or makes the visitor wait for one.
    fn take_visit(&mut self, key: &Arc<[u8]>, asked: AskedRecord, visitor: Waiter) -> VisitOutcome {
        let leases = &mut self.background.visits.leases;
        match leases.visit(key, asked.rev, self.now) {
            UseOutcome::Taken => return VisitOutcome::Taken,
            UseOutcome::UsedUp => return VisitOutcome::UsedUp,
            UseOutcome::Ask => {}
            UseOutcome::Full => return self.reject_visit(),
        }
        let joined = self.visits.join(key, Wanted::held(self.now), visitor);
        let pause = self.settings.retry_after_millis;
        let may_ask = leases.may_ask(key, self.now);
        let breaker = &mut self.background.visits.breaker;
        match joined {
            Join::Joined => VisitOutcome::Waits(None),
            Join::Started(id) if may_ask && breaker.permits(self.now.millis(), pause) => {
                let request = leases.ask(key, asked, self.now);
                VisitOutcome::Waits(Some(LookupCallout::visits(id, key, &request)))
            }
            Join::Started(id) => {
                self.visits.complete(id);
                self.reject_visit()
            }
            Join::Full => self.reject_visit(),
        }
    }

    fn reject_visit(&mut self) -> VisitOutcome {
        self.count_visits(VisitsOutcome::Rejected);
        VisitOutcome::Unavailable
    }

    /// Takes visits for waiters whose lookup is complete, if their link is limited.
    pub(super) fn admit_resumed(&mut self, resumed: Resumed) -> Vec<Action> {
        let record = resumed.record.as_deref();
        let Some(record) = record.filter(|record| has_extension(record)) else {
            return vec![Action::Resume(resumed)];
        };
        match LimitedLink::of(record, self.wall.seconds(self.now)) {
            // Each waiter is decided separately, once the host has its headers.
            Some(limited) if limited.unlock_key.is_some() || limited.spares_bots => {
                vec![Action::Resume(Resumed {
                    visits: Uses::Unknown,
                    ..resumed
                })]
            }
            Some(LimitedLink { rev, .. }) => {
                let asked = AskedRecord {
                    record: record.into(),
                    rev,
                };
                let Resumed {
                    waiters, key, tier, ..
                } = resumed;
                self.admit_waiters(waiters, &key, tier, &asked)
            }
            None => vec![Action::Resume(resumed)],
        }
    }

    /// Takes a visit for a waiter of a limited link that also has a password or spares bots, if the waiter has given the password
    /// and is no bot. The host has its request. `None` if it is to be answered without a visit.
    pub fn admit_unlocked(
        &mut self,
        client: &impl Clients,
        waiter: Waiter,
        resumed: &Resumed,
    ) -> Option<Vec<Action>> {
        let record = resumed.record.as_deref();
        let record = record.filter(|_| resumed.visits == Uses::Unknown)?;
        let now = self.wall.seconds(self.now);
        let limited = LimitedLink::of(record, now)?;
        if limited.is_locked(client, &resumed.key, now) || limited.withholds(client, waiter) {
            return None;
        }
        let asked = AskedRecord {
            record: record.into(),
            rev: limited.rev,
        };
        Some(self.admit_waiters(vec![waiter], &resumed.key, resumed.tier, &asked))
    }

    fn admit_waiters(
        &mut self,
        waiters: Vec<Waiter>,
        key: &Arc<[u8]>,
        tier: Tier,
        asked: &AskedRecord,
    ) -> Vec<Action> {
        let AskedRecord { record, rev } = asked;
        let is_rare = |waiter: &Waiter| waiter.is_below || waiter.is_other;
        let redirects = waiters.iter().any(is_rare).then(|| Redirects::of(record));
        let redirects = redirects.unwrap_or_default();
        let resumed = |visits: Uses, record: Option<&Arc<[u8]>>| Resumed {
            waiters: Vec::new(),
            key: Arc::clone(key),
            tier,
            record: record.map(|record| record.to_vec()),
            visits,
        };
        let mut unlimited = resumed(Uses::Unlimited, Some(record));
        let mut taken = resumed(Uses::Taken, Some(record));
        let mut used_up = resumed(Uses::UsedUp, Some(record));
        let mut unavailable = resumed(Uses::Unlimited, None);
        let mut actions = Vec::new();
        for waiter in waiters {
            let asked = AskedRecord {
                record: Arc::clone(record),
                rev: *rev,
            };
            if !redirects.take_visit_of(waiter) {
                unlimited.waiters.push(waiter);
                continue;
            }
            match self.take_visit(key, asked, waiter) {
                VisitOutcome::Taken => taken.waiters.push(waiter),
                VisitOutcome::UsedUp => used_up.waiters.push(waiter),
                VisitOutcome::Unavailable => unavailable.waiters.push(waiter),
                VisitOutcome::Waits(callout) => {
                    actions.extend(callout.map(Callout::Lookup).map(Action::Send));
                }
            }
        }
        let resumed = [unlimited, taken, used_up, unavailable];
        let resumed = resumed
            .into_iter()
            .filter(|resumed| !resumed.waiters.is_empty());
        actions.extend(resumed.map(Action::Resume));
        actions
    }

    /// A request for a block has ended: its waiters take visits from the block, and the rest wait for the next.
    pub(super) fn on_visits_end(
        &mut self,
        completed: Completed,
        response: Response<'_>,
    ) -> Vec<Action> {
        let answer = match visits::read(response) {
            Ok(answer) => answer,
            Err(failure) => return vec![self.fail_visits(completed, failure)],
        };
        let (asked, leases) = (&completed.asked, &mut self.background.visits.leases);
        let record = leases.on_answer(&asked.key, answer, asked.started, self.now);
        let Some(record) = record else {
            return vec![self.fail_visits(completed, CalloutError::Answer(200))];
        };
        self.background.visits.breaker.succeed();
        self.count_visits(match answer.visits {
            0 => VisitsOutcome::UsedUp,
            _ => VisitsOutcome::Leased,
        });
        let Completed { asked, waiters, .. } = completed;
        self.admit_waiters(waiters, &asked.key, Tier::ControlPlane, &record)
    }

    /// The waiters of a request that has failed get 503.
    pub(super) fn fail_visits(&mut self, completed: Completed, failure: CalloutError) -> Action {
        let key = &completed.asked.key;
        let rests_until = self.now.after(self.settings.retry_after_millis);
        let visits = &mut self.background.visits;
        if failure != CalloutError::Timeout {
            visits.breaker.succeed();
        } else if visits.leases.on_timeout(key, rests_until) {
            visits.breaker.fail(self.now.millis());
        }
        visits.leases.on_failure(key, is_stale(failure));
        self.count_visits(VisitsOutcome::Failed);
        Action::Resume(Resumed {
            waiters: completed.waiters,
            key: completed.asked.key,
            tier: Tier::ControlPlane,
            record: None,
            visits: Uses::Unlimited,
        })
    }

    /// Takes visits for all waiters to be resumed.
    pub(super) fn admit_actions(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let admit = |action| match action {
            Action::Resume(resumed) => self.admit_resumed(resumed),
            action => vec![action],
        };
        actions.into_iter().flat_map(admit).collect()
    }

    /// Gives up the requests for blocks that the proxy has forgotten.
    pub(super) fn give_up_visits(&mut self, now: Moment, limit: u64) -> Vec<Action> {
        let overdue = self.visits.overdue(now, limit).into_iter();
        let overdue: Vec<_> = overdue.filter_map(|id| self.visits.complete(id)).collect();
        let fail = |completed| self.fail_visits(completed, CalloutError::Timeout);
        overdue.into_iter().map(fail).collect()
    }

    /// Repeats a request for a block that was lost with its root context.
    pub(super) fn ask_visits_again(&mut self, id: FlightId) -> Option<Action> {
        let key = self.visits.get(id)?.key;
        let leases = &mut self.background.visits.leases;
        let asked = leases.asked(&key)?;
        let request = leases.ask(&key, asked, self.now);
        let callout = LookupCallout::visits(id, &key, &request);
        Some(Action::Send(Callout::Lookup(callout)))
    }

    /// A waiter has gone before its answer: the visit taken for it is returned to the block.
    pub fn on_unanswered(&mut self, resumed: &Resumed) {
        if resumed.visits == Uses::Taken {
            self.background.visits.leases.give_back(&resumed.key);
        }
    }

    fn count_visits(&mut self, outcome: VisitsOutcome) {
        self.counts.count(Metric::Visits(outcome));
    }
}

/// True for the encoded record of a link with a limit of visits.
#[cold]
#[inline(never)]
pub(super) fn is_limited(record: &[u8]) -> bool {
    let Ok(Record::Link(link)) = Record::decode_again(record) else {
        return false;
    };
    let extension = Extension::decode_again(link.extension);
    extension.max_visits.is_some()
}

/// A limited link that redirects.
struct LimitedLink {
    rev: u64,
    spares_bots: bool,
    unlock_key: Option<UnlockKey>,
    forward_path: bool,
    keeps_method: bool,
}

impl LimitedLink {
    /// Reads an encoded record. `None` if it has no limit, or does not redirect at `now`.
    fn of(record: &[u8], now: u64) -> Option<Self> {
        let record = Record::decode_again(record).ok()?;
        let Record::Link(link) = &record else {
            return None;
        };
        let extension = Extension::decode_again(link.extension);
        extension.max_visits?;
        (Outcome::of(&record, now) == Outcome::Redirect).then_some(Self {
            rev: link.rev,
            spares_bots: extension.spares_bots,
            unlock_key: extension.unlock_key,
            forward_path: extension.forward_path,
            keeps_method: link.redirect.keeps_method(),
        })
    }

    /// True for a request that takes no visit and is not redirected: a prefetch, or a bot's request if the link spares bots.
    fn withholds(&self, client: &impl Clients, visitor: Waiter) -> bool {
        visitor.is_prefetch || self.spares_bots && is_bot(&client.user_agent())
    }

    /// True if it has a password that the current request does not give at `now`.
    fn is_locked(&self, client: &impl Clients, key: &[u8], now: u64) -> bool {
        let unlock_key = self.unlock_key;
        unlock_key.is_some_and(|unlock_key| !unlock_key.is_opened_by(&client.cookies(), key, now))
    }
}

/// Requests that a link redirects besides GET for its code.
#[derive(Clone, Copy, Default)]
struct Redirects {
    below: bool,
    other_methods: bool,
}

impl Redirects {
    /// Reads an encoded record.
    fn of(record: &[u8]) -> Self {
        let Ok(Record::Link(link)) = Record::decode_again(record) else {
            return Self::default();
        };
        Self {
            below: Extension::decode_again(link.extension).forward_path,
            other_methods: link.redirect.keeps_method(),
        }
    }

    /// True if the waiter takes a visit. A form takes none before it is released.
    fn take_visit_of(self, waiter: Waiter) -> bool {
        waiter.is_click
            && !waiter.is_prefetch
            && !waiter.is_form
            && (!waiter.is_below || self.below)
            && (!waiter.is_other || self.other_methods)
    }
}
