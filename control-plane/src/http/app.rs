//! The state that handlers share.

use super::bounded::Bounded;
use crate::analytics::{Engine, VisitorSecrets};
use crate::clicks::{OwnClicks, Reports};
use crate::config::Config;
use crate::feed::Domains;
use crate::feed::Feed;
use crate::http::auth::failed_logins::FailedLogins;
use crate::http::auth::{EdgeTokens, KeyVerifier};
use crate::http::edge_health::HealthNotes;
use crate::http::health::Health;
use crate::http::pages::Pages;
use crate::http::visit_workers::WorkerNotes;
use crate::limits::Limiter;
use crate::limits::tries::{LOGINS, PASSWORDS, PROVIDER_LOGINS, Tries};
use crate::live::Live;
use crate::numbers::Minter;
use crate::oidc::Oidc;
use crate::publisher::PublisherStatus;
use crate::redis::Redis;
use crate::reloaded::Reloaded;
use crate::resolve::{KnownKeys, Resolver};
use crate::service::accounts::Accounts;
use crate::service::asking::Analytics;
use crate::service::domains::DomainService;
use crate::service::links::{Links, LinksParts};
use crate::service::passwords::Passwords;
use crate::service::webhooks::Webhooks;
use crate::snapshot::Snapshots;
use crate::store::Store;
use crate::telemetry::traces::Tracer;
use axum::extract::FromRef;
use edgelink_wire::LinkPaths;
use std::sync::Arc;

/// The state that handlers share.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) store: Arc<Store>,
    pub(crate) links: Arc<Links>,
    pub(crate) accounts: Accounts,
    pub(crate) analytics: Analytics,
    pub(crate) domain_service: DomainService,
    pub(crate) webhooks: Webhooks,
    pub(crate) keys: Arc<KeyVerifier>,
    pub(crate) edge_tokens: Arc<Reloaded<EdgeTokens>>,
    pub(crate) pages: Pages,
    /// The paths of links; `None` if links are right below the root.
    pub(crate) link_paths: Option<LinkPaths>,
    pub(crate) domains: Arc<Domains>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) resolver: Resolver,
    pub(crate) snapshots: Snapshots,
    pub(crate) health: Health,
    /// The health of the edges' workers.
    pub(crate) edge_health: HealthNotes,
    /// The times at which edges' workers that hold leased uses were last heard of.
    pub(crate) visit_workers: WorkerNotes,
    /// Takes reports of clicks.
    pub(crate) reports: Reports,
    /// Stores clicks, and answers queries of them.
    pub(crate) engine: Arc<dyn Engine>,
    /// The rate limits; `None` if there are none.
    pub(crate) limiter: Option<Limiter>,
    pub(crate) passwords: Arc<Passwords>,
    /// The provider of OpenID Connect, if there is one.
    pub(crate) oidc: Option<Arc<Oidc>>,
    /// Limit on tries of passwords of links.
    pub(crate) tries: Tries,
    /// Limit on tries to log in.
    pub(crate) logins: Tries,
    /// Limit on logins by the provider of OpenID Connect.
    pub(crate) provider_logins: Tries,
    /// Failed logins.
    pub(crate) failed_logins: FailedLogins,
    /// Limit on creations of links by visitors.
    pub(crate) creations: Tries,
    /// Limit on reports of links by visitors.
    pub(crate) reportings: Tries,
    /// The secrets of visitor tokens.
    pub(crate) visitors: Arc<VisitorSecrets>,
    /// The clicks of redirects that this process answers.
    pub(crate) own_clicks: Arc<OwnClicks>,
    /// Bounds on the resources that requests share.
    pub(crate) bounded: Bounded,
    /// The live stream of clicks.
    pub(crate) live: Arc<Live>,
    /// Traces requests; `None` if nothing is traced.
    pub(crate) tracer: Option<Tracer>,
}

