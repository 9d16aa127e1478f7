//! Makes answers, and counts them.

use super::action::Uses;
use super::{AnswerContent, Edge, Resumed, Step};
use crate::answer::Answer;
use crate::api_domains::ApiDomains;
use crate::clicks::{Answered, ClickEvents, Clicker, Counting, EventRules, Noted};
use crate::control_plane::callout::LookupCallout;
use crate::flights::Waiter;
use crate::host::Clients;
use crate::metrics::{Counts, Metric, PassedOutcome, Tier};
use crate::request::{self, Head, Headers};
use crate::settings::{Described, Settings, UnknownCodes};
use crate::visit::LinkVisit;
use edgelink_wire::clicks::events::{Kind, OrphanKind};
use edgelink_wire::{Outcome, Record, RedirectStatus};
use std::cell::Cell;
use std::net::IpAddr;

impl Edge {
    /// The answer for a resumed waiter. `head` is the head of its request: complete if [`Resumed::needs_headers`] is true;
    /// otherwise only the path, and empty if the path is only a code. `None` if the request passes because it has no link.
    pub fn answer<'a>(
        &'a mut self,
        client: &impl Clients,
        waiter: Waiter,
        resumed: &'a Resumed,
        head: &Head<'_, impl Headers>,
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
        let settings = &*self.here;
        let (record, tier) = (resumed.record.as_deref(), resumed.tier);
        // Clicks may have been switched off meanwhile.
        let is_counted = waiter.is_counted && self.settings.clicks.is_some();
        let noted = Cell::new(None);
        let events = is_counted.then(|| self.event_rules.notes(&self.events, &noted));
        let visit = || LinkVisit {
            is_used_up: resumed.visits == Uses::UsedUp,
            is_other: waiter.is_other,
            events,
            ..visit(&resumed.key, now, head, settings, client)
        };
        let of = (now, waiter.has_more);
        let answer = compose(record, tier, of, visit, settings);
        let seen = (client, settings, &mut self.counts);
        let link = (&*resumed.key, &self.api_domains);
        let answer = note(seen, link, (answer, tier), passes)?;
        if is_counted {
            let request = (client, head, &*resumed.key, now);
            let events = (&self.event_rules, &mut self.events);
            let counting = counting(events, &answer, request, noted.get());
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
    pub fn may_pass(&self, head: &Head<'_, impl Headers>) -> bool {
        let is_other = !matches!(head.method, b"GET" | b"HEAD");
        is_other || self.here.unknown_codes == UnknownCodes::Pass
    }

    /// The answer for the current request, which does not wait, with a callout to be sent. If the request passes, the callout is
    /// sent with the next tick.
    #[inline(always)]
    pub(super) fn answer_at_once(
        &mut self,
        client: &impl Clients,
        (content, callout): (AnswerContent, Option<LookupCallout>),
        head: &Head<'_, impl Headers>,
        visitor: Waiter,
    ) -> Step<Answer<'_>> {
        let address = self.address;
        let client = &KnownClient { client, address };
        let passes = self.passes_unknown(visitor);
        let settings = &*self.here;
        let link = (&*self.key, &self.api_domains);
        let (found, is_used_up) = match content {
            AnswerContent::Found(found) => (found, false),
            AnswerContent::UsedUp(found) => (found, true),
            AnswerContent::NotFound(Tier::UnknownHost) => {
                let tier = Tier::UnknownHost;
                self.counts.count(Metric::Requests(tier, Outcome::NotFound));
                return Step::Answer(Answer::not_found(tier, settings), callout);
            }
            AnswerContent::NotFound(tier) => {
                let request = (client, head, &*self.key, self.wall.seconds(self.now));
                let rules = visitor.is_counted.then_some(&self.event_rules);
                let common = (settings, &self.api_domains, rules);
                let notes = (&mut self.counts, &mut self.events);
                let answer = refuse_code(tier, request, passes, common, notes);
                return answer.map_or(Step::Pass, |answer| Step::Answer(answer, callout));
            }
            AnswerContent::Unavailable => {
                let seen = (client, settings, &mut self.counts);
                let tier = Tier::ControlPlane;
                let answer = (Answer::unavailable(tier, settings), tier);
                let answer = note(seen, link, answer, false);
                return answer.map_or(Step::Pass, |answer| Step::Answer(answer, callout));
            }
        };
        let (record, clicker) = self.caches.serve(found, &self.key);
        let cached = CachedRecord {
            record,
            clicker,
            tier: found.tier,
            is_used_up,
        };
        let request = (client, head, &*self.key, self.wall.seconds(self.now));
        let common = (settings, &self.api_domains, &self.event_rules);
        let notes = (&mut self.counts, &mut self.events);
        let Some(answer) = serve(cached, request, (visitor, passes), common, notes) else {
            self.lost.extend(callout.map(|callout| callout.flight));
            return Step::Pass;
        };
        Step::Answer(answer, callout)
    }

