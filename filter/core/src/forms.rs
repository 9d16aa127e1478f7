//! Forms with passwords of links, on their way to the control plane: streams that are held until their body is complete, and
//! the lookups and callouts they wait for.
//!
//! A form is held while its link is looked up, its body arrives, and the control plane checks it. All three take a bounded time,
//! and the number of forms is bounded. A form that is released because its link has no password is a waiter like any other; its
//! stream stays held until it is answered or continues, because a body that continued would take the headers with it.

use crate::answer::Answer;
use crate::control_plane::callout::{UnlockCallout, path_of};
use crate::flights::{StreamId, Token};
use crate::metrics::{Tier, UnlockOutcome};
use crate::request::Headers;
use crate::settings::Settings;
use crate::time::Moment;
use edgelink_wire::password::{
    self, MAX_FORM_LENGTH, Notice, UNLOCK_PATH, address_of_form, set_cookie,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Milliseconds after which a form without its body is given up.
pub(crate) const BODY_MILLIS: u64 = 2_000;

/// Milliseconds after which any other form is given up, such as one whose callout the proxy has forgotten.
pub(crate) const FORM_MILLIS: u64 = 10_000;

/// The next step for the stream of a form.
#[derive(Debug, PartialEq, Eq)]
pub enum FormStep {
    /// It stays held.
    Hold,
    /// It is released with [`crate::edge::Edge::release_form`], because its link has no password.
    Pass,
    /// It is answered.
    End(FormEnd),
    /// It stays held, and the callout is to be sent.
    Ask(UnlockCallout),
}

/// The end of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct FormEnd {
    /// Its stream.
    pub stream: StreamId,
    /// The key of its link.
    pub(crate) key: Arc<[u8]>,
    pub(crate) result: FormResult,
}

/// The control plane's answer to a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormResult {
    /// The password is right; contains the value of the cookie.
    Opened(String),
    /// It is wrong.
    Wrong,
    /// There were too many attempts; contains the seconds until the next one is allowed.
    Limited(String),
    /// The link has no password any more.
    NotLocked,
    /// No usable answer.
    Unavailable,
}

/// The answer to a form.
#[derive(Debug, PartialEq, Eq)]
pub struct FormAnswer {
    /// The status code.
    pub status: u16,
    /// The headers, without `:status` and `content-length`.
    pub headers: Vec<(&'static str, Vec<u8>)>,
    /// The body.
    pub page: Arc<str>,
}

#[derive(Debug)]
struct PendingForm {
    key: Arc<[u8]>,
    visitor: Option<IpAddr>,
    since: Moment,
    /// True if its link is known to have a password; otherwise the link is being looked up.
    is_locked: bool,
    body: Body,
}

/// The body of a form.
#[derive(Debug)]
enum Body {
    /// It is incomplete.
    Awaited,
    /// It is complete, and the lookup is awaited.
    Whole(Vec<u8>),
    /// The control plane has it; here so that it can be sent again.
    Sent(Vec<u8>),
}

/// The forms of a worker.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    most: usize,
    forms: HashMap<StreamId, PendingForm>,
    /// Forms whose bodies are awaited, the oldest first.
    without_body: BTreeSet<(Moment, StreamId)>,
    by_token: HashMap<Token, StreamId>,
    /// Streams of released forms, while they wait.
    released: HashSet<StreamId>,
    /// Streams of forms whose callouts have ended with the root context that made them.
    lost: Vec<StreamId>,
}

/// True if a POST with these headers may be a form with a password.
pub(crate) fn is_form(headers: impl Headers) -> bool {
    let length = std::str::from_utf8(headers.get("content-length")).ok();
    let length = length.and_then(|length| length.parse::<usize>().ok());
    let is_short = length.is_some_and(|length| (1..=MAX_FORM_LENGTH).contains(&length));
    is_short && password::is_form(headers.get("content-type"))
}

impl Forms {
    /// No forms yet, and at most `most` at a time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Changes the bound, for new forms.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// True if there is room for another form, or a form without its body can be ended for it.
    pub(crate) fn has_room(&self) -> bool {
        self.forms.len() < self.most || !self.without_body.is_empty()
    }

