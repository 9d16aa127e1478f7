//! Forms with passwords of links: detecting, holding and answering them.

use super::action::{Action, Uses};
use super::domains::DomainMiss;
use super::{AnswerContent, Edge, FormEnd, Resumed, Step};
use crate::cache::{Found, Lookup};
use crate::control_plane::callout::{LookupCallout, Response, status};
use crate::flights::{StreamId, Token, Waiter, Wanted};
use crate::forms::{FormAnswer, FormResult, FormStep, is_form};
use crate::host::{Clients, Log, Lookups, SharedData};
use crate::metrics::Metric;
use crate::request::{Head, Headers, Requested};
use edgelink_wire::Record;
use edgelink_wire::password::{COOKIE_MEDIA_TYPE, is_cookie};
use edgelink_wire::redirect::is_locked;
use std::sync::Arc;

/// Result of looking up the link of a form.
enum FormLink {
    Known(Found),
    /// A lookup is in flight; the callout is to be sent.
    Awaited(Option<LookupCallout>),
    /// It was never issued.
    Absent,
    /// No tier could answer.
    Unknown,
}

impl Edge {
    /// A request has come whose method is neither GET nor HEAD. A form is held if its link has a password, or may have one, and
    /// refused if no tier could answer. `None` if it is no such form.
    #[cold]
    #[inline(never)]
    pub(super) fn hold_form(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        head: &Head<'_, impl Headers>,
        requested: Requested<'_>,
        visitor: Waiter,
    ) -> Option<Step<AnswerContent>> {
        if head.method != b"POST" || !is_form(head.headers) {
            return None;
        }
        let form = Waiter {
            is_form: true,
            ..visitor.of(head)
        };
        let link = match self.name_key_of_form(head.authority, requested.code) {
            Ok(()) => self.find_for_form(host, form),
            Err(DomainMiss::Unknown(_)) => FormLink::Absent,
            Err(DomainMiss::Awaited | DomainMiss::Doubtful) if self.has_default_domain() => {
                FormLink::Unknown
            }
            // It is a form only if its host turns out to be a domain: it waits for that like other requests.
            Err(DomainMiss::Awaited | DomainMiss::Doubtful) => return None,
        };
        let (is_locked, callout) = match link {
            FormLink::Known(found) if !self.locks(self.caches.record(found), form) => return None,
            FormLink::Absent => return None,
            FormLink::Known(_) if self.forms.has_room() => (true, None),
            FormLink::Awaited(callout) => (false, callout),
            FormLink::Known(_) | FormLink::Unknown => {
                return Some(Step::Answer(AnswerContent::Unavailable, None));
            }
        };
        let visitor = host.client_address();
        let ended = self
            .forms
            .hold(form.stream, &self.key, visitor, is_locked, self.now);
        Some(Step::Hold(callout, ended))
    }

