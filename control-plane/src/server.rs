//! The server: its start, from the configuration to open connections, and its graceful stop.

mod background;
mod certificate;
mod connections;
mod handshake;
mod requests;
mod routes;
mod seat;
mod tls;
mod unsent;

use edgelink_clicks::OwnClicks;
use edgelink_clicks::analytics::VisitorSecrets;
use edgelink_feed::webhooks::Deliverer;
use edgelink_http::api::show_link;
use edgelink_http::app::{App, EdgeServices};
use edgelink_http::auth::{AdminKeyError, EdgeTokens, ensure_admin_key};
use edgelink_http::bounded::{Bounded, ListenerAdmission};
use edgelink_http::observe;
use edgelink_numbers::{Minter, MinterError};
use edgelink_redis::RedisError;
use edgelink_service::domain_recheck::Rechecker;
use edgelink_service::oidc::Oidc;
use edgelink_service::purge::Purger;
use edgelink_service::use_cases::{UseCaseParts, UseCases};
use edgelink_settings::config::{Config, ListenerConfig, ServerConfig};
use edgelink_settings::telemetry::traces::{self, Tracer};
use edgelink_store::{Store, StoreError};

use background::Background;
use connections::{Acceptor, Door, Routers};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::Tls;
use tokio::net::{TcpListener, TcpSocket};

/// A server that listens, and answers once it runs.
pub struct Server {
    listeners: Vec<BoundListener>,
    tls: Option<Arc<Tls>>,
    app: Arc<App>,
    purger: Purger,
    minter: Minter,
    background: Background,
}

