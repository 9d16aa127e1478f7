//! The store, and how a call of it is made: measured, bounded in time, and retried where the database allows it.

use super::domains::{self, Configured, DomainKeys};
use super::error::{Fault, Remedy, StoreError};
use super::events::Events;
use super::newest::NewestRow;
use super::revisions::{LastRevisions, Revisions};
use super::secret_place::SecretPlace;
use super::session::{Pool, Session};
use crate::clock;
use crate::telemetry::prometheus::{STORE_ERRORS, STORE_SECONDS};
use edgelink_wire::backoff::Bounds;
use edgelink_wire::{Domain, LinkKey};
use metrics::{counter, histogram};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::time::Instant;

/// A database that owns the truth.
///
/// Every method is one transaction: it is committed when it returns `Ok`, and possibly committed after an error that
/// [`StoreError::is_transient`]. Every creation, change and deletion of a link writes the outbox in the same
/// transaction, but for changes of tags alone by [`Store::replace_tag`], which edges do not get.
///
/// Each operation is one method, with its SQL, in the file of its subject. It runs its statements on a [`Session`], which
/// [`run`] lends it, and what differs between databases is in [`super::dialect::Dialect`].
#[derive(Clone)]
pub struct Store {
    readers: Pool,
    writers: Pool,
    statement_timeout: Duration,
    /// The most bytes of one INSERT, which follow the server's settings.
    pub(super) max_bytes: Arc<AtomicUsize>,
    pub(super) domains: Arc<DomainKeys>,
    pub(super) last_revisions: Arc<LastRevisions>,
    pub(super) newest: Arc<NewestRow>,
    on_change: Option<OnChange>,
    /// The domains that no tenant has made.
    pub(super) configured: Configured,
    /// What writes events for webhooks; `None` if there are none.
    pub(super) events: Option<Arc<Events>>,
    /// Where secrets of visitor tokens are kept.
    pub(super) secrets: SecretPlace,
}

/// A listener for the keys of links that may have changed; see [`Store::with_listener`].
pub type OnChange = Arc<dyn Fn(&[LinkKey]) + Send + Sync>;

/// The most attempts of a call that the database undoes. Attempts on dead connections do not count: after a restart of
/// the server every idle one is dead, and there are only so many.
const MAX_ATTEMPTS: u32 = 5;

/// The pauses before retries of transactions that deadlocked.
const PAUSES: Bounds = Bounds {
    first_millis: 4,
    cap_millis: 50,
};

/// Makes a call: runs its body on a session, and retries on another one where that helps. Boxed, as the futures of
/// drivers are large.
macro_rules! run {
    ($call:expr, |$session:ident| $body:expr) => {
        Box::pin(async {
            let mut call = $call;
            loop {
                let mut opened = call.open().await?;
                let answer: Result<_, $crate::store::error::Fault> = async {
                    let $session = &mut opened;
                    $body
                }
                .await;
                if let Some(outcome) = call.close(opened, answer).await {
                    break outcome;
                }
            }
        })
        .await
    };
}
pub(super) use run;

impl Store {
    /// A store over these connections.
    pub(super) fn new(
        readers: Pool,
        writers: Pool,
        statement_timeout: Duration,
        max_bytes: Arc<AtomicUsize>,
        secrets: SecretPlace,
    ) -> Self {
        Self {
            readers,
            writers,
            statement_timeout,
            max_bytes,
            domains: Arc::default(),
            last_revisions: Arc::default(),
            newest: Arc::default(),
            on_change: None,
            configured: None,
            events: None,
            secrets,
        }
    }

    /// The same store, which calls `on_change` after each call that may have changed links, even if it has failed. The
    /// purge of expired links gives no keys.
    #[must_use]
    pub fn with_listener(&self, on_change: OnChange) -> Arc<Self> {
        Arc::new(Self {
            on_change: Some(on_change),
            ..self.clone()
        })
    }

    /// The same store, which refuses new links on domains that their tenant does not have, but for these.
    #[must_use]
    pub fn with_configured_domains(&self, domains: &[Domain]) -> Arc<Self> {
        Arc::new(Self {
            configured: Some(domains.into()),
            ..self.clone()
        })
    }

    /// Calls the listener, if there is one.
    pub(super) fn notify_listener(&self, keys: &[LinkKey]) {
        if let Some(on_change) = &self.on_change {
            on_change(keys);
        }
    }

    /// A call that only reads: its name in metrics, and what it does in errors.
    pub(super) fn read(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.call(&self.readers, operation, context)
    }