    /// Removes a form. `None` if there is no such form.
    fn take(&mut self, stream: StreamId) -> Option<PendingForm> {
        let form = self.forms.remove(&stream)?;
        self.without_body.remove(&(form.since, stream));
        Some(form)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.forms.is_empty() && self.released.is_empty()
    }

    pub(crate) fn holds(&self, stream: StreamId) -> bool {
        self.forms.contains_key(&stream) || self.released.contains(&stream)
    }

    /// Holds a form for the link `key`. Returns another form that was ended to make room.
    pub(crate) fn hold(
        &mut self,
        stream: StreamId,
        key: &[u8],
        visitor: Option<IpAddr>,
        is_locked: bool,
        now: Moment,
    ) -> Option<FormEnd> {
        let is_full = self.forms.len() >= self.most;
        let oldest = self.without_body.first().filter(|_| is_full);
        let oldest = oldest.map(|(_, stream)| *stream);
        let ended = oldest.and_then(|oldest| self.end(oldest, FormResult::Unavailable));
        let form = PendingForm {
            key: key.into(),
            visitor,
            since: now,
            is_locked,
            body: Body::Awaited,
        };
        self.take(stream);
        self.forms.insert(stream, form);
        self.without_body.insert((now, stream));
        ended
    }

    /// The lookup of the link of a form is complete; `is_locked` is `None` if no tier could answer.
    pub(crate) fn on_link(&mut self, stream: StreamId, is_locked: Option<bool>) -> FormStep {
        let Some(form) = self.forms.get_mut(&stream) else {
            return FormStep::Hold;
        };
        match is_locked {
            Some(true) => {
                form.is_locked = true;
                form.ask(stream)
            }
            Some(false) => {
                self.take(stream);
                self.released.insert(stream);
                FormStep::Pass
            }
            None => {
                let end = self.end(stream, FormResult::Unavailable);
                end.map_or(FormStep::Hold, FormStep::End)
            }
        }
    }

    /// The body of a form is complete.
    pub(crate) fn on_body(&mut self, stream: StreamId, body: &[u8]) -> FormStep {
        let form = self.forms.get_mut(&stream);
        let Some(form) = form.filter(|form| form.awaits_body()) else {
            return FormStep::Hold;
        };
        form.body = Body::Whole(body.to_vec());
        self.without_body.remove(&(form.since, stream));
        form.ask(stream)
    }

    /// The proxy has taken the callout of a form.
    pub(crate) fn on_sent(&mut self, stream: StreamId, token: Token) {
        self.by_token.insert(token, stream);
    }

    /// True if the callout has a form.
    pub(crate) fn carries(&self, token: Token) -> bool {
        self.by_token.contains_key(&token)
    }

    /// All callouts have ended without a report from the proxy.
    pub(crate) fn lose_tokens(&mut self) {
        self.lost
            .extend(self.by_token.drain().map(|(_, stream)| stream));
    }

    /// Lost callouts of forms, to be sent again.
    pub(crate) fn ask_again(&mut self) -> Vec<UnlockCallout> {
        let lost = std::mem::take(&mut self.lost).into_iter();
        let asked = lost.filter_map(|stream| {
            let form = self.forms.get_mut(&stream)?;
            let Body::Sent(body) = &mut form.body else {
                return None;
            };
            form.body = Body::Whole(std::mem::take(body));
            match form.ask(stream) {
                FormStep::Ask(callout) => Some(callout),
                _ => None,
            }
        });
        asked.collect()
    }

    /// The callout of a form has ended. `None` if its visitor has gone.
    pub(crate) fn on_end(&mut self, token: Token, result: FormResult) -> Option<FormEnd> {
        let stream = self.by_token.remove(&token)?;
        self.end(stream, result)
    }

    /// Ends a form. `None` if there is no such form.
    pub(crate) fn end(&mut self, stream: StreamId, result: FormResult) -> Option<FormEnd> {
        let PendingForm { key, .. } = self.take(stream)?;
        Some(FormEnd {
            stream,
            key,
            result,
        })
    }