/// The error of the start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, or does not belong to this machine.
    #[error("cannot listen on {address} ({setting}): {source}")]
    Listen {
        /// The setting of the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A file for TLS or with tokens is invalid.
    #[error("{0}")]
    Files(String),
    /// The database does not answer, or refuses the connection.
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The URL of Redis, or the file of its authorities, cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The number source cannot be used.
    #[error(transparent)]
    Numbers(#[from] MinterError),
    /// The system's trusted certificates cannot be read, and webhooks need them.
    #[error("webhooks cannot be delivered: {0}")]
    Webhooks(#[source] io::Error),
    /// The system's trusted certificates cannot be read, and logins with OpenID Connect need them.
    #[error("the provider of oidc.issuer cannot be asked: {0}")]
    Oidc(#[source] io::Error),
    /// The system's trusted certificates cannot be read, and the trace collector needs them.
    #[error("spans cannot be sent to telemetry.otlp_url: {0}")]
    Telemetry(#[source] io::Error),
    /// The first start has no admin key.
    #[error(transparent)]
    AdminKey(#[from] AdminKeyError),
}

/// Serves until `shutdown` completes, then stops gracefully: see [`Server::run`].
///
/// # Errors
/// [`StartError`] if it did not start.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
    Server::start(config).await?.run(shutdown).await;
    Ok(())
}

impl Server {
    /// Opens the store, creates the first admin key, and listens.
    ///
    /// # Errors
    /// [`StartError`] if a step failed.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        edgelink_settings::telemetry::prometheus::recorder();
        let tls = tls::start(&config.tls).map_err(StartError::Files)?;
        let edge_tokens = EdgeTokens::reloaded(&config.auth).map_err(StartError::Files)?;
        let store = edgelink_store::open_store(&config.store).await?;
        let background = Background::new(&config)?;
        let store = store.with_listener(background.on_change());
        let store = store.with_configured_domains(&config.links.domains);
        let store = with_events(&config, store);
        let store = store.with_max_lookups(config.resolve.max_lookups);
        make_admin_key(&config, store.as_ref()).await?;
        warn_without(&edge_tokens.current());
        let minter =
            edgelink_numbers::minter(&config, store.clone(), background.known_keys()).await?;
        let listeners = listen(&config.server)?;
        background.domains.read(&store).await?;
        let publisher = background.start(&config, &store);
        let deliverer = Deliverer::new(store.clone(), &config.webhooks);
        if let Some(deliverer) = deliverer.map_err(StartError::Webhooks)? {
            background.spawn(|stop| deliverer.run(stop));
        }
        if let Some(rechecker) = Rechecker::new(store.clone(), &config.domains) {
            background.spawn(|stop| rechecker.run(stop));
        }
        let visitors = Arc::new(VisitorSecrets::new(store.clicks().clone()));
        background.spawn(|stop| visitors.clone().run(stop));
        let clicks = background.clicks(&config, &store);
        let own_clicks = Arc::new(OwnClicks::new(&config.clicks));
        background.spawn(|stop| own_clicks.clone().run(clicks.reports.clone(), stop));
        background.follow(&edge_tokens, &config.server);
        if let Some(tls) = &tls {
            background.follow(tls, &config.server);
        }
        let tracer = start_tracing(&config, &background).map_err(StartError::Telemetry)?;
        let lookups = EdgeServices {
            edge_tokens,
            feed: background.feed.clone(),
            publisher,
            domains: background.domains.clone(),
            known_keys: background.known_keys(),
            resolver: background.resolver(&config, &store),
            snapshots: background.snapshots(&config, &store),
            clicks,
            redis: background.redis.clone(),
            visitors,
            own_clicks,
            live: background.live.clone(),
            oidc: Oidc::new(&config.oidc)
                .map_err(StartError::Oidc)?
                .map(Arc::new),
            tracer,
        };
        let purger = Purger::new(store.clone(), &config.purge, &config.analytics);
        let config = Arc::new(config);
        let bounded = Bounded::new(&config);
        let parts = UseCaseParts {
            minter: minter.clone(),
            known_keys: lookups.known_keys.clone(),
            feed: lookups.feed.clone(),
            domains: lookups.domains.clone(),
            engine: lookups.clicks.engine.clone(),
            asking: bounded.asking(),
            has_redis: lookups.redis.is_some(),
        };
        let use_cases = UseCases::new(&config, &store, parts);
        let app = Arc::new(App::new(config, bounded, use_cases, lookups));
        app.keys.prepare().await;
        listeners.iter().for_each(BoundListener::log);
        Ok(Self {
            listeners,
            tls,
            app,
            purger,
            minter,
            background,
        })
    }

    /// The listeners, each with its actual address: for port 0, the system has chosen one. The main one comes first.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerConfig> {
        self.listeners.iter().map(|bound| &bound.config)
    }

    /// Serves until `shutdown` completes. Then `/health/ready` is 503; after `server.shutdown_delay_ms` the listeners
    /// close and waiting edges are answered; requests in flight have `server.shutdown_grace_ms` to end; and finally the
    /// number source returns unused numbers.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let doors = self.doors();
        let settings = &self.app.config.server;
        let upkeep = tokio::spawn(observe::keep_metrics_small());
        let config = &self.app.config;
        let purger = tokio::spawn(self.purger.run());
        let keys = self.app.keys.clone();
        let key_uses = tokio::spawn(async move { keys.uses().keep_writing().await });
        let app = self.app.clone();
        let edge_health = tokio::spawn(async move { app.edge_health.keep_writing().await });
        let app = self.app.clone();
        let failed_logins = tokio::spawn(async move { app.failed_logins.keep_writing().await });
        let app = self.app.clone();
        let visit_workers = tokio::spawn(async move { app.visit_workers.keep_writing().await });
        let acceptor = Acceptor::new(doors, config);
        let stop = async {
            shutdown.await;
            tracing::info!("stopping");
            self.app.health.stop();
            tokio::time::sleep(settings.shutdown_delay_ms).await;
            self.background.release_edges();
        };
        let connections = acceptor.serve(stop).await;
        connections.finish(settings.shutdown_grace_ms).await;
        upkeep.abort();
        purger.abort();
        key_uses.abort();
        edge_health.abort();
        failed_logins.abort();
        visit_workers.abort();
        self.app.keys.uses().write().await;
        self.app.failed_logins.write().await;
        self.minter.shutdown().await;
        self.background.finish().await;
        tracing::info!("stopped");
    }

    fn doors(&mut self) -> Vec<Door> {
        let door = |BoundListener { config, listener }| {
            let admission = ListenerAdmission::new(&self.app.config.server);
            Door {
                listener,
                routers: Routers {
                    all: routes::router(&self.app, &config.serves, &admission),
                    health: routes::health_router(&self.app, &config.serves, &admission),
                },
                admission,
                tls: self
                    .tls
                    .clone()
                    .filter(|_| self.app.config.tls.listeners.contains(&config.kind)),
                kind: config.kind,
            }
        };
        std::mem::take(&mut self.listeners)
            .into_iter()
            .map(door)
            .collect()
    }
}

/// A bound listener with its actual address.
struct BoundListener {
    config: ListenerConfig,
    listener: TcpListener,
}

impl BoundListener {
    fn log(&self) {
        let (address, listener) = (self.config.address, self.config.kind.word());
        tracing::info!(%address, listener, "listening");
    }
}

/// Lets the store write events if webhooks are possible.
pub(crate) fn with_events(config: &Config, store: Arc<Store>) -> Arc<Store> {
    if !config.webhooks.is_on() {
        return store;
    }
    let links = config.links.clone();
    store.with_events(Arc::new(move |link| show_link(link, &links)))
}

/// Starts tracing, if configured. The exporter of spans ends after the last request.
fn start_tracing(config: &Config, background: &Background) -> io::Result<Option<Tracer>> {
    let started = traces::start(&config.telemetry)?;
    Ok(started.map(|(tracer, exporter)| {
        background.spawn(|stop| exporter.run(stop));
        tracer
    }))
}

async fn make_admin_key(config: &Config, store: &Store) -> Result<(), StartError> {
    if let Some(path) = &config.auth.admin_key_file {
        if ensure_admin_key(store, path).await? {
            tracing::info!(file = %path.display(), "the admin key is in this file");
        }
    } else if !store.has_api_keys().await? {
        tracing::warn!(
            "there are no API keys: create one with 'edgelink keys create --name <name>'"
        );
    }
    Ok(())
}

fn warn_without(edge_tokens: &EdgeTokens) {
    if edge_tokens.is_empty() {
        tracing::warn!(
            "the edge API refuses every request: there are no auth.edge_tokens (EDGELINK_AUTH_EDGE_TOKENS)"
        );
    }
}

/// Connections that the kernel keeps for a listener until they are accepted, if `net.core.somaxconn` allows as many: when a control
/// plane is back, all workers of all edges come at once.
const BACKLOG: u32 = 4_096;

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn listen(config: &ServerConfig) -> Result<Vec<BoundListener>, StartError> {
    let mut bound = Vec::new();
    for mut config in config.listeners() {
        let (setting, address) = (config.setting, config.address);
        let failed = |source| StartError::Listen {
            setting,
            address,
            source,
        };
        let listener = listen_at(address).map_err(failed)?;
        config.address = listener.local_addr().map_err(failed)?;
        bound.push(BoundListener { config, listener });
    }
    Ok(bound)
}
