//! Makes answers, and counts them.

use super::{Content, Edge, Resumed};
use crate::answer::Answer;
use crate::flights::Waiter;
use crate::metrics::{Counts, Metric, Tier};
use crate::request;
use crate::settings::Settings;
use edgelink_wire::{Outcome, Record};

impl Edge {
    /// The answer for a waiter that is resumed. `path` is the `:path` of its request; where that has no query, it need
    /// not be given.
    pub fn answer<'a>(
        &'a mut self,
        waiter: Waiter,
        resumed: &'a Resumed,
        path: &[u8],
    ) -> Answer<'a> {
        self.enter(waiter.stream);
        let seconds = self.wall.seconds(self.now);
        let (settings, counts) = (&self.here, &mut self.counts);
        let (record, tier) = (resumed.record.as_deref(), resumed.tier);
        let query = request::query(path);
        let answer = compose(record, tier, query, seconds, settings, counts);
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
        content: Content,
        query: &[u8],
        is_click: bool,
    ) -> Answer<'_> {
        let (settings, counts) = (&self.here, &mut self.counts);
        let found = match content {
            Content::Found(found) => found,
            Content::NotFound(tier) => {
                counts.count(Metric::Requests(tier, Outcome::NotFound));
                return Answer::not_found(tier, settings);
            }
            Content::Unavailable => {
                return compose(None, Tier::ControlPlane, b"", 0, settings, counts);
            }
        };
        let seconds = self.wall.seconds(self.now);
        let (record, clicker) = self.caches.serve(found, &self.key);
        let record = Some(record);
        let answer = compose(record, found.tier, query, seconds, settings, counts);
        if is_click && self.settings.clicks.is_some() && answer.outcome() == Outcome::Redirect {
            clicker.click();
        }
        answer
    }
}

/// Makes an answer at `seconds` of unix time, and counts it. A record that does not decode counts as none.
fn compose<'a>(
    record: Option<&'a [u8]>,
    tier: Tier,
    query: &[u8],
    seconds: u64,
    settings: &'a Settings,
    counts: &mut Counts,
) -> Answer<'a> {
    let answer = match record.map(Record::decode_again) {
        Some(Ok(record)) => Answer::of(record, query, seconds, tier, settings),
        Some(Err(_)) | None => Answer::unavailable(tier, settings),
    };
    counts.count(Metric::Requests(tier, answer.outcome()));
    answer
}
