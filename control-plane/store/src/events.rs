//! Events of links, for webhooks. They are written in the transaction of the change: a delivery for each subscribed webhook.
//!
//! The list of webhooks is read at most every [`MAX_AGE`] and cached in between, so that changes of tenants without webhooks cost
//! nothing. Creating or activating a webhook therefore takes effect in all processes only after that time.

use edgelink_database::Database;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, StatementForm, Value, insert_literally, sql};
use edgelink_model::links::model::Link;
use edgelink_model::timestamp;
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum age of the cached list of webhooks.
pub const MAX_AGE: Duration = Duration::from_secs(1);

/// An event in the life of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It was created, or restored.
    Created,
    /// A property of it has changed.
    Changed,
    /// It was deleted, or has moved away.
    Deleted,
    /// It has reached its limit of uses.
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

    /// The event with this word.
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

/// Context for writing events, besides the session of their change.
pub(super) struct EventWriter {
    show: ShowLink,
    /// Bounds the bytes of a statement.
    db: Database,
    known: Mutex<SubscriberCache>,
    written: Notify,
}

/// Cache of the active webhooks.
#[derive(Default)]
struct SubscriberCache {
    /// The time at which they were read, and the webhooks.
    subscribers: Option<(Instant, Subscribers)>,
    /// Incremented whenever the cache is cleared.
    generation: u64,
}

/// Active webhooks, ordered by tenant.
#[derive(Clone)]
pub(super) struct Subscribers(Arc<[Subscriber]>);

/// An active webhook.
#[derive(Clone, Copy, Debug, sqlx_macros::FromRow)]
struct Subscriber {
    id: u64,
    tenant_id: u32,
    events: u32,
}

impl Subscribers {
    /// The webhooks of a tenant subscribed to an event.
    fn of(&self, tenant_id: u32, event: LinkEvent) -> impl Iterator<Item = &Subscriber> {
        let first = self.0.partition_point(|one| one.tenant_id < tenant_id);
        let own = self.0[first..]
            .iter()
            .take_while(move |one| one.tenant_id == tenant_id);
        own.filter(move |one| one.events & event.bit() != 0)
    }
}

impl EventWriter {
    /// Events that present a link through `show`.
    pub(super) fn new(show: ShowLink, db: Database) -> Self {
        Self {
            show,
            db,
            known: Mutex::default(),
            written: Notify::new(),
        }
    }

    /// Waits until this process has written an event, or changed a webhook.
    pub(super) async fn written(&self) {
        self.written.notified().await;
    }

    /// Makes the deliverer of this process look for deliveries.
    pub(super) fn notify(&self) {
        self.written.notify_one();
    }

    /// Clears the cache, so that the next event reads the webhooks.
    pub(super) fn forget_webhooks(&self) {
        let mut known = self.known();
        known.generation += 1;
        known.subscribers = None;
        drop(known);
        self.notify();
    }

    /// The active webhooks as they were [`MAX_AGE`] ago, or later.
    pub(super) async fn subscribers(&self, session: &mut Session) -> Result<Subscribers, Fault> {
        let generation = {
            let known = self.known();
            let fresh = known.subscribers.as_ref();
            if let Some((_, subscribers)) = fresh.filter(|(read, _)| read.elapsed() < MAX_AGE) {
                return Ok(subscribers.clone());
            }
            known.generation
        };
        let read_at = Instant::now();
        let index = session.dialect().force_index("webhooks_by_state");
        let query = sql(format!(
            "SELECT id, tenant_id, events FROM webhooks{index} WHERE state = 'active'"
        ));
        let mut rows: Vec<Subscriber> = session.fetch_all(query).await?;
        rows.sort_unstable_by_key(|one| (one.tenant_id, one.id));
        let subscribers = Subscribers(rows.into());
        let mut known = self.known();
        // A webhook that was changed since may be missing.
        if known.generation == generation {
            known.subscribers = Some((read_at, subscribers.clone()));
        }
        Ok(subscribers)
    }

    fn known(&self) -> MutexGuard<'_, SubscriberCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The deliveries of events of links at `now`, in unix milliseconds; none without subscribed webhooks.
    pub(super) fn deliveries<'l>(
        &self,
        subscribers: &Subscribers,
        now: u64,
        events: impl IntoIterator<Item = (LinkEvent, &'l Link)>,
    ) -> NewDeliveries {
        let mut deliveries = NewDeliveries::default();
        if subscribers.0.is_empty() {
            return deliveries;
        }
        for (event, link) in events {
            let mut wanted = subscribers.of(link.tenant_id, event).peekable();
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
            // They become visible only with the commit, but the next poll follows soon in any case.
            self.notify();
        }
        deliveries
    }

    /// Writes these events as a part of the transaction of their change.
    pub(super) async fn append<'l>(
        &self,
        session: &mut Session,
        now: u64,
        events: impl IntoIterator<Item = (LinkEvent, &'l Link)>,
    ) -> Result<(), Fault> {
        let subscribers = self.subscribers(session).await?;
        let deliveries = self.deliveries(&subscribers, now, events);
        let max_bytes = self.db.max_bytes();
        deliveries.write(session, max_bytes).await
    }
}

/// The body sent for an event.
pub(super) fn body(event: &str, now: u64, data: &Json) -> String {
    json!({ "type": event, "timestamp": timestamp::from_millis(now), "data": data }).to_string()
}

/// A unique id for a message.
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

    /// Approximate number of bytes of a statement with all of them.
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
        for addition in self.additions(StatementForm::Prepared, max_bytes) {
            session.execute(addition).await?;
        }
        Ok(())
    }

    /// The statements that add them, each with up to `max_bytes`, or one delivery.
    pub(super) fn additions(
        &self,
        form: StatementForm,
        max_bytes: usize,
    ) -> impl Iterator<Item = Sql<'_>> {
        let largest = self.0.iter().map(NewDelivery::wire_size).max();
        let parts = form.cut(&self.0, max_bytes / largest.unwrap_or(1));
        parts.map(|part| sql(INSERT).rows(part.iter().map(NewDelivery::values)))
    }
}
