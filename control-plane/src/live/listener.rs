//! A listener of the live stream: what it wants, and the events that wait for it.

use super::Live;
use crate::analytics::{Click, VisitorView};
use crate::tenancy::Scope;
use crate::timestamp;
use edgelink_wire::Domain;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// The events that wait for a listener; further ones are lost to it.
pub(crate) const MAX_WAITING: usize = 1_024;

/// The longest time without an event.
const BEAT: Duration = Duration::from_secs(10);

/// Which clicks a listener wants.
#[derive(Clone, Debug)]
pub(crate) struct ListenerFilter {
    /// Those of links that the caller may see.
    pub(crate) scope: Scope,
    /// Those of this link only.
    pub(crate) link_id: Option<u64>,
    /// Those on this domain only.
    pub(crate) domain: Option<Domain>,
    /// Those of links with one of these tags only; empty for all.
    pub(crate) tags: Vec<String>,
}

/// What a listener gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveEvent {
    /// A click, as JSON.
    Click(Arc<str>),
    /// At least so many clicks were lost, because the listener is too slow or too many were reported.
    Lost(u64),
    /// There was nothing for a while.
    Beat,
}

/// A listener, as the stream sees it.
pub(super) struct Listener {
    filter: ListenerFilter,
    events: mpsc::Sender<Arc<str>>,
    lost: AtomicU64,
}

impl Listener {
    pub(super) fn new(filter: ListenerFilter) -> (Arc<Self>, mpsc::Receiver<Arc<str>>) {
        let (events, waiting) = mpsc::channel(MAX_WAITING);
        let listener = Self {
            filter,
            events,
            lost: AtomicU64::new(0),
        };
        (Arc::new(listener), waiting)
    }

    pub(super) fn needs_owner(&self) -> bool {
        self.filter.scope.owner_id.is_some()
    }

    /// Whether the click is one that the listener wants and may see.
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

    pub(super) fn send(&self, text: &Arc<str>) {
        if self.events.try_send(text.clone()).is_err() {
            self.note_loss(1);
        }
    }

    pub(super) fn note_loss(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// A listener, as it listens.
pub(crate) struct Subscription {
    live: Arc<Live>,
    number: u64,
    listener: Arc<Listener>,
    events: mpsc::Receiver<Arc<str>>,
}

impl Subscription {
    pub(super) fn new(
        live: Arc<Live>,
        number: u64,
        listener: Arc<Listener>,
        events: mpsc::Receiver<Arc<str>>,
    ) -> Self {
        Self {
            live,
            number,
            listener,
            events,
        }
    }

    /// The next event; `None` if the process stops.
    pub(crate) async fn next(&mut self) -> Option<LiveEvent> {
        let lost = self.listener.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            return Some(LiveEvent::Lost(lost));
        }
        tokio::select! {
            biased;
            () = self.live.stop.cancelled() => None,
            event = self.events.recv() => event.map(LiveEvent::Click),
            () = tokio::time::sleep(BEAT) => Some(LiveEvent::Beat),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.live.remove(self.number);
    }
}

/// A click as listeners get it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LiveClick<'a> {
    at: String,
    /// How many clicks of the link; more than one only of those of which nothing else is known.
    count: u64,
    short_code: &'a str,
    domain: &'a str,
    tags: &'a [String],
    #[serde(flatten)]
    visitor: Option<VisitorView<'a>>,
}

/// The JSON of a click.
pub(super) fn show(click: &Click) -> Arc<str> {
    let (domain, short_code) = click.key.split_once('/').unwrap_or_default();
    let view = LiveClick {
        at: timestamp::from_seconds(click.at),
        count: click.count,
        short_code,
        domain,
        tags: &click.tags,
        visitor: click.described.as_deref().map(VisitorView::new),
    };
    serde_json::to_string(&view).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::Described;

    fn filter() -> ListenerFilter {
        ListenerFilter {
            scope: Scope::tenant(1),
            link_id: None,
            domain: None,
            tags: Vec::new(),
        }
    }

    fn click() -> Click {
        Click {
            at: 1_767_225_600,
            count: 1,
            link_id: 7,
            tenant_id: 1,
            domain_id: 3,
            key: "go.example/abc".into(),
            tags: ["summer".to_owned()].into(),
            described: Some(Box::new(Described {
                status: 302,
                country: "DE".into(),
                visitor: Some(1),
                ..Described::default()
            })),
        }
    }

    #[test]
    fn a_listener_gets_what_it_wants_of_what_it_may_see() {
        let domain = |name: &str| Domain::parse(name).unwrap();
        let wants = |change: &dyn Fn(&mut ListenerFilter)| {
            let mut filter = filter();
            change(&mut filter);
            Listener::new(filter).0.wants(&click(), Some(5))
        };
        assert!(wants(&|_| {}));
        assert!(wants(&|filter| filter.link_id = Some(7)));
        assert!(!wants(&|filter| filter.link_id = Some(8)));
        assert!(wants(&|filter| filter.domain = Some(domain("go.example"))));
        assert!(!wants(&|filter| filter.domain = Some(domain("o.example"))));
        assert!(wants(
            &|filter| filter.tags = vec!["a".into(), "summer".into()]
        ));
        assert!(!wants(&|filter| filter.tags = vec!["a".into()]));
        assert!(!wants(&|filter| filter.scope.tenant_id = 2));
        assert!(wants(&|filter| filter.scope.owner_id = Some(5)));
        assert!(!wants(&|filter| filter.scope.owner_id = Some(6)));
        assert!(!wants(&|filter| filter.scope.tags = vec!["a".into()]));
        assert!(!wants(
            &|filter| filter.scope.domains = vec![domain("o.example")]
        ));
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_how_many_it_has_lost() {
        let live = Live::new(None);
        let mut subscription = live.add(filter()).unwrap();
        let clicks = vec![click(); MAX_WAITING + 3];
        live.deliver(&clicks, &Default::default());
        assert_eq!(subscription.next().await, Some(LiveEvent::Lost(3)));
        for _ in 0..MAX_WAITING {
            let event = subscription.next().await;
            assert!(matches!(event, Some(LiveEvent::Click(_))), "{event:?}");
        }
        live.shutdown();
        assert_eq!(subscription.next().await, None);
    }

    #[tokio::test]
    async fn the_number_of_listeners_is_bounded_and_places_come_back() {
        let live = Live::new(None);
        let mut all: Vec<Subscription> = Vec::new();
        for _ in 0..super::super::MAX_LISTENERS {
            all.push(live.add(filter()).unwrap());
        }
        assert!(live.add(filter()).is_err());
        all.pop();
        assert!(live.add(filter()).is_ok());
    }

    #[test]
    fn an_event_has_neither_address_nor_token() {
        let view: serde_json::Value = serde_json::from_str(&show(&click())).unwrap();
        assert_eq!(view["shortCode"], "abc");
        assert_eq!(view["country"], "DE");
        assert_eq!(view["status"], 302);
        let members: Vec<&String> = view.as_object().unwrap().keys().collect();
        assert!(
            !members
                .iter()
                .any(|name| name.contains("visitor") || name.contains("token"))
        );
    }
}