/// The parts of the state that answer edges.
pub(crate) struct Lookups {
    pub(crate) edge_tokens: Arc<Reloaded<EdgeTokens>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) publisher: PublisherStatus,
    pub(crate) domains: Arc<Domains>,
    pub(crate) known_keys: Arc<KnownKeys>,
    pub(crate) resolver: Resolver,
    pub(crate) snapshots: Snapshots,
    pub(crate) clicks: Clicks,
    pub(crate) live: Arc<Live>,
    /// Redis, which counts rate limits; `None` if this is the only control plane.
    pub(crate) redis: Option<Arc<Redis>>,
    pub(crate) visitors: Arc<VisitorSecrets>,
    pub(crate) own_clicks: Arc<OwnClicks>,
    pub(crate) oidc: Option<Arc<Oidc>>,
    pub(crate) tracer: Option<Tracer>,
}

/// The parts of the state that count clicks.
pub(crate) struct Clicks {
    pub(crate) reports: Reports,
    pub(crate) engine: Arc<dyn Engine>,
}

impl App {
    pub(crate) fn new(config: Config, store: Arc<Store>, minter: Minter, lookups: Lookups) -> Self {
        let (config, passwords) = (Arc::new(config), Arc::new(Passwords::new()));
        let links = &config.links;
        let keys = KeyVerifier::new(store.clone(), &config.auth, &config.console);
        let keys = Arc::new(keys);
        let bounded = Bounded::new(&config);
        let of_links = Arc::new(Links::new(LinksParts {
            store: store.clone(),
            minter,
            known_keys: lookups.known_keys.clone(),
            passwords: passwords.clone(),
            feed: lookups.feed.clone(),
            domains: lookups.domains.clone(),
            config: config.clone(),
        }));
        let asking = (bounded.questions.clone(), bounded.exports.clone());
        Self {
            analytics: Analytics::new(lookups.clicks.engine.clone(), asking, &of_links),
            links: of_links,
            accounts: Accounts::new(store.clone(), keys.clone(), passwords.clone()),
            keys,
            edge_tokens: lookups.edge_tokens,
            pages: Pages::new(&config.pages),
            link_paths: LinkPaths::unless_plain(links.prefix.clone(), links.trailing_slash),
            edge_health: HealthNotes::new(store.clone()),
            visit_workers: WorkerNotes::new(store.clone(), &config.visits),
            health: Health::new(
                store.clone(),
                lookups.feed.clone(),
                lookups.publisher,
                lookups.redis.clone(),
                lookups.known_keys,
                [config.feed.max_age_ms, config.server.unready_after_ms],
            ),
            domain_service: DomainService::new(
                store.clone(),
                lookups.domains.clone(),
                lookups.feed.clone(),
                config.clone(),
            ),
            webhooks: Webhooks::new(store.clone(), config.clone()),
            domains: lookups.domains,
            passwords,
            oidc: lookups.oidc,
            tries: Tries::new(PASSWORDS, lookups.redis.clone()),
            logins: Tries::new(LOGINS, lookups.redis.clone()),
            provider_logins: Tries::new(PROVIDER_LOGINS, lookups.redis.clone()),
            failed_logins: FailedLogins::new(store.clone()),
            creations: Tries::new(config.home.budget(), lookups.redis.clone()),
            reportings: Tries::new(config.reports.budget(), lookups.redis.clone()),
            visitors: lookups.visitors,
            own_clicks: lookups.own_clicks,
            limiter: Limiter::new(&config.limits, lookups.redis),
            feed: lookups.feed,
            resolver: lookups.resolver,
            reports: lookups.clicks.reports,
            engine: lookups.clicks.engine,
            snapshots: lookups.snapshots,
            live: lookups.live,
            bounded,
            tracer: lookups.tracer,
            store,
            config,
        }
    }
}

/// The probes' part of the state, so that `health.rs` does not depend on [`App`].
impl FromRef<Arc<App>> for Health {
    fn from_ref(app: &Arc<App>) -> Self {
        app.health.clone()
    }
}
