//! Webhooks: delivery of link events to the endpoints of tenants.
//!
//! One process at a time delivers, the holder of a lease. Each delivery is a row in the database until it has succeeded or its attempts
//! are exhausted: so events are delivered at least once, with an id that is stable over attempts. A task works on a webhook for a turn,
//! and turns rotate, so that webhooks do not block each other. After several consecutive failures a webhook gets one delivery at a time,
//! with growing pauses, until one succeeds.

mod addresses;
mod sender;
mod signature;

pub use sender::WebhookUrl;
pub use signature::{new_secret, secret_text};

use edgelink_model::clock;
use edgelink_settings::config::WebhooksConfig;
use edgelink_settings::telemetry::prometheus::{WEBHOOK_AGE, WEBHOOK_ATTEMPTS, WEBHOOKS_DISABLED};
use edgelink_store::lease::NamedLease;
use edgelink_store::{
    AttemptOutcome, Delivery, FailurePolicy, MANY_FAILURES, Store, StoreError, WebhookRow,
};
use edgelink_wire::backoff::Bounds;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use metrics::{counter, gauge};
use sender::Sender;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Name of the lease, as in the migrations.
const LEASE: &str = "webhooks";

/// Duration of the lease.
const LEASE_TIME: Duration = Duration::from_secs(15);

/// Interval between polls for due deliveries, in addition to wake-ups by events of this process.
const POLL: Duration = Duration::from_millis(500);

/// Least interval between polls.
const REST: Duration = Duration::from_millis(20);

/// Interval between measurements of pending deliveries.
const MEASURING: Duration = Duration::from_secs(5);

/// Time that a task works on a webhook before the next one's turn.
const TURN: Duration = Duration::from_secs(10);

/// A tenant may have one in this many tasks, and at least one.
const SHARE: u32 = 4;

/// Delivers events to webhooks.
pub struct Deliverer {
    work: Arc<Work>,
    lease: NamedLease,
    measure_at: Instant,
    /// The webhook and tenant of each task.
    busy: HashMap<Id, (u64, u32)>,
    /// The webhook that had its turn last.
    last: u64,
    tasks: JoinSet<()>,
}

/// Shared state of the webhooks' tasks.
struct Work {
    store: Arc<Store>,
    sender: Sender,
    settings: WebhooksConfig,
}

