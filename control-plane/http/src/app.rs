//! The state that handlers share.

use super::bounded::Bounded;
use crate::auth::{EdgeTokens, KeyVerifier};
use crate::health::Health;
use crate::pages::StatusPages;
use axum::extract::{FromRef, FromRequestParts};
use edgelink_clicks::analytics::{Engine, VisitorSecrets};
use edgelink_clicks::live::Live;
use edgelink_clicks::{OwnClicks, Reports};
use edgelink_feed::Domains;
use edgelink_feed::Feed;
use edgelink_feed::publisher::PublisherStatus;
use edgelink_feed::resolve::{KnownKeys, Resolver};
use edgelink_feed::snapshot::Snapshots;
use edgelink_redis::Redis;
use edgelink_service::accounts::Accounts;
use edgelink_service::asking::Analytics;
use edgelink_service::caller::Caller;
use edgelink_service::domains::DomainService;
use edgelink_service::failed_logins::FailedLogins;
use edgelink_service::health_notes::HealthNotes;
use edgelink_service::limits::Limiter;
use edgelink_service::limits::tries::{LOGINS, PASSWORDS, PROVIDER_LOGINS, Tries};
use edgelink_service::links::Links;
use edgelink_service::oidc::Oidc;
use edgelink_service::passwords::Passwords;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::use_cases::UseCases;
use edgelink_service::webhooks::Webhooks;
use edgelink_service::worker_notes::WorkerNotes;
use edgelink_settings::config::Config;
use edgelink_settings::reloaded::Reloaded;
use edgelink_settings::telemetry::traces::Tracer;
use edgelink_wire::LinkPaths;
use http::request::Parts;
use std::sync::Arc;

/// The state, and the caller whom the key of a request names: arguments of most handlers of the API.
pub struct ApiCall {
    /// The state.
    pub app: Arc<App>,
    /// The caller.
    pub caller: Caller,
}

impl FromRequestParts<Arc<App>> for ApiCall {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let app = Arc::clone(app);
        // Noted by the layer that checks keys, which is before each of these handlers.
        let caller = parts.extensions.get().cloned();
        let caller = caller.ok_or_else(|| Problem::new(Kind::Internal))?;
        Ok(Self { app, caller })
    }
}

/// The state that handlers share.
pub struct App {
    /// Settings of this process.
    pub config: Arc<Config>,
    /// Use cases of links.
    pub links: Arc<Links>,
    /// Use cases of keys, users and tenants.
    pub accounts: Accounts,
    /// Queries of clicks, and their deletion.
    pub analytics: Analytics,
    /// Use cases of domains.
    pub domain_service: DomainService,
    pub(crate) webhooks: Webhooks,
    /// Verifier of API keys, and of sessions of the console.
    pub keys: Arc<KeyVerifier>,
    pub(crate) edge_tokens: Arc<Reloaded<EdgeTokens>>,
    /// Pages for visitors: the configured ones, or else the built-in ones.
    pub pages: StatusPages,
    /// The paths of links; `None` if links are right below the root.
    pub link_paths: Option<LinkPaths>,
    /// Domains, kept up to date with the database.
    pub domains: Arc<Domains>,
    pub(crate) feed: Arc<Feed>,
    /// Looks up the records of links, for redirects and for edges.
    pub resolver: Resolver,
    pub(crate) snapshots: Snapshots,
    /// State of the probes.
    pub health: Health,
    /// The health of the edges' workers.
    pub edge_health: HealthNotes,
    /// The times at which edges' workers that hold leased uses were last heard of.
    pub visit_workers: WorkerNotes,
    /// Takes reports of clicks.
    pub(crate) reports: Reports,
    /// Stores clicks, and answers queries of them.
    pub(crate) engine: Arc<dyn Engine>,
    /// The rate limits; `None` if there are none.
    pub(crate) limiter: Option<Limiter>,
    /// Hashes and checks passwords of links and users.
    pub passwords: Arc<Passwords>,
    /// The provider of OpenID Connect, if there is one.
    pub oidc: Option<Arc<Oidc>>,
    /// Limit on tries of passwords of links.
    pub(crate) tries: Tries,
    /// Limit on tries to log in.
    pub logins: Tries,
    /// Limit on logins by the provider of OpenID Connect.
    pub provider_logins: Tries,
    /// Failed logins.
    pub failed_logins: FailedLogins,
    /// Limit on creations of links by visitors.
    pub creations: Tries,
    /// Limit on reports of links by visitors.
    pub reportings: Tries,
    /// The secrets of visitor tokens.
    pub(crate) visitors: Arc<VisitorSecrets>,
    /// The clicks of redirects that this process answers.
    pub(crate) own_clicks: Arc<OwnClicks>,
    /// Bounds on the resources that requests share.
    pub bounded: Bounded,
    /// The live stream of clicks.
    pub(crate) live: Arc<Live>,
    /// Traces requests; `None` if nothing is traced.
    pub(crate) tracer: Option<Tracer>,
}