    /// A stream has ended, is answered or continues: its form, if any, is forgotten.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        if !self.is_empty() {
            self.take(stream);
            self.released.remove(&stream);
        }
    }

    /// Ends forms that were held too long.
    pub(crate) fn on_time(&mut self, now: Moment) -> Vec<FormEnd> {
        if self.forms.is_empty() {
            // Callouts of an ended root context never end.
            self.by_token.clear();
            return Vec::new();
        }
        let is_overdue = |form: &PendingForm| {
            let limit = match form.body {
                Body::Awaited => BODY_MILLIS,
                Body::Whole(_) | Body::Sent(_) => FORM_MILLIS,
            };
            form.since.age(now) >= limit
        };
        let overdue = self.forms.iter().filter(|(_, form)| is_overdue(form));
        let overdue: Vec<_> = overdue.map(|(stream, _)| *stream).collect();
        let ends = overdue.into_iter();
        ends.filter_map(|stream| self.end(stream, FormResult::Unavailable))
            .collect()
    }
}

impl PendingForm {
    fn awaits_body(&self) -> bool {
        matches!(self.body, Body::Awaited)
    }

    /// The callout, once body and link are known.
    fn ask(&mut self, stream: StreamId) -> FormStep {
        let body = match &mut self.body {
            Body::Whole(body) if self.is_locked => std::mem::take(body),
            _ => return FormStep::Hold,
        };
        self.body = Body::Sent(body.clone());
        let visitor = self.visitor.map(|visitor| visitor.to_string());
        FormStep::Ask(UnlockCallout {
            stream,
            path: path_of(UNLOCK_PATH, &self.key),
            visitor: visitor.unwrap_or_default(),
            body,
        })
    }
}

impl FormResult {
    /// The answer, for a form whose request has that path.
    pub(crate) fn answer(
        &self,
        key: &[u8],
        path: &[u8],
        is_secure: bool,
        settings: &Settings,
    ) -> FormAnswer {
        match self {
            Self::Opened(cookie) => {
                let cookie = set_cookie(key, cookie, settings.prefix(), is_secure);
                see_again(path, Some(cookie.into_bytes()))
            }
            Self::NotLocked => see_again(path, None),
            Self::Wrong => page(Notice::Wrong, None),
            Self::Limited(seconds) => page(Notice::Limited, Some(seconds)),
            Self::Unavailable => Answer::unavailable(Tier::ControlPlane, settings).into(),
        }
    }

    /// Its name in metrics.
    pub(crate) fn outcome(&self) -> UnlockOutcome {
        match self {
            Self::Opened(_) => UnlockOutcome::Opened,
            Self::NotLocked => UnlockOutcome::NotLocked,
            Self::Wrong => UnlockOutcome::Wrong,
            Self::Limited(_) => UnlockOutcome::Limited,
            Self::Unavailable => UnlockOutcome::Failed,
        }
    }
}

impl From<Answer<'_>> for FormAnswer {
    fn from(answer: Answer<'_>) -> Self {
        let headers = answer.headers();
        Self {
            status: answer.status,
            headers: headers
                .map(|(name, value)| (name, value.to_vec()))
                .collect(),
            page: answer.page().cloned().unwrap_or_default(),
        }
    }
}

/// 303 to the address of the form.
fn see_again(path: &[u8], cookie: Option<Vec<u8>>) -> FormAnswer {
    let cookie = cookie.map(|cookie| ("set-cookie", cookie));
    let headers = [
        ("location", address_of_form(path).to_vec()),
        ("cache-control", b"no-store".to_vec()),
    ];
    FormAnswer {
        status: 303,
        headers: headers.into_iter().chain(cookie).collect(),
        page: "".into(),
    }
}

fn page(notice: Notice, retry_after: Option<&str>) -> FormAnswer {
    let mut headers = vec![
        ("cache-control", b"no-store".to_vec()),
        ("content-type", b"text/html; charset=utf-8".to_vec()),
    ];
    let more = edgelink_wire::password::PAGE_HEADERS.into_iter();
    headers.extend(more.map(|(name, value)| (name, value.as_bytes().to_vec())));
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.as_bytes().to_vec())));
    FormAnswer {
        status: notice.status(),
        headers,
        page: notice.page().into(),
    }
}