    /// A request whose method is neither GET nor HEAD has waited for its domain, so that its body can no longer be read first. A
    /// form is refused; the next one is held, as its domain is known now. `None` if it is no form, or still has no domain.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_late_form(
        &mut self,
        head: &Head<'_, impl Headers>,
        requested: Requested<'_>,
    ) -> Option<Step<AnswerContent>> {
        let is_form = head.method == b"POST" && is_form(head.headers);
        let is_for_link = is_form && self.name_key(head.authority, requested.code).is_ok();
        is_for_link.then_some(Step::Answer(AnswerContent::Unavailable, None))
    }

    /// Looks up the link like a visitor's, except that nothing is refreshed, and stale records will do.
    fn find_for_form(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log),
        form: Waiter,
    ) -> FormLink {
        let held = match self.look_up_lru() {
            Ok(found) => return FormLink::Known(found),
            Err(held) => held,
        };
        if self.refuses(held) {
            return FormLink::Absent;
        }
        let version = match self.caches.look_up_shared(host, &self.key, held, self.now) {
            Lookup::Fresh(found) | Lookup::Stale(found) => return FormLink::Known(found),
            Lookup::Missing(version) => version,
        };
        if !self.forms.has_room() {
            return FormLink::Unknown;
        }
        match self.wait(host, form, Wanted::unknown(version, self.now)) {
            Some(Step::Wait(callout)) => FormLink::Awaited(callout),
            _ => FormLink::Unknown,
        }
    }

    /// True if the link of a record asks for a password at the path of the form.
    fn locks(&self, record: &[u8], form: Waiter) -> bool {
        let now = self.wall.seconds(self.now);
        let record = Record::decode_again(record);
        record.is_ok_and(|record| is_locked(&record, form.is_below, now))
    }

    /// True if the stream has a form, or one that was released and still waits: body and trailers are held.
    #[must_use]
    pub fn holds_form(&self, stream: StreamId) -> bool {
        !self.forms.is_empty() && self.forms.holds(stream)
    }

    /// The body of a form is complete.
    pub fn on_form_body(&mut self, stream: StreamId, body: &[u8]) -> FormStep {
        self.forms.on_body(stream, body)
    }

    /// The body of a form is longer than announced.
    pub fn on_form_too_long(&mut self, stream: StreamId) -> Option<FormEnd> {
        self.forms.end(stream, FormResult::Wrong)
    }

    /// The link that a form has waited for is known.
    pub fn on_form_link(&mut self, form: Waiter, resumed: &Resumed) -> FormStep {
        self.enter(form.stream);
        let record = resumed.record.as_deref();
        let is_locked = record.map(|record| self.locks(record, form));
        self.forms.on_link(form.stream, is_locked)
    }

    /// Releases a form whose link has no password: it is treated like any other request, except that its stream is held until
    /// [`Edge::answer`].
    pub fn release_form(&mut self, form: Waiter, resumed: &Resumed) -> Vec<Action> {
        let waiter = Waiter {
            is_form: false,
            ..form
        };
        self.admit_resumed(Resumed {
            waiters: vec![waiter],
            key: Arc::clone(&resumed.key),
            tier: resumed.tier,
            record: resumed.record.clone(),
            visits: Uses::default(),
        })
    }

    /// True if the callout has a form.
    #[must_use]
    pub fn carries_form(&self, token: Token) -> bool {
        self.forms.carries(token)
    }

    /// The callout of a form has ended; `retry_after` is that header of the answer. `None` if the visitor has gone.
    pub fn on_form_end(
        &mut self,
        token: Token,
        response: Response<'_>,
        retry_after: &[u8],
    ) -> Option<FormEnd> {
        self.forms.on_end(token, result(response, retry_after))
    }

    /// The answer to a form, by the headers of its request.
    pub fn answer_form(&mut self, end: &FormEnd, head: &Head<'_, impl Headers>) -> FormAnswer {
        self.enter(end.stream);
        self.counts.count(Metric::Unlocks(end.result.outcome()));
        let is_secure = head.headers.get("x-forwarded-proto") == b"https";
        end.result
            .answer(&end.key, head.path, is_secure, &self.here)
    }
}

/// Reads the control plane's answer to a form. Anything unexpected is a failure.
fn result(response: Response<'_>, retry_after: &[u8]) -> FormResult {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match status(response) {
        Ok(200)
            if response.content_type == COOKIE_MEDIA_TYPE.as_bytes()
                && is_cookie(response.body) =>
        {
            FormResult::Opened(text(response.body))
        }
        Ok(403) => FormResult::Wrong,
        Ok(404) => FormResult::NotLocked,
        Ok(429) => {
            let is_number = retry_after.len() <= 9
                && !retry_after.is_empty()
                && retry_after.iter().all(u8::is_ascii_digit);
            FormResult::Limited(if is_number {
                text(retry_after)
            } else {
                "1".to_owned()
            })
        }
        _ => FormResult::Unavailable,
    }
}
