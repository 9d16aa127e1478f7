//! A listener of the live stream: its filter and its queue of events.

use crate::analytics::{Click, Described, VisitorView};
use edgelink_model::tenancy::Scope;
use edgelink_model::timestamp;
use edgelink_wire::Domain;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Most events that wait for a listener; it loses further ones.
pub(crate) const MAX_WAITING: usize = 1_024;

/// Longest time without an event.
const BEAT: Duration = Duration::from_secs(10);

/// A listener's filter for clicks.
#[derive(Clone, Debug)]
pub struct ListenerFilter {
    /// Links that the caller may see.
    pub scope: Scope,
    /// This link only.
    pub link_id: Option<u64>,
    /// This domain only.
    pub domain: Option<Domain>,
    /// Links with one of these tags only; empty for all.
    pub tags: Vec<String>,
}

/// An event for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveEvent {
    /// A click, as JSON.
    Click(Arc<str>),
    /// At least so many clicks were lost, because the listener is too slow; 0 if that is uncertain.
    Lost(u64),
    /// Sent after a while without events.
    Beat,
}

/// The sending side of a listener.
pub(super) struct ClickListener {
    filter: ListenerFilter,
    events: mpsc::Sender<Arc<str>>,
    lost: AtomicU64,
    /// Set if other clicks may be lost.
    has_gap: AtomicBool,
}

impl ClickListener {
    pub(super) fn new(filter: ListenerFilter) -> (Arc<Self>, mpsc::Receiver<Arc<str>>) {
        let (events, waiting) = mpsc::channel(MAX_WAITING);
        let listener = Self {
            filter,
            events,
            lost: AtomicU64::new(0),
            has_gap: AtomicBool::new(false),
        };
        (Arc::new(listener), waiting)
    }

    pub(super) fn needs_owner(&self) -> bool {
        self.filter.scope.owner_id.is_some()
    }

    /// True if the listener wants the click and may see it.
    pub(super) fn wants(&self, click: &Click, owner: Option<u64>) -> bool {
        let ListenerFilter {
            scope,
            link_id,
            domain,
            tags,
        } = &self.filter;
        let name = click.key.split('/').next().unwrap_or_default();
        let is_on = |domain: &Domain| domain.as_str() == name;
        let has_one = |tags: &[String]| tags.iter().any(|tag| click.tags.contains(tag));
        scope.tenant_id == click.tenant_id
            && (scope.owner_id.is_none() || scope.owner_id == owner)
            && (scope.domains.is_empty() || scope.domains.iter().any(is_on))
            && (scope.tags.is_empty() || has_one(&scope.tags))
            && link_id.is_none_or(|link_id| link_id == click.link_id)
            && domain.as_ref().is_none_or(is_on)
            && (tags.is_empty() || has_one(tags))
    }

    /// Notes that an unknown number of clicks may be lost.
    pub(super) fn note_gap(&self) {
        self.has_gap.store(true, Ordering::Relaxed);
    }

    pub(super) fn send(&self, text: &Arc<str>) {
        if self.events.try_send(text.clone()).is_err() {
            self.note_loss(1);
        }
    }

    fn note_loss(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// The receiving side of a listener.
pub struct Subscription {
    /// Ends it.
    stop: CancellationToken,
    /// Called when it ends.
    leave: Box<dyn Fn() + Send + Sync>,
    listener: Arc<ClickListener>,
    events: mpsc::Receiver<Arc<str>>,
}

impl Subscription {
    pub(super) fn new(
        stop: CancellationToken,
        leave: Box<dyn Fn() + Send + Sync>,
        listener: Arc<ClickListener>,
        events: mpsc::Receiver<Arc<str>>,
    ) -> Self {
        Self {
            stop,
            leave,
            listener,
            events,
        }
    }

    /// The next event; `None` if the process stops.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        let lost = self.listener.lost.swap(0, Ordering::Relaxed);
        if self.listener.has_gap.swap(false, Ordering::Relaxed) || lost > 0 {
            return Some(LiveEvent::Lost(lost));
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            event = self.events.recv() => event.map(LiveEvent::Click),
            () = tokio::time::sleep(BEAT) => Some(LiveEvent::Beat),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        (self.leave)();
    }
}

/// A click as sent to listeners.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LiveClick<'a> {
    at: String,
    /// Number of clicks of the link; more than one only without attributes.
    count: u64,
    short_code: &'a str,
    domain: &'a str,
    tags: &'a [String],
    #[serde(flatten)]
    visitor: VisitorView<'a>,
}

/// The JSON of a click.
pub(super) fn show(click: &Click) -> Arc<str> {
    let (domain, short_code) = click.key.split_once('/').unwrap_or_default();
    let nothing = Described::default();
    let described = click.described.as_deref().unwrap_or(&nothing);
    let view = LiveClick {
        at: timestamp::from_seconds(click.at),
        count: click.count,
        short_code,
        domain,
        tags: &click.tags,
        visitor: VisitorView::new(described),
    };
    serde_json::to_string(&view).unwrap_or_default().into()
}
