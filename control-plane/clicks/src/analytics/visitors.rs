//! Secrets of visitor tokens: a random one for each UTC day, shared by all workers of all edges and all control planes during that
//! day, and destroyed after it.
//!
//! The control plane that first needs a secret creates it, and the next day's from an hour before midnight on. After the end of a day,
//! each control plane drops its copy and removes the one in the database ([`edgelink_store`]). Days follow this process's clock.

use edgelink_click_store::{ClickStore, DAY};
use edgelink_model::clock;
use edgelink_model::memory::wiping_stack;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_store::StoreError;
use edgelink_wire::clicks::visitor_keys::{MAX_KEYS, VisitorKey, VisitorKeys};
use edgelink_wire::clicks::visitor_token;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Seconds before a day from which its secret is handed out.
const AHEAD: u64 = 3600;

/// Interval between looks at the clock.
const TICK: Duration = Duration::from_secs(1);

/// Pause before the database is asked again after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// This process's copies of the visitor secrets.
pub struct VisitorSecrets {
    store: ClickStore,
    held: Mutex<Arc<VisitorKeys>>,
    /// Locked while the database is asked; holds the time of its last failure.
    asking: tokio::sync::Mutex<Option<Instant>>,
    /// Set if this process makes tokens itself.
    makes_tokens: AtomicBool,
}

/// The days (unix time / 86400) whose secrets are handed out at `now`, in unix seconds.
fn days_at(now: u64) -> RangeInclusive<u64> {
    now / DAY..=(now + AHEAD) / DAY
}

impl VisitorSecrets {
    /// Creates an empty set of copies. Secrets are read from `store` when they are first needed.
    pub fn new(store: ClickStore) -> Self {
        Self {
            store,
            held: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            makes_tokens: AtomicBool::new(false),
        }
    }

    /// The secrets that are valid at or after `now` (unix seconds) and beyond `until`; `None` if there are none, or the database
    /// fails.
    pub async fn later_than(&self, until: u64, now: u64) -> Option<VisitorKeys> {
        if until >= (days_at(now).end() + 1) * DAY {
            return None;
        }
        let held = self.at(now).await;
        let later = wiping_stack(|| later_than(&held, until.max(now)));
        (!later.all().is_empty()).then_some(later)
    }

    /// Makes the token of a visitor; `None` without a secret.
    pub fn token(&self, now: u64, address: IpAddr, user_agent: &[u8]) -> Option<u64> {
        self.makes_tokens.store(true, Ordering::Relaxed);
        let held = self.held();
        let key = held.at(now)?;
        Some(wiping_stack(|| {
            visitor_token(&key.secret, address, user_agent)
        }))
    }

