//! All use cases of a process, over one store.

use crate::accounts::Accounts;
use crate::asking::Analytics;
use crate::domains::DomainService;
use crate::failed_logins::FailedLogins;
use crate::health_notes::HealthNotes;
use crate::key_verifier::KeyVerifier;
use crate::links::{Links, LinksParts};
use crate::passwords::Passwords;
use crate::readiness::Readiness;
use crate::webhooks::Webhooks;
use crate::worker_notes::WorkerNotes;
use edgelink_clicks::analytics::Engine;
use edgelink_feed::resolve::KnownKeys;
use edgelink_feed::{Domains, Feed};
use edgelink_numbers::Minter;
use edgelink_settings::admission::Admission;
use edgelink_settings::config::Config;
use edgelink_store::Store;
use std::sync::Arc;

/// The use cases.
pub struct UseCases {
    /// Use cases of links.
    pub links: Arc<Links>,
    /// Use cases of keys, users and tenants.
    pub accounts: Accounts,
    /// Queries of clicks, and their deletion.
    pub analytics: Analytics,
    /// Use cases of domains.
    pub domains: DomainService,
    /// Use cases of webhooks.
    pub webhooks: Webhooks,
    /// Verifier of API keys, and of sessions of the console.
    pub keys: Arc<KeyVerifier>,
    /// Hashes and checks passwords of links and users.
    pub passwords: Arc<Passwords>,
    /// The health of the edges' workers.
    pub edge_health: HealthNotes,
    /// The times at which edges' workers that hold leased uses were last heard of.
    pub visit_workers: WorkerNotes,
    /// Failed logins.
    pub failed_logins: FailedLogins,
    /// Readiness of this process for requests.
    pub readiness: Arc<Readiness>,
}

/// The parts that use cases need beside the store.
pub struct UseCaseParts {
    /// Mints the codes of links without an alias.
    pub minter: Minter,
    /// Filters of existing keys, which spare queries of the database.
    pub known_keys: Arc<KnownKeys>,
    /// Feed by which edges learn of changes.
    pub feed: Arc<Feed>,
    /// Domains, kept up to date with the database.
    pub domains: Arc<Domains>,
    /// Stores clicks, and answers queries of them.
    pub engine: Arc<dyn Engine>,
    /// Bounds on queries and on exports of clicks.
    pub asking: (Admission, Admission),
    /// True if control planes share a feed in Redis.
    pub has_redis: bool,
}

impl UseCases {
    /// The use cases of a process with this configuration.
    #[must_use]
    pub fn new(config: &Arc<Config>, store: &Arc<Store>, parts: UseCaseParts) -> Self {
        let passwords = Arc::new(Passwords::new());
        let keys = KeyVerifier::new(store.clone(), &config.auth, &config.console);
        let keys = Arc::new(keys);
        let (feed, max_age) = (parts.feed.clone(), config.feed.max_age_ms);
        let readiness = Readiness::new(store.clone(), feed, parts.has_redis, max_age);
        let links = Arc::new(Links::new(LinksParts {
            store: store.clone(),
            minter: parts.minter,
            known_keys: parts.known_keys,
            passwords: passwords.clone(),
            feed: parts.feed.clone(),
            domains: parts.domains.clone(),
            config: config.clone(),
        }));
        Self {
            analytics: Analytics::new(parts.engine, parts.asking, &links),
            links,
            accounts: Accounts::new(store.clone(), keys.clone(), passwords.clone()),
            domains: DomainService::new(store.clone(), parts.domains, parts.feed, config.clone()),
            webhooks: Webhooks::new(store.clone(), config.clone()),
            keys,
            passwords,
            edge_health: HealthNotes::new(store.clone()),
            visit_workers: WorkerNotes::new(store.clone(), &config.visits),
            failed_logins: FailedLogins::new(store.clone()),
            readiness: Arc::new(readiness),
        }
    }
}