    /// True if the answer for a waiter depends on the headers of its request; otherwise its path will do, if it has more than a
    /// code.
    #[must_use]
    pub fn needs_headers(&self, waiter: Waiter, resumed: &Resumed) -> bool {
        resumed.needs_headers() || (waiter.is_counted && self.event_rules.describes())
    }
}

/// A record from a cache that a request is answered with at once.
pub(super) struct CachedRecord<'a, 'n> {
    pub(super) record: &'a [u8],
    pub(super) clicker: Clicker<'n>,
    pub(super) tier: Tier,
    /// True if its link is limited, and no visits are left.
    pub(super) is_used_up: bool,
}

/// The answer to a request beyond the limit of its address, which is counted.
#[cold]
#[inline(never)]
pub(super) fn refuse_too_many<'a>(
    client: &impl Clients,
    settings: &'a Settings,
    counts: &mut Counts,
) -> Answer<'a> {
    let answer = Answer::limited(settings);
    let (tier, outcome) = (answer.tier(), answer.outcome());
    set_log_attributes(client, settings, None, (tier, Some(outcome)));
    counts.count(Metric::Requests(tier, outcome));
    answer
}

/// The answer to a request for a code without a link, which is counted; `None` if it passes. With `rules` it is an orphan visit, if they
/// want those.
#[inline(always)]
pub(super) fn refuse_code<'a, C: Clients, H: Headers>(
    tier: Tier,
    request: Request<'_, C, H>,
    passes_unknown: bool,
    (settings, domains, rules): (&'a Settings, &'a ApiDomains, Option<&EventRules>),
    (counts, events): (&mut Counts, &mut ClickEvents),
) -> Option<Answer<'a>> {
    let (client, _, key, _) = request;
    let seen = (client, settings, counts);
    let answer = (Answer::not_found(tier, settings), tier);
    let answer = note(seen, (key, domains), answer, passes_unknown)?;
    if let Some(rules) = rules.filter(|rules| rules.has_orphans()) {
        note_orphan((rules, events), request);
    }
    Some(answer)
}

/// Makes the answer with a record from a cache, and counts it. `passes_unknown` is true if a request for a code without a link passes;
/// `None` if this one does.
#[inline(always)]
pub(super) fn serve<'a, C: Clients, H: Headers>(
    cached: CachedRecord<'a, '_>,
    request: Request<'_, C, H>,
    (visitor, passes_unknown): (Waiter, bool),
    (settings, domains, rules): (&'a Settings, &'a ApiDomains, &EventRules),
    (counts, events): (&mut Counts, &mut ClickEvents),
) -> Option<Answer<'a>> {
    let (client, head, key, now) = request;
    let noted = Cell::new(None);
    let notes = &*events;
    let visit = || LinkVisit {
        is_used_up: cached.is_used_up,
        is_other: visitor.is_other,
        events: (visitor.of(head).is_counted).then(|| rules.notes(notes, &noted)),
        ..visit(key, now, head, settings, client)
    };
    let of = (now, visitor.has_more);
    let answer = compose(Some(cached.record), cached.tier, of, visit, settings);
    let seen = (client, settings, counts);
    let answer = note(seen, (key, domains), (answer, cached.tier), passes_unknown)?;
    if visitor.is_counted {
        let counting = counting((rules, events), &answer, request, noted.get());
        cached.clicker.count(counting);
    }
    Some(answer)
}

/// A client whose address may have been read already: to read it costs a call of the proxy.
pub(super) struct KnownClient<'c, C> {
    pub(super) client: &'c C,
    pub(super) address: Option<IpAddr>,
}

impl<C: Clients> Clients for KnownClient<'_, C> {
    fn client_address(&self) -> Option<IpAddr> {
        self.address.or_else(|| self.client.client_address())
    }

    fn cookies(&self) -> Vec<u8> {
        self.client.cookies()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.client.user_agent()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        self.client.describe(what, value);
    }
}