    /// A call that may write.
    pub(super) fn write(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.call(&self.writers, operation, context)
    }

    /// How long a statement may take.
    pub(super) fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// The database's clock, unix milliseconds.
    pub(super) async fn now(&self) -> Result<u64, StoreError> {
        if let Some(guess) = self.last_revisions.guess() {
            return Ok(guess.now_millis());
        }
        let call = self.read("now", "asking for the time");
        let revisions = run!(call, |session| Revisions::read(session).await)?;
        self.last_revisions.note(revisions);
        Ok(revisions.now_millis())
    }

    /// The key of a domain; `None` if there never was a link on it.
    pub async fn find_domain_key(&self, domain: &Domain) -> Result<Option<u32>, StoreError> {
        let call = self.read("find_domain", "finding a domain");
        run!(call, |session| domains::find(session, domain).await)
    }

    /// The key that a domain had when it was read last, for a transaction that checks it. One that is not remembered is read, and
    /// added if it is missing.
    pub(super) async fn remembered_domain_key(&self, domain: &Domain) -> Result<u32, StoreError> {
        if let Some(id) = self.domains.get(domain) {
            return Ok(id);
        }
        let call = self.write("add_domain", "adding a domain");
        let token = self.newest.token();
        let id = run!(call, |session| domains::add(session, domain, token).await)?;
        self.domains.insert(domain.clone(), id);
        Ok(id)
    }

    fn call<'s>(&self, pool: &'s Pool, operation: &'static str, context: &'static str) -> Call<'s> {
        Call {
            pool,
            timeout: self.statement_timeout,
            operation,
            context,
            started: Instant::now(),
            attempts: 1,
            dead: 0,
        }
    }
}

/// A call under way.
pub(super) struct Call<'s> {
    pool: &'s Pool,
    timeout: Duration,
    operation: &'static str,
    context: &'static str,
    started: Instant,
    attempts: u32,
    dead: u32,
}

impl Call<'_> {
    /// A session for the next attempt.
    pub(super) async fn open(&self) -> Result<Session, StoreError> {
        match Session::open(self.pool, self.timeout, self.operation).await {
            Ok(session) => Ok(session),
            Err(fault) => {
                self.note(&fault);
                self.finish(Err(fault))
            }
        }
    }

    /// The outcome of the call after an attempt; `None` if it is to be retried. The connection is kept if the database
    /// has only refused the transaction.
    pub(super) async fn close<T>(
        &mut self,
        mut session: Session,
        answer: Result<T, Fault>,
    ) -> Option<Result<T, StoreError>> {
        let answer = match answer {
            Err(fault) if fault.is_missing_table() && !session.has_database().await => {
                Err(Fault::NoDatabase)
            }
            answer => answer,
        };
        let Err(fault) = &answer else {
            session.return_to_pool();
            return Some(self.finish(answer));
        };
        session.note_failure(fault);
        let remedy = fault.remedy();
        self.note(fault);
        match remedy {
            Remedy::Retry if session.rollback().await.is_ok() => {
                session.return_to_pool();
                if self.is_in_time() && self.attempts < MAX_ATTEMPTS {
                    tokio::time::sleep(clock::pause_after(self.attempts, PAUSES)).await;
                    self.attempts += 1;
                    return None;
                }
            }
            Remedy::Reconnect if session.may_retry() && self.may_reconnect() => {
                self.dead += 1;
                return None;
            }
            _ => {}
        }
        Some(self.finish(answer))
    }

    /// Has the next call look for another server where this failure may be the end of the one in use.
    fn note(&self, fault: &Fault) {
        if fault.is_suspicious() {
            self.pool.suspect();
        }
    }

    fn is_in_time(&self) -> bool {
        self.started.elapsed() < self.timeout
    }

    fn may_reconnect(&self) -> bool {
        self.is_in_time() && self.dead < self.pool.max_connections()
    }

    /// Measures how long the call took and whether it failed.
    fn finish<T>(&self, answer: Result<T, Fault>) -> Result<T, StoreError> {
        let operation = self.operation;
        histogram!(STORE_SECONDS, "operation" => operation).record(self.started.elapsed());
        answer.map_err(|fault| {
            let remedy = fault.remedy();
            let transient = remedy.is_transient().to_string();
            counter!(STORE_ERRORS, "operation" => operation, "transient" => transient).increment(1);
            fault.into_error(self.context, remedy)
        })
    }
}
