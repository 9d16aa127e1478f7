//! Makes answers, and counts them.

use super::action::Visits;
use super::{Content, Edge, Resumed, Step};
use crate::answer::Answer;
use crate::api_domains::ApiDomains;
use crate::clicks::{Answered, ClickEvents, Counting};
use crate::control_plane::callout::Callout;
use crate::flights::Waiter;
use crate::host::Clients;
use crate::metrics::{Metric, PassedOutcome, Tier};
use crate::request::{self, Head};
use crate::settings::{Described, Settings, UnknownCodes};
use crate::visit::Visit;
use edgelink_wire::clicks::events::{Kind, OrphanKind};
use edgelink_wire::{Outcome, Record, RedirectStatus};

impl Edge {
    /// The answer for a resumed waiter. `head` is the head of its request: complete if [`Resumed::needs_headers`] is true;
    /// otherwise only the path, and empty if the path is only a code. `None` if the request passes because it has no link.
    pub fn answer<'a>(
        &'a mut self,
        client: &impl Clients,
        waiter: Waiter,
        resumed: &'a Resumed,
        head: &Head<'_>,
    ) -> Option<Answer<'a>> {
        self.enter(waiter.stream);
        self.forms.leave(waiter.stream);
        let path = self.plain_path(head.path).unwrap_or_default();
        let head = &Head {
            path: &path,
            ..*head
        };
        let passes = self.passes_unknown(waiter);
        let now = self.wall.seconds(self.now);
        let (settings, counts) = (&*self.here, &mut self.counts);
        let domains = &self.api_domains;
        let (record, tier) = (resumed.record.as_deref(), resumed.tier);
        // Clicks may have been switched off meanwhile.
        let is_counted = waiter.is_counted && self.settings.clicks.is_some();
        let events = Some(&self.events).filter(|_| is_counted);
        let visit = || Visit {
            is_used_up: resumed.visits == Visits::UsedUp,
            is_other: waiter.is_other,
            events,
            ..visit(&resumed.key, now, head, settings, client)
        };
        let of = (now, waiter.has_more);
        let answer = compose(record, tier, of, visit, settings);
        let outcome = unless_passed(answer.outcome(), passes);
        tell(client, settings, &resumed.key, (tier, outcome));
        let Some(outcome) = outcome else {
            counts.count(passed(tier));
            return None;
        };
        counts.count(Metric::Requests(tier, outcome));
        let answer = or_elsewhere(answer, &resumed.key, domains);
        if is_counted {
            let request = (client, head, &*resumed.key, now);
            let counting = counting(&mut self.events, &answer, request);
            self.caches.count(&resumed.key, counting);
        }
        Some(answer)
    }

    /// True if a request for a code without a link passes: by configuration, and always if its method is neither GET nor HEAD.
    fn passes_unknown(&self, visitor: Waiter) -> bool {
        visitor.is_other || self.here.unknown_codes == UnknownCodes::Pass
    }

    /// True if a request may pass after it has waited.
    #[must_use]
    pub fn may_pass(&self, head: &Head<'_>) -> bool {
        let is_other = !matches!(head.method, b"GET" | b"HEAD");
        is_other || self.here.unknown_codes == UnknownCodes::Pass
    }

    /// The answer for the current request, which does not wait, with a callout to be sent. If the request passes, the callout is
    /// sent with the next tick.
    #[inline(always)]
    pub(super) fn answer_at_once(
        &mut self,
        client: &impl Clients,
        (content, callout): (Content, Option<Callout>),
        head: &Head<'_>,
        visitor: Waiter,
    ) -> Step<Answer<'_>> {
        let passes = self.passes_unknown(visitor);
        let (settings, counts) = (&*self.here, &mut self.counts);
        let domains = &self.api_domains;
        let (found, is_used_up) = match content {
            Content::Found(found) => (found, false),
            Content::UsedUp(found) => (found, true),
            Content::NotFound(tier) => {
                let passes = passes && tier != Tier::UnknownHost;
                let outcome = unless_passed(Outcome::NotFound, passes);
                if tier != Tier::UnknownHost {
                    tell(client, settings, &self.key, (tier, outcome));
                }
                let Some(outcome) = outcome else {
                    counts.count(passed(tier));
                    return Step::Pass;
                };
                counts.count(Metric::Requests(tier, outcome));
                if visitor.is_counted && tier != Tier::UnknownHost && self.events.has_orphans() {
                    let now = self.wall.seconds(self.now);
                    note_orphan(&mut self.events, (client, head, &self.key, now));
                }
                let answer = Answer::not_found(tier, settings);
                let answer = match tier {
                    Tier::UnknownHost => answer,
                    _ => or_elsewhere(answer, &self.key, domains),
                };
                return Step::Answer(answer, callout);
            }
            Content::Unavailable => {
                let tier = Tier::ControlPlane;
                let outcome = Some(Outcome::Unavailable);
                tell(client, settings, &self.key, (tier, outcome));
                counts.count(Metric::Requests(tier, Outcome::Unavailable));
                return Step::Answer(Answer::unavailable(tier, settings), callout);
            }
        };
        let (record, clicker) = self.caches.serve(found, &self.key);
        let now = self.wall.seconds(self.now);
        let events = &self.events;
        let visit = || Visit {
            is_used_up,
            is_other: visitor.is_other,
            events: Some(events).filter(|_| visitor.of(head).is_counted),
            ..visit(&self.key, now, head, settings, client)
        };
        let of = (now, visitor.has_more);
        let answer = compose(Some(record), found.tier, of, visit, settings);
        let outcome = unless_passed(answer.outcome(), passes);
        tell(client, settings, &self.key, (found.tier, outcome));
        let Some(outcome) = outcome else {
            counts.count(passed(found.tier));
            self.lost.extend(callout.map(|callout| callout.flight));
            return Step::Pass;
        };
        counts.count(Metric::Requests(found.tier, outcome));
        let answer = or_elsewhere(answer, &self.key, domains);
        if visitor.is_counted {
            let request = (client, head, &*self.key, now);
            clicker.count(counting(&mut self.events, &answer, request));
        }
        Step::Answer(answer, callout)
    }

    /// True if the answer for a waiter depends on the headers of its request; otherwise its path will do, if it has more than a
    /// code.
    #[must_use]
    pub fn needs_headers(&self, waiter: Waiter, resumed: &Resumed) -> bool {
        resumed.needs_headers() || (waiter.is_counted && self.events.describes())
    }
}

