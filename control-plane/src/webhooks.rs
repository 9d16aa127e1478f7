//! Webhooks: sends events of links to where tenants want them.
//!
//! One process at a time delivers, the holder of a lease. Each delivery is a row of the database until it has succeeded, or was attempted
//! as often as it may be: so each event arrives at least once, with an id that is the same at each attempt. Webhooks do not wait for each
//! other: each is worked on by a task of its own.

mod addresses;
mod sender;
mod signature;

pub(crate) use sender::Destination;
pub(crate) use signature::{new_secret, secret_text};

use crate::clock;
use crate::config::WebhooksConfig;
use crate::store::{Attempt, Delivery, Store, StoreError, WebhookRow};
use crate::telemetry::prometheus::{WEBHOOK_AGE, WEBHOOK_ATTEMPTS, WEBHOOKS_DISABLED};
use futures_util::StreamExt;
use futures_util::stream::iter;
use metrics::{counter, gauge};
use sender::Sender;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The name of the lease, as the migrations have it.
const LEASE: &str = "webhooks";

/// How long the lease lasts. It is renewed after a third of this.
const LEASE_TIME: Duration = Duration::from_secs(15);

/// How often due deliveries are looked for, beside when this process has written an event.
const POLL: Duration = Duration::from_millis(500);

/// Deliveries that the task of a webhook takes.
const BATCH: u32 = 64;

/// Attempts of a webhook at once.
const ATTEMPTS_AT_ONCE: usize = 4;

/// Delivers what is due.
pub struct Deliverer {
    work: Arc<Work>,
    lease: Lease,
    busy: HashMap<Id, u64>,
    tasks: JoinSet<()>,
}

/// What the tasks of webhooks share.
struct Work {
    store: Arc<Store>,
    sender: Sender,
    settings: WebhooksConfig,
}

impl Deliverer {
    /// A deliverer that holds the lease under a name of its own; `None` if there are no webhooks.
    ///
    /// # Errors
    /// The system's certificates cannot be read.
    pub fn new(store: Arc<Store>, settings: &WebhooksConfig) -> io::Result<Option<Self>> {
        if !settings.is_on() {
            return Ok(None);
        }
        let work = Work {
            sender: Sender::new(settings)?,
            settings: settings.clone(),
            store: store.clone(),
        };
        Ok(Some(Self {
            work: Arc::new(work),
            lease: Lease::new(store),
            busy: HashMap::new(),
            tasks: JoinSet::new(),
        }))
    }

    /// Delivers until `stop`. Attempts that are under way then are made again by the next holder of the lease.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(done) = self.tasks.join_next_with_id() => {
                    let id = done.map_or_else(|error| error.id(), |(id, ())| id);
                    self.busy.remove(&id);
                }
                () = self.work.store.event_written() => {}
                () = tokio::time::sleep(POLL) => {}
            }
            if let Err(error) = self.start_due().await {
                tracing::warn!(%error, "looking for deliveries to webhooks failed: it is retried");
                tokio::time::sleep(POLL).await;
            }
        }
        self.tasks.shutdown().await;
        self.lease.release().await;
    }

    /// Starts a task for each webhook that has something to be delivered and is not worked on.
    async fn start_due(&mut self) -> Result<(), StoreError> {
        if !self.lease.hold().await? {
            return Ok(());
        }
        let free = usize::try_from(self.work.settings.max_concurrent).unwrap_or(1);
        let free = free.saturating_sub(self.busy.len());
        let Some(free) = u32::try_from(free).ok().filter(|free| *free > 0) else {
            return Ok(());
        };
        let busy: Vec<u64> = self.busy.values().copied().collect();
        for webhook in self.work.store.due_webhooks(&busy, free).await? {
            let (work, id) = (Arc::clone(&self.work), webhook.id);
            let task = self
                .tasks
                .spawn(async move { work.deliver_due(&webhook).await });
            self.busy.insert(task.id(), id);
        }
        Ok(())
    }
}

impl Work {
    /// Attempts what is due of a webhook.
    async fn deliver_due(&self, webhook: &WebhookRow) {
        let due = match self.store.due_deliveries(webhook.id, BATCH).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, webhook = webhook.id, "reading deliveries failed: it is retried");
                return tokio::time::sleep(POLL).await;
            }
        };
        let attempts = iter(due).for_each_concurrent(ATTEMPTS_AT_ONCE, async |delivery| {
            if let Err(error) = self.attempt(webhook, &delivery).await {
                let id = delivery.message_id;
                tracing::warn!(%error, id, "noting a delivery failed: it is made again");
                tokio::time::sleep(POLL).await;
            }
        });
        attempts.await;
    }

    /// Attempts a delivery, and notes what became of it.
    async fn attempt(&self, webhook: &WebhookRow, delivery: &Delivery) -> Result<(), StoreError> {
        let sent = self.sender.send(webhook, delivery).await;
        let failures = delivery.attempts + 1;
        let is_last = failures >= self.settings.max_attempts;
        let pause = clock::pause_after(failures, self.settings.pauses());
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let attempt = Attempt {
            response_status: sent.status,
            retry_in: (sent.error.is_some() && !is_last).then_some(pause),
            error: sent.error,
        };
        let outcome = match (&attempt.error, is_last) {
            (None, _) => "delivered",
            (Some(_), false) => "retried",
            (Some(_), true) => "failed",
        };
        counter!(WEBHOOK_ATTEMPTS, "outcome" => outcome).increment(1);
        let patience = self.settings.disable_after_seconds * 1000;
        let noted = self
            .store
            .note_attempt(webhook, delivery, &attempt, patience);
        if noted.await? {
            counter!(WEBHOOKS_DISABLED).increment(1);
            tracing::warn!(
                webhook = webhook.id,
                tenant = webhook.tenant_id,
                "a webhook is disabled: it has failed for webhooks.disable_after_seconds"
            );
        }
        Ok(())
    }
}

/// The lease of the process that delivers.
struct Lease {
    store: Arc<Store>,
    owner: String,
    until: Option<Instant>,
    ask_at: Instant,
}

impl Lease {
    fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            owner: format!("{}-{:016x}", std::process::id(), rand::random::<u64>()),
            until: None,
            ask_at: Instant::now(),
        }
    }

    /// Whether this process holds the lease; takes or renews it if that is due. Measures what waits as often.
    async fn hold(&mut self) -> Result<bool, StoreError> {
        let now = Instant::now();
        if now >= self.ask_at {
            self.ask_at = now + LEASE_TIME / 3;
            let millis = u64::try_from(LEASE_TIME.as_millis()).unwrap_or(u64::MAX);
            let is_held = self.store.take_lease(LEASE, &self.owner, millis).await?;
            self.until = is_held.then_some(now + LEASE_TIME);
            let age = match is_held {
                true => self.store.oldest_waiting_millis().await?.unwrap_or(0),
                false => 0,
            };
            gauge!(WEBHOOK_AGE).set(Duration::from_millis(age).as_secs_f64());
        }
        Ok(self.until.is_some_and(|until| now < until))
    }

    /// Gives the lease back, so that another process need not wait for its end.
    async fn release(&mut self) {
        if self.until.take().is_none() {
            return;
        }
        if let Err(error) = self.store.release_lease(LEASE, &self.owner).await {
            tracing::warn!(%error, "giving the lease of webhooks back failed: it ends by itself");
        }
    }
}
