//! Makes answers, and counts them.

use super::action::Visits;
use super::{Content, Edge, Resumed};
use crate::answer::Answer;
use crate::api_domains::ApiDomains;
use crate::flights::Waiter;
use crate::host::Clients;
use crate::metrics::{Counts, Metric, Tier};
use crate::request::{self, Head};
use crate::settings::Settings;
use crate::visit::Visit;
use edgelink_wire::{Outcome, Record};

impl Edge {
    /// The answer for a waiter that is resumed. `head` is that of its request: all of it where [`Resumed::needs_headers`] says
    /// so; otherwise the path, and nothing if that is a code alone.
    pub fn answer<'a>(
        &'a mut self,
        client: &impl Clients,
        waiter: Waiter,
        resumed: &'a Resumed,
        head: &Head<'_>,
    ) -> Answer<'a> {
        self.enter(waiter.stream);
        let now = self.wall.seconds(self.now);
        let (settings, counts) = (&*self.here, &mut self.counts);
        let domains = &self.api_domains;
        let (record, tier) = (resumed.record.as_deref(), resumed.tier);
        let visit = || Visit {
            is_used_up: resumed.visits == Visits::UsedUp,
            ..visit(&resumed.key, now, head, settings, client)
        };
        let of = (now, waiter.has_more);
        let answer = compose(record, tier, of, visit, settings, counts);
        let answer = or_elsewhere(answer, &resumed.key, domains);
        if waiter.is_click
            && self.settings.clicks.is_some()
            && answer.outcome() == Outcome::Redirect
        {
            self.caches.click(&resumed.key);
        }
        answer
    }

    /// The answer for the request at hand, which does not wait.
    pub(super) fn answer_at_once(
        &mut self,
        client: &impl Clients,
        content: Content,
        head: &Head<'_>,
        visitor: Waiter,
    ) -> Answer<'_> {
        let (settings, counts) = (&*self.here, &mut self.counts);
        let domains = &self.api_domains;
        let (found, is_used_up) = match content {
            Content::Found(found) => (found, false),
            Content::UsedUp(found) => (found, true),
            Content::NotFound(tier) => {
                counts.count(Metric::Requests(tier, Outcome::NotFound));
                let answer = Answer::not_found(tier, settings);
                return match tier {
                    Tier::UnknownHost => answer,
                    _ => or_elsewhere(answer, &self.key, domains),
                };
            }
            Content::Unavailable => {
                let tier = Tier::ControlPlane;
                counts.count(Metric::Requests(tier, Outcome::Unavailable));
                return Answer::unavailable(tier, settings);
            }
        };
        let (record, clicker) = self.caches.serve(found, &self.key);
        let now = self.wall.seconds(self.now);
        let visit = || Visit {
            is_used_up,
            ..visit(&self.key, now, head, settings, client)
        };
        let of = (now, visitor.has_more);
        let answer = compose(Some(record), found.tier, of, visit, settings, counts);
        let answer = or_elsewhere(answer, &self.key, domains);
        if visitor.is_click
            && self.settings.clicks.is_some()
            && answer.outcome() == Outcome::Redirect
        {
            clicker.click();
        }
        answer
    }
}

/// What links may look at of a request for `key`.
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
        headers: head.headers,
        below,
        query,
        now,
        geo: &settings.geo,
        is_used_up: false,
        client,
    }
}

/// The same answer, or where its domain sends the visitors of such a link instead.
fn or_elsewhere<'a>(answer: Answer<'a>, key: &[u8], domains: &'a ApiDomains) -> Answer<'a> {
    match answer.outcome() {
        Outcome::Redirect | Outcome::Expired | Outcome::Unavailable => answer,
        outcome => {
            let targets = domains.targets_of_key(key);
            answer.instead(targets.and_then(|targets| targets.instead_of(outcome)))
        }
    }
}

/// Makes an answer, and counts it. A record that does not decode counts as none.
fn compose<'a, 'v, C: Clients + 'v>(
    record: Option<&'a [u8]>,
    tier: Tier,
    of: (u64, bool),
    visit: impl FnOnce() -> Visit<'v, C>,
    settings: &'a Settings,
    counts: &mut Counts,
) -> Answer<'a> {
    let answer = match record.map(Record::decode_again) {
        Some(Ok(record)) => Answer::of(record, of, visit, tier, settings),
        Some(Err(_)) | None => Answer::unavailable(tier, settings),
    };
    counts.count(Metric::Requests(tier, answer.outcome()));
    answer
}