impl Deliverer {
    /// Creates a deliverer that holds the lease under a unique name; `None` if webhooks are off.
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
            store: Arc::clone(&store),
        };
        Ok(Some(Self {
            work: Arc::new(work),
            lease: NamedLease::new(store, LEASE, LEASE_TIME),
            measure_at: Instant::now(),
            busy: HashMap::new(),
            last: 0,
            tasks: JoinSet::new(),
        }))
    }

    /// Delivers until `stop`. Attempts then in progress are repeated by the next holder of the lease.
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
                tracing::warn!(%error, "polling for due webhook deliveries failed; retrying");
                tokio::time::sleep(POLL).await;
            }
            tokio::time::sleep(REST).await;
        }
        self.tasks.shutdown().await;
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "failed to release the webhooks lease; it will expire");
        }
    }

    /// Starts a task for each webhook whose turn it is. Without the lease it ends all tasks.
    async fn start_due(&mut self) -> Result<(), StoreError> {
        let asked = self.lease.hold().await;
        if !self.lease.is_held() {
            self.tasks.abort_all();
            gauge!(WEBHOOK_AGE).set(0.0);
            return asked.map(drop);
        }
        self.measure().await;
        // The webhooks after the last one, then from the first one on.
        for after in [self.last, 0] {
            let free = self.free_tasks();
            if free == 0 {
                break;
            }
            let (busy, tenants) = (self.busy_webhooks(), self.busy_tenants());
            let due = self.work.store.due_webhooks(after, &busy, &tenants, free);
            for webhook in due.await? {
                if !self.busy_tenants().contains(&webhook.tenant_id) {
                    self.start(&webhook);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, webhook: &WebhookRow) {
        let (work, id) = (Arc::clone(&self.work), webhook.id);
        let task = self.tasks.spawn(async move { work.take_turn(id).await });
        self.busy.insert(task.id(), (id, webhook.tenant_id));
        self.last = id;
    }

    fn free_tasks(&self) -> u32 {
        let busy = u32::try_from(self.busy.len()).unwrap_or(u32::MAX);
        self.work.settings.max_concurrent.saturating_sub(busy)
    }

    fn busy_webhooks(&self) -> Vec<u64> {
        self.busy.values().map(|(webhook, _)| *webhook).collect()
    }

    /// Tenants that have their share of all tasks.
    fn busy_tenants(&self) -> Vec<u32> {
        let share = (self.work.settings.max_concurrent / SHARE).max(1);
        let mut tasks: HashMap<u32, u32> = HashMap::new();
        for (_, tenant) in self.busy.values() {
            *tasks.entry(*tenant).or_default() += 1;
        }
        tasks.retain(|_, tasks| *tasks >= share);
        tasks.into_keys().collect()
    }

    async fn measure(&mut self) {
        if Instant::now() < self.measure_at {
            return;
        }
        self.measure_at = Instant::now() + MEASURING;
        match self.work.store.longest_due_millis().await {
            Ok(due) => {
                let due = Duration::from_millis(due.unwrap_or(0));
                gauge!(WEBHOOK_AGE).set(due.as_secs_f64());
            }
            Err(error) => {
                tracing::warn!(%error, "measuring webhook deliveries failed; edgelink_webhook_age_seconds keeps its value");
            }
        }
    }
}

/// True if the endpoint is gone for good: it wants no further requests, as Standard Webhooks has it.
fn is_gone(outcome: &AttemptOutcome) -> bool {
    outcome.response_status == Some(410)
}

impl Work {
    /// Attempts the due deliveries of a webhook, for a turn.
    async fn take_turn(&self, webhook_id: u64) {
        let turn = async {
            self.deliver_due(webhook_id).await?;
            let max = self.settings.max_waiting;
            if self.store.disable_if_full(webhook_id, max).await? {
                counter!(WEBHOOKS_DISABLED, "reason" => "full").increment(1);
                tracing::warn!(
                    webhook_id,
                    "webhook disabled: more than webhooks.max_waiting deliveries wait"
                );
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = turn.await {
            tracing::warn!(%error, webhook_id, "reading or recording webhook deliveries failed; they will be repeated");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Attempts deliveries, some at once, until none is due or the turn ends. The webhook is reread for each few of them.
    async fn deliver_due(&self, webhook_id: u64) -> Result<(), StoreError> {
        let end = Instant::now() + TURN;
        let limit = self.settings.max_attempts_at_once as usize;
        let mut attempts = FuturesUnordered::new();
        let mut under_way: Vec<u64> = Vec::new();
        let mut failures = 0;
        loop {
            if Instant::now() < end {
                let due = self.store.due_deliveries(webhook_id, &under_way, limit);
                if let Some((webhook, due)) = due.await? {
                    failures = webhook.failures;
                    let webhook = Arc::new(webhook);
                    under_way.extend(due.iter().map(|delivery| delivery.id));
                    attempts.extend(due.into_iter().map(|delivery| {
                        let webhook = Arc::clone(&webhook);
                        async move { self.attempt(&webhook, &delivery).await }
                    }));
                }
            }
            let Some(first) = attempts.next().await else {
                return Ok(());
            };
            let mut outcomes = vec![first];
            while let Some(Some(outcome)) = attempts.next().now_or_never() {
                outcomes.push(outcome);
            }
            under_way.retain(|id| outcomes.iter().all(|(done, _)| done != id));
            self.note(webhook_id, failures, &outcomes).await?;
        }
    }

    /// Records the outcomes of attempts, for a webhook with so many consecutive failures before.
    async fn note(
        &self,
        webhook_id: u64,
        failures: u32,
        outcomes: &[(u64, AttemptOutcome)],
    ) -> Result<(), StoreError> {
        let probes = (failures + 1).saturating_sub(MANY_FAILURES).max(1);
        let is_gone = outcomes.iter().any(|(_, outcome)| is_gone(outcome));
        let disable_after = self.settings.disable_after_seconds * 1000;
        let policy = FailurePolicy {
            pause_millis: self.pause(probes, self.settings.longest_probe_pause_ms),
            disable_after_millis: if is_gone { 0 } else { disable_after },
        };
        let noted = self.store.note_attempts(webhook_id, outcomes, policy);
        if noted.await? {
            let reason = if is_gone { "gone" } else { "failing" };
            counter!(WEBHOOKS_DISABLED, "reason" => reason).increment(1);
            tracing::warn!(
                webhook_id,
                reason,
                "webhook disabled: its endpoint is gone, or has failed for webhooks.disable_after_seconds"
            );
        }
        Ok(())
    }

    /// Attempts a delivery, and returns its id and outcome.
    async fn attempt(&self, webhook: &WebhookRow, delivery: &Delivery) -> (u64, AttemptOutcome) {
        let mut outcome = self.sender.send(webhook, delivery).await;
        let failures = delivery.attempts + 1;
        let is_last = failures >= self.settings.max_attempts || is_gone(&outcome);
        // The endpoint may have asked for a longer pause.
        let asked = outcome.retry_in.take();
        if outcome.error.is_some() && !is_last {
            let pause = self.pause(failures, self.settings.longest_pause_ms);
            outcome.retry_in = Some(pause.max(asked.unwrap_or(0)));
        }
        let label = match (&outcome.error, is_last) {
            (None, _) => "delivered",
            (Some(_), false) => "retried",
            (Some(_), true) => "failed",
        };
        counter!(WEBHOOK_ATTEMPTS, "outcome" => label).increment(1);
        (delivery.id, outcome)
    }

    /// The pause after consecutive failures, in milliseconds.
    fn pause(&self, failures: u32, longest: u64) -> u64 {
        let bounds = Bounds {
            first_millis: self.settings.first_pause_ms,
            cap_millis: longest,
        };
        u64::try_from(clock::pause_after(failures, bounds).as_millis()).unwrap_or(u64::MAX)
    }
}