/// The parts of the state that answer edges.
pub struct EdgeServices {
    /// Tokens that edges may send, reloaded when their files change.
    pub edge_tokens: Arc<Reloaded<EdgeTokens>>,
    /// Newest changes, which edges poll for.
    pub feed: Arc<Feed>,
    /// Status of the process that publishes the feed, for the probes.
    pub publisher: PublisherStatus,
    /// Domains, kept up to date with the database.
    pub domains: Arc<Domains>,
    /// Filters of existing keys, which spare queries of the database.
    pub known_keys: Arc<KnownKeys>,
    /// Looks up the records of links, for redirects and for edges.
    pub resolver: Resolver,
    /// Builds the snapshots that edges start from.
    pub snapshots: Snapshots,
    /// Reports, storage and queries of clicks.
    pub clicks: Clicks,
    /// Live stream of clicks.
    pub live: Arc<Live>,
    /// Redis, which counts rate limits; `None` if this is the only control plane.
    pub redis: Option<Arc<Redis>>,
    /// Secrets of visitor tokens.
    pub visitors: Arc<VisitorSecrets>,
    /// Clicks of redirects that this process answers.
    pub own_clicks: Arc<OwnClicks>,
    /// Client of the provider of OpenID Connect; `None` if none is configured.
    pub oidc: Option<Arc<Oidc>>,
    /// Traces requests; `None` if nothing is traced.
    pub tracer: Option<Tracer>,
}

/// The parts of the state that count clicks.
pub struct Clicks {
    /// Takes reports of clicks.
    pub reports: Reports,
    /// Stores clicks, and answers queries of them.
    pub engine: Arc<dyn Engine>,
}

impl App {
    /// Builds the state that handlers share from its parts. Limits follow from `config`.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        bounded: Bounded,
        use_cases: UseCases,
        lookups: EdgeServices,
    ) -> Self {
        let links = &config.links;
        Self {
            analytics: use_cases.analytics,
            links: use_cases.links,
            accounts: use_cases.accounts,
            keys: use_cases.keys,
            edge_tokens: lookups.edge_tokens,
            pages: StatusPages::new(&config.pages),
            link_paths: LinkPaths::unless_plain(links.prefix.clone(), links.trailing_slash),
            edge_health: use_cases.edge_health,
            visit_workers: use_cases.visit_workers,
            health: Health {
                readiness: use_cases.readiness,
                feed: lookups.feed.clone(),
                publisher: lookups.publisher,
                redis: lookups.redis.clone(),
                known_keys: lookups.known_keys,
                unready_after: config.server.unready_after_ms,
            },
            domain_service: use_cases.domains,
            webhooks: use_cases.webhooks,
            domains: lookups.domains,
            passwords: use_cases.passwords,
            oidc: lookups.oidc,
            tries: Tries::new(PASSWORDS, lookups.redis.clone()),
            logins: Tries::new(LOGINS, lookups.redis.clone()),
            provider_logins: Tries::new(PROVIDER_LOGINS, lookups.redis.clone()),
            failed_logins: use_cases.failed_logins,
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
