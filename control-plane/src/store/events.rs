//! Events of links, for webhooks. They are written in the transaction of the change: a delivery for each webhook that wants the event.
//!
//! Which webhooks there are is read at most every [`MAX_AGE`] and kept in between, so that changes of tenants without webhooks cost
//! nothing. A process therefore may miss events of a webhook that another process has made or activated less than that ago.

use super::error::Fault;
use super::session::Session;
use super::sql::{LONGEST, Value, insert_literally, pieces, sql};
use crate::links::model::Link;
use crate::timestamp;
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long the list of webhooks counts.
pub const MAX_AGE: Duration = Duration::from_secs(2);

/// What happens to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It is there, or again.
    Created,
    /// A property of it has changed.
    Changed,
    /// It is gone from its place.
    Deleted,
    /// It has had as many visits as it may.
    LimitReached,
}

impl LinkEvent {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Created,
        Self::Changed,
        Self::Deleted,
        Self::LimitReached,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "link.created",
            Self::Changed => "link.changed",
            Self::Deleted => "link.deleted",
            Self::LimitReached => "link.limit-reached",
        }
    }

    /// The event of that word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }

    /// Its bit in the column `events`.
    pub(super) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Shows a link as the API does.
pub type ShowLink = Arc<dyn Fn(&Link) -> Json + Send + Sync>;

/// What events need beside the session of their change.
pub(super) struct Events {
    show: ShowLink,
    known: Mutex<Option<Known>>,
    written: Notify,
}

/// The active webhooks, as they were read.
#[derive(Clone)]
struct Known {
    read_at: Instant,
    subscribers: Arc<[Subscriber]>,
}

/// An active webhook.
#[derive(Clone, Copy, Debug, sqlx_macros::FromRow)]
struct Subscriber {
    id: u64,
    tenant_id: u32,
    events: u32,
}

impl Events {
    /// Events that say of a link what `show` makes of it.
    pub(super) fn new(show: ShowLink) -> Self {
        Self {
            show,
            known: Mutex::default(),
            written: Notify::new(),
        }
    }

    /// Waits until this process has written an event, or changed a webhook.
    pub(super) async fn written(&self) {
        self.written.notified().await;
    }

    /// Makes the next event ask which webhooks there are.
    pub(super) fn forget_webhooks(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.written.notify_one();
    }

    /// Reads which webhooks there are, unless that is known. To be called before events are written.
    pub(super) async fn refresh(&self, session: &mut Session) -> Result<(), Fault> {
        let is_fresh = |known: &Known| known.read_at.elapsed() < MAX_AGE;
        if self.known().as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        let read_at = Instant::now();
        let index = session.dialect().force_index("webhooks_by_state");
        let query = sql(format!(
            "SELECT id, tenant_id, events FROM webhooks{index} WHERE state = 'active' ORDER BY id"
        ));
        let rows: Vec<Subscriber> = session.fetch_all(query).await?;
        let known = Known {
            read_at,
            subscribers: rows.into(),
        };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(())
    }

    fn known(&self) -> Option<Known> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The deliveries of an event of several links at `now`, unix milliseconds; none without webhooks that want it.
    pub(super) fn deliveries<'l>(
        &self,
        now: u64,
        events: impl IntoIterator<Item = (LinkEvent, &'l Link)>,
    ) -> NewDeliveries {
        let mut deliveries = NewDeliveries::default();
        let Some(known) = self.known().filter(|known| !known.subscribers.is_empty()) else {
            return deliveries;
        };
        for (event, link) in events {
            let wants = |one: &&Subscriber| {
                one.tenant_id == link.tenant_id && one.events & event.bit() != 0
            };
            let mut wanted = known.subscribers.iter().filter(wants).peekable();
            if wanted.peek().is_none() {
                continue;
            }
            let body = body(event.word(), now, &(self.show)(link));
            deliveries.0.extend(wanted.map(|subscriber| NewDelivery {
                webhook_id: subscriber.id,
                event: event.word(),
                message_id: message_id(),
                body: body.clone(),
                now,
            }));
        }
        if !deliveries.0.is_empty() {
            // It may be found only after the commit: the next look comes soon in any case.
            self.written.notify_one();
        }
        deliveries
    }

    /// Writes an event of each of these links as a part of the transaction of their change.
    pub(super) async fn append(
        &self,
        session: &mut Session,
        now: u64,
        events: &[(LinkEvent, &Link)],
        max_bytes: usize,
    ) -> Result<(), Fault> {
        self.refresh(session).await?;
        let deliveries = self.deliveries(now, events.iter().copied());
        deliveries.write(session, max_bytes).await
    }
}

/// What is sent of an event.
pub(super) fn body(event: &str, now: u64, data: &Json) -> String {
    json!({ "type": event, "timestamp": timestamp::from_millis(now), "data": data }).to_string()
}

/// An id for a message, which no other one has.
pub(super) fn message_id() -> String {
    format!("msg_{:032x}", rand::random::<u128>())
}

/// Deliveries that a transaction writes.
#[derive(Debug, Default)]
pub(super) struct NewDeliveries(Vec<NewDelivery>);

#[derive(Debug)]
pub(super) struct NewDelivery {
    pub(super) webhook_id: u64,
    pub(super) event: &'static str,
    pub(super) message_id: String,
    pub(super) body: String,
    pub(super) now: u64,
}

const INSERT: &str = "INSERT INTO webhook_deliveries (webhook_id, waiting, event, message_id, body, state, created_at, next_at) ";

impl NewDelivery {
    fn values(&self) -> [Value<'_>; 8] {
        [
            self.webhook_id.into(),
            self.webhook_id.into(),
            self.event.into(),
            self.message_id.as_str().into(),
            Value::Text(&self.body),
            "pending".into(),
            self.now.into(),
            self.now.into(),
        ]
    }

    fn wire_size(&self) -> usize {
        const OTHERS: usize = 256;
        OTHERS + self.body.len()
    }
}

impl NewDeliveries {
    /// One delivery.
    pub(super) fn one(delivery: NewDelivery) -> Self {
        Self(vec![delivery])
    }

    /// About how many bytes a statement takes with all of them.
    pub(super) fn wire_size(&self) -> usize {
        self.0.iter().map(NewDelivery::wire_size).sum()
    }

    /// Appends the statement that adds all of them to a text; nothing if there are none.
    pub(super) fn insert_literally(&self, text: &mut String) {
        if !self.0.is_empty() {
            insert_literally(text, INSERT, self.0.iter().map(NewDelivery::values));
            text.push_str("; ");
        }
    }

    /// Adds them. Part of a transaction. One statement takes up to `max_bytes`, or one delivery.
    pub(super) async fn write(&self, session: &mut Session, max_bytes: usize) -> Result<(), Fault> {
        let largest = self.0.iter().map(NewDelivery::wire_size).max();
        let at_once = (max_bytes / largest.unwrap_or(1)).clamp(1, LONGEST);
        for piece in self.0.chunks(at_once).flat_map(pieces) {
            let rows = piece.iter().map(NewDelivery::values);
            session.execute(sql(INSERT).rows(rows)).await?;
        }
        Ok(())
    }
}