/// Counts a request, sets its log attributes, and replaces its answer by the fallback of its domain, if there is one. `None` if the
/// request passes.
#[inline(always)]
pub(super) fn note<'a>(
    (client, settings, counts): (&impl Clients, &Settings, &mut Counts),
    (key, domains): (&[u8], &'a ApiDomains),
    (answer, tier): (Answer<'a>, Tier),
    passes_unknown: bool,
) -> Option<Answer<'a>> {
    let passes = passes_unknown && answer.outcome() == Outcome::NotFound;
    let outcome = (!passes).then_some(answer.outcome());
    set_log_attributes(client, settings, Some(key), (tier, outcome));
    let Some(outcome) = outcome else {
        counts.count(Metric::Passed(tier, PassedOutcome::Passed));
        return None;
    };
    counts.count(Metric::Requests(tier, outcome));
    Some(with_domain_fallback(answer, key, domains))
}

/// Sets the configured log attributes of a request. The key is `None` if it was not read, and the outcome if it passes.
#[inline(always)]
pub(super) fn set_log_attributes(
    client: &impl Clients,
    settings: &Settings,
    key: Option<&[u8]>,
    (tier, outcome): (Tier, Option<Outcome>),
) {
    for what in &settings.describe {
        let value = match what {
            Described::Outcome => Some(outcome.map_or("passed", Outcome::name).as_bytes()),
            Described::Tier => Some(tier.name().as_bytes()),
            Described::Key => key,
        };
        if let Some(value) = value {
            client.describe(*what, value);
        }
    }
}

/// The client, the head of its request, the key and unix seconds.
pub(super) type Request<'r, C, H> = (&'r C, &'r Head<'r, H>, &'r [u8], u64);

/// Way to count an answer. A click with attributes becomes an event; so does an orphan visit.
#[inline(always)]
fn counting<C: Clients, H: Headers>(
    events: (&EventRules, &mut ClickEvents),
    answer: &Answer<'_>,
    request: Request<'_, C, H>,
    noted: Option<Noted>,
) -> Counting {
    match answer.outcome() {
        Outcome::Redirect if request.1.headers.is_prefetch() => Counting::No,
        Outcome::Redirect if events.0.takes_click(noted.as_ref()) => {
            describe(events, answer.status, request, noted)
        }
        Outcome::Redirect => Counting::Plain,
        Outcome::NotFound if events.0.has_orphans() => {
            note_orphan(events, request);
            Counting::No
        }
        _ => Counting::No,
    }
}

/// Takes a click as an event, if there is room.
#[inline(never)]
fn describe<C: Clients, H: Headers>(
    (rules, events): (&EventRules, &mut ClickEvents),
    status: u16,
    (client, head, key, now): Request<'_, C, H>,
    noted: Option<Noted>,
) -> Counting {
    let status = RedirectStatus::from_code(status);
    let click = Answered {
        key,
        headers: &head.headers,
        path: head.path,
        now,
        kind: Kind::Redirect(status.unwrap_or(RedirectStatus::Found)),
    };
    events.click(rules, client, &click, noted)
}

/// Notes an orphan visit: a request for a code without a link.
#[cold]
#[inline(never)]
fn note_orphan<C: Clients, H: Headers>(
    (rules, events): (&EventRules, &mut ClickEvents),
    (client, head, key, now): Request<'_, C, H>,
) {
    if head.headers.is_prefetch() {
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
    events.orphan(rules, client, kind, (&head.headers, head.path), now);
}

/// The request for `key` as rules and conditions of links see it.
fn visit<'v, C, H: Headers>(
    key: &'v [u8],
    now: u64,
    head: &Head<'v, H>,
    settings: &'v Settings,
    client: &'v C,
) -> LinkVisit<'v, C, H> {
    let (below, query) = request::behind_code(head.path);
    LinkVisit {
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
fn with_domain_fallback<'a>(answer: Answer<'a>, key: &[u8], domains: &'a ApiDomains) -> Answer<'a> {
    match answer.outcome() {
        Outcome::Redirect
        | Outcome::Expired
        | Outcome::Unavailable
        | Outcome::Withheld
        | Outcome::Limited => answer,
        outcome => {
            let targets = domains.targets_of_key(key);
            answer.instead(targets.and_then(|targets| targets.instead_of(outcome)))
        }
    }
}

/// Makes an answer. A record that does not decode counts as none.
#[inline(always)]
fn compose<'a, 'v, C: Clients + 'v, H: Headers + 'v>(
    record: Option<&'a [u8]>,
    tier: Tier,
    of: (u64, bool),
    visit: impl FnOnce() -> LinkVisit<'v, C, H>,
    settings: &'a Settings,
) -> Answer<'a> {
    match record.map(Record::decode_again) {
        Some(Ok(record)) => Answer::of(record, of, visit, tier, settings),
        Some(Err(_)) | None => Answer::unavailable(tier, settings),
    }
}