/// The outcome; `None` if the request passes.
#[inline(always)]
fn unless_passed(outcome: Outcome, passes_unknown: bool) -> Option<Outcome> {
    let passes = passes_unknown && outcome == Outcome::NotFound;
    (!passes).then_some(outcome)
}

/// Counter of requests that pass.
fn passed(tier: Tier) -> Metric {
    Metric::Passed(tier, PassedOutcome::Passed)
}

/// Sets the configured log attributes of a request. The outcome is `None` if it passes.
#[inline(always)]
fn tell(
    client: &impl Clients,
    settings: &Settings,
    key: &[u8],
    (tier, outcome): (Tier, Option<Outcome>),
) {
    for what in &settings.describe {
        let value = match what {
            Described::Outcome => outcome.map_or("passed", Outcome::name).as_bytes(),
            Described::Tier => tier.name().as_bytes(),
            Described::Key => key,
        };
        client.describe(*what, value);
    }
}

/// The client, the head of its request, the key and unix seconds.
type Request<'r, C> = (&'r C, &'r Head<'r>, &'r [u8], u64);

/// Way to count an answer. A click with attributes becomes an event; so does an orphan visit.
#[inline(always)]
fn counting<C: Clients>(
    events: &mut ClickEvents,
    answer: &Answer<'_>,
    request: Request<'_, C>,
) -> Counting {
    match answer.outcome() {
        Outcome::Redirect if request.1.is_prefetch() => Counting::No,
        Outcome::Redirect if events.takes_click() => describe(events, answer.status, request),
        Outcome::Redirect => Counting::Plain,
        Outcome::NotFound if events.has_orphans() => {
            note_orphan(events, request);
            Counting::No
        }
        _ => Counting::No,
    }
}

/// Takes a click as an event, if there is room.
#[inline(never)]
fn describe<C: Clients>(
    events: &mut ClickEvents,
    status: u16,
    (client, head, key, now): Request<'_, C>,
) -> Counting {
    let status = RedirectStatus::from_code(status);
    let click = Answered {
        key,
        headers: head.headers,
        path: head.path,
        now,
        kind: Kind::Redirect(status.unwrap_or(RedirectStatus::Found)),
    };
    events.click(client, &click)
}

/// Notes an orphan visit: a request for a code without a link.
#[cold]
#[inline(never)]
fn note_orphan<C: Clients>(events: &mut ClickEvents, (client, head, key, now): Request<'_, C>) {
    if head.is_prefetch() {
        return;
    }
    match head.path {
        // From a request that has waited, and whose path is only the code.
        [] => events.name_orphan(key, b""),
        path => {
            let domain = key.split(|byte| *byte == b'/').next();
            events.name_orphan(domain.unwrap_or_default(), path);
        }
    }
    let kind = match request::behind_code(head.path).0 {
        [] => OrphanKind::InvalidShortUrl,
        _ => OrphanKind::Regular404,
    };
    events.orphan(client, kind, (head.headers, head.path), now);
}

/// The request for `key` as rules and conditions of links see it.
fn visit<'v, C>(
    key: &'v [u8],
    now: u64,
    head: &Head<'v>,
    settings: &'v Settings,
    client: &'v C,
) -> Visit<'v, C> {
    let (below, query) = request::behind_code(head.path);
    Visit {
        key,
        head: *head,
        below,
        query,
        now,
        geo: &settings.geo,
        is_used_up: false,
        is_other: false,
        client,
        events: None,
    }
}

/// Replaces the answer by a redirect to the fallback target of its domain for that outcome, if there is one.
#[inline(always)]
fn or_elsewhere<'a>(answer: Answer<'a>, key: &[u8], domains: &'a ApiDomains) -> Answer<'a> {
    match answer.outcome() {
        Outcome::Redirect | Outcome::Expired | Outcome::Unavailable | Outcome::Withheld => answer,
        outcome => {
            let targets = domains.targets_of_key(key);
            answer.instead(targets.and_then(|targets| targets.instead_of(outcome)))
        }
    }
}

/// Makes an answer. A record that does not decode counts as none.
#[inline(always)]
fn compose<'a, 'v, C: Clients + 'v>(
    record: Option<&'a [u8]>,
    tier: Tier,
    of: (u64, bool),
    visit: impl FnOnce() -> Visit<'v, C>,
    settings: &'a Settings,
) -> Answer<'a> {
    match record.map(Record::decode_again) {
        Some(Ok(record)) => Answer::of(record, of, visit, tier, settings),
        Some(Err(_)) | None => Answer::unavailable(tier, settings),
    }
}