    /// Fetches secrets in time if this process makes tokens, and drops expired ones, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut forgotten = 0;
        while !stop.is_cancelled() {
            let now = clock::unix_seconds();
            self.drop_old(now);
            if self.makes_tokens.load(Ordering::Relaxed) {
                self.at(now).await;
            }
            let pause = match self.forget_stored(now / DAY, &mut forgotten).await {
                Ok(()) => TICK,
                Err(error) => {
                    log_failure(&error);
                    PAUSE
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn forget_stored(&self, today: u64, forgotten: &mut u64) -> Result<(), StoreError> {
        if today > *forgotten {
            let removed = self.store.forget_visitor_secrets(today).await?;
            *forgotten = today;
            if removed > 0 {
                tracing::info!(removed, "removed expired visitor secrets");
            }
        }
        Ok(())
    }

    fn held(&self) -> Arc<VisitorKeys> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&held)
    }

    fn hold(&self, keys: Arc<VisitorKeys>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Drops all secrets if one has expired. Valid ones are read again: moving them would leave copies behind.
    fn drop_old(&self, now: u64) {
        if self.held().all().iter().any(|key| key.until <= now) {
            self.hold(Arc::default());
        }
    }

    /// The secrets that are handed out at `now`, or the held ones if the database fails.
    async fn at(&self, now: u64) -> Arc<VisitorKeys> {
        let days = days_at(now);
        let is_complete =
            |keys: &VisitorKeys| keys.at(now).is_some() && keys.until() >= (days.end() + 1) * DAY;
        let held = self.held();
        if is_complete(&held) {
            return held;
        }
        let mut failed = self.asking.lock().await;
        let held = self.held();
        if is_complete(&held) || failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return held;
        }
        match self.store.visitor_keys(days).await {
            Ok(keys) => {
                *failed = None;
                self.hold(Arc::clone(&keys));
                keys
            }
            Err(error) => {
                *failed = Some(Instant::now());
                log_failure(&error);
                held
            }
        }
    }
}

/// Copies the secrets that are valid beyond `until`.
fn later_than(keys: &VisitorKeys, until: u64) -> VisitorKeys {
    // Allocated in full, because growing would leave copies behind.
    let mut later = Vec::with_capacity(MAX_KEYS);
    let is_later = |key: &&VisitorKey| key.until > until;
    later.extend(keys.all().iter().filter(is_later).cloned());
    VisitorKeys::new(later)
}

fn log_failure(error: &StoreError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(
            error,
            left_out,
            "reading or removing visitor secrets failed; retrying"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::config::StoreConfig;
    use tempfile::TempDir;

    const NOON: u64 = 20_000 * DAY + DAY / 2;

    async fn visitors() -> (TempDir, VisitorSecrets) {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("links.db").display());
        let store = edgelink_store::open_store(&StoreConfig::at(&url)).await;
        (
            directory,
            VisitorSecrets::new(store.expect("a store").clicks().clone()),
        )
    }

    #[tokio::test]
    async fn worker_when_it_lacks_a_secret_gets_it_an_hour_ahead() {
        let (_directory, visitors) = visitors().await;
        let today = visitors.later_than(0, NOON).await.expect("a secret");
        assert_eq!(today.all().len(), 1);
        let midnight = 20_001 * DAY;
        assert_eq!(today.until(), midnight);
        assert_eq!(visitors.later_than(midnight, NOON).await, None);
        assert_eq!(
            visitors.later_than(midnight, midnight - AHEAD - 1).await,
            None
        );
        let tomorrow = visitors.later_than(midnight, midnight - AHEAD).await;
        let tomorrow = tomorrow.expect("a secret");
        assert_eq!(
            (tomorrow.all()[0].from, tomorrow.until()),
            (midnight, midnight + DAY)
        );
        let both = visitors.later_than(0, midnight - 1).await.expect("secrets");
        assert_eq!(both.at(NOON), today.at(NOON));
        assert_eq!(both.at(midnight), tomorrow.at(midnight));
    }

    #[tokio::test]
    async fn secret_when_expired_is_dropped() {
        let (_directory, visitors) = visitors().await;
        let other = VisitorSecrets::new(visitors.store.clone());
        let today = visitors.later_than(0, NOON).await.expect("a secret");
        assert_eq!(other.later_than(0, NOON).await, Some(today));
        visitors.drop_old(20_001 * DAY - 1);
        assert_eq!(visitors.held().all().len(), 1);
        visitors.drop_old(20_001 * DAY);
        assert_eq!(visitors.held().all().len(), 0);
    }

    #[tokio::test]
    async fn token_when_secret_is_known_equals_that_of_edges() {
        let (_directory, visitors) = visitors().await;
        let address = [192, 0, 2, 1].into();
        assert_eq!(visitors.token(NOON, address, b"x"), None);
        let keys = visitors.later_than(0, NOON).await.expect("a secret");
        let key = keys.at(NOON).expect("a secret");
        let token = visitor_token(&key.secret, address, b"x");
        assert_eq!(visitors.token(NOON, address, b"x"), Some(token));
        assert_eq!(visitors.token(NOON + DAY, address, b"x"), None);
    }
}
