//! The server: its start, from the configuration to open connections, and its stop in order.

mod addresses;
mod background;
mod connections;

use crate::analytics::VisitorSecrets;
use crate::clicks::OwnClicks;
use crate::config::{Config, StoreConfig};
use crate::http::api::show_link;
use crate::http::app::{App, Lookups};
use crate::http::auth::{AdminKeyError, ensure_admin_key};
use crate::http::{observe, routes};
use crate::numbers::{self, Minter};
use crate::oidc::Oidc;
use crate::purge::Purger;
use crate::redis::RedisError;
use crate::store::{self, Store, StoreError};
use crate::webhooks::Deliverer;

use background::Background;
use connections::{Acceptor, Routers};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A server that listens, and answers once it is run.
pub struct Server {
    acceptor: Acceptor,
    address: SocketAddr,
    app: Arc<App>,
    minter: Minter,
    background: Background,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address} (server.listen): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The database does not answer, or refuses the connection.
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The URL of Redis cannot be used.
    #[error("redis.url cannot be used: {0}")]
    Redis(#[from] RedisError),
    /// The certificates that the system trusts cannot be read, and webhooks need them.
    #[error("webhooks cannot be delivered: {0}")]
    Webhooks(#[source] io::Error),
    /// The certificates that the system trusts cannot be read, and logins by OpenID Connect need them.
    #[error("the provider of oidc.issuer cannot be asked: {0}")]
    Oidc(#[source] io::Error),
    /// The first start has no admin key.
    #[error(transparent)]
    AdminKey(#[from] AdminKeyError),
}

/// Serves until `shutdown` is done, then stops in order: see [`Server::run`].
///
/// # Errors
/// The [`StartError`] that says why it did not start.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
    Server::start(config).await?.run(shutdown).await;
    Ok(())
}

/// Opens the store of `config`, and brings its schema up to date if that is configured.
///
/// # Errors
/// The failure of the database.
pub async fn open_store(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    let store = store::connect(config).await?;
    if config.auto_migrate {
        store.migrate().await?;
    }
    Ok(store)
}

impl Server {
    /// Opens the store, makes the first admin key, and listens.
    ///
    /// # Errors
    /// The [`StartError`] that says what stopped it.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        crate::telemetry::prometheus::recorder();
        let store = open_store(&config.store).await?;
        let background = Background::new(&config)?;
        let store = store.with_listener(background.on_change());
        let store = store.with_configured_domains(&config.links.domains);
        let store = with_events(&config, store);
        make_admin_key(&config, store.as_ref()).await?;
        let minter = numbers::minter(&config, store.clone(), background.known_keys()).await?;
        let (listener, address) = listen(config.server.listen).await?;
        background.domains.read(&store).await?;
        let publisher = background.start(&config, &store);
        let deliverer = Deliverer::new(store.clone(), &config.webhooks);
        if let Some(deliverer) = deliverer.map_err(StartError::Webhooks)? {
            background.spawn(|stop| deliverer.run(stop));
        }
        let visitors = Arc::new(VisitorSecrets::new(store.clone()));
        background.spawn(|stop| visitors.clone().run(stop));
        let clicks = background.clicks(&config, &store);
        let own_clicks = Arc::new(OwnClicks::new(&config.clicks));
        background.spawn(|stop| own_clicks.clone().run(clicks.reports.clone(), stop));
        let lookups = Lookups {
            feed: background.feed.clone(),
            publisher,
            domains: background.domains.clone(),
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
        };
        let acceptor = Acceptor::new(listener, &config.server);
        let app = Arc::new(App::new(config, store, minter.clone(), lookups));
        app.keys.prepare().await;
        tracing::info!(%address, "listening");
        Ok(Self {
            acceptor,
            address,
            app,
            minter,
            background,
        })
    }

    /// The address that it listens on, with the port that the system chose if 0 was configured.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is done. Then `/health/ready` is 503; after `server.shutdown_delay_ms` the listener
    /// closes and waiting edges are answered; requests in flight have `server.shutdown_grace_ms` to end; and at last the
    /// number source gives unused numbers back.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let settings = &self.app.config.server;
        let upkeep = tokio::spawn(observe::keep_metrics_small());
        let config = &self.app.config;
        let purger = Purger::new(self.app.store.clone(), &config.purge, &config.analytics);
        let purger = tokio::spawn(purger.run());
        let keys = self.app.keys.clone();
        let key_uses = tokio::spawn(async move { keys.uses().keep_writing().await });
        let app = self.app.clone();
        let edge_health = tokio::spawn(async move { app.edge_health.keep_writing().await });
        let routers = Routers {
            all: routes::router(self.app.clone()),
            health: routes::health_router(self.app.clone()),
        };
        let stop = async {
            shutdown.await;
            tracing::info!("stopping");
            self.app.health.stop();
            tokio::time::sleep(settings.shutdown_delay_ms).await;
            self.background.release_edges();
        };
        let connections = self.acceptor.serve(routers, stop).await;
        connections.finish(settings.shutdown_grace_ms).await;
        upkeep.abort();
        purger.abort();
        key_uses.abort();
        edge_health.abort();
        self.app.keys.uses().write().await;
        self.minter.shutdown().await;
        self.background.finish().await;
        tracing::info!("stopped");
    }
}

/// The same store, which writes events if there can be webhooks.
pub(crate) fn with_events(config: &Config, store: Arc<Store>) -> Arc<Store> {
    if !config.webhooks.is_on() {
        return store;
    }
    let links = config.links.clone();
    store.with_events(Arc::new(move |link| show_link(link, &links)))
}

async fn make_admin_key(config: &Config, store: &Store) -> Result<(), StartError> {
    if let Some(path) = &config.auth.admin_key_file {
        if ensure_admin_key(store, path).await? {
            tracing::info!(file = %path.display(), "the admin key is in this file");
        }
    } else if !store.has_api_keys().await? {
        tracing::warn!("there are no API keys: make one with 'edgelink keys create --name <name>'");
    }
    if config.auth.edge_tokens.is_empty() {
        tracing::warn!(
            "the edge API refuses every request: there are no auth.edge_tokens (EDGELINK_AUTH_EDGE_TOKENS)"
        );
    }
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
