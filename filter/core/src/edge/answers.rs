//! Makes answers, and counts them.

use super::action::Visits;
use super::{Content, Edge, Resumed};
use crate::answer::Answer;
use crate::flights::Waiter;
use crate::host::Clients;
use crate::metrics::{Counts, Metric, Tier};
use crate::request::{self, Head};
use crate::settings::Settings;
use crate::visit::Visit;
use edgelink_wire::{Outcome, Record};

impl Edge {
    /// The answer for a waiter that is resumed. `head` is that of its request: all of it where [`Resumed::needs_headers`] says
    /// so; otherwise the path, and without a query nothing.
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
        let (record, tier) = (resumed.record.as_deref(), resumed.tier);
        let visit = Visit {
            key: &resumed.key,
            headers: head.headers,
            query: request::query(head.path),
            now,
            geo: &settings.geo,
            is_used_up: resumed.visits == Visits::UsedUp,
            client,
        };
        let answer = compose(record, tier, &visit, settings, counts);
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
        let (found, is_used_up) = match content {
            Content::Found(found) => (found, false),
            Content::UsedUp(found) => (found, true),
            Content::NotFound(tier) => {
                counts.count(Metric::Requests(tier, Outcome::NotFound));
                return Answer::not_found(tier, settings);
            }
            Content::Unavailable => {
                let tier = Tier::ControlPlane;
                counts.count(Metric::Requests(tier, Outcome::Unavailable));
                return Answer::unavailable(tier, settings);
            }
        };
        let (record, clicker) = self.caches.serve(found, &self.key);
        let visit = Visit {
            key: &self.key,
            headers: head.headers,
            query: if visitor.has_query {
                request::query(head.path)
            } else {
                b""
            },
            now: self.wall.seconds(self.now),
            geo: &settings.geo,
            is_used_up,
            client,
        };
        let answer = compose(Some(record), found.tier, &visit, settings, counts);
        if visitor.is_click
            && self.settings.clicks.is_some()
            && answer.outcome() == Outcome::Redirect
        {
            clicker.click();
        }
        answer
    }
}

/// Makes an answer, and counts it. A record that does not decode counts as none.
fn compose<'a>(
    record: Option<&'a [u8]>,
    tier: Tier,
    visit: &Visit<'_, impl Clients>,
    settings: &'a Settings,
    counts: &mut Counts,
) -> Answer<'a> {
    let answer = match record.map(Record::decode_again) {
        Some(Ok(record)) => Answer::of(record, visit, tier, settings),
        Some(Err(_)) | None => Answer::unavailable(tier, settings),
    };
    counts.count(Metric::Requests(tier, answer.outcome()));
    answer
}
