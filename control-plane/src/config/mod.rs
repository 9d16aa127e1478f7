//! Configuration: one struct per concern, read from a TOML file and from environment variables, which win.
//!
//! Every field has a default. What is not known or not right stops the start, and every wrong field is named at once.
//! `edgelink.example.toml` holds all fields with their defaults.

mod auth;
mod clicks;
mod environment;
mod error;
mod feed;
mod issuer;
mod links;
mod log;
mod pages;
mod redis;
mod relay;
mod resolve;
mod server;
mod store;
mod sweeper;
mod text;

pub use auth::AuthConfig;
pub use clicks::ClicksConfig;
pub use environment::Environment;
pub use error::{ConfigError, FieldProblem};
pub use feed::FeedConfig;
pub use issuer::{IssuerConfig, NumberSourceKind};
pub use links::{LinksConfig, Scheme, UnknownHosts};
pub use log::{LogConfig, LogFormat};
pub use pages::PagesConfig;
pub use redis::RedisConfig;
pub use relay::RelayConfig;
pub use resolve::ResolveConfig;
pub use server::ServerConfig;
pub use store::StoreConfig;
pub use sweeper::SweeperConfig;
pub use text::Secret;

use error::Checks;
use serde::Deserialize;
use std::path::Path;

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP server and its bounds.
    pub server: ServerConfig,
    /// The database.
    pub store: StoreConfig,
    /// Redis.
    pub redis: RedisConfig,
    /// How changes are published.
    pub relay: RelayConfig,
    /// The feed of changes.
    pub feed: FeedConfig,
    /// How links are resolved.
    pub resolve: ResolveConfig,
    /// Clicks, and the links that are hot by them.
    pub clicks: ClicksConfig,
    /// Domains, codes and short URLs.
    pub links: LinksConfig,
    /// Where numbers come from.
    pub issuer: IssuerConfig,
    /// Keys and tokens.
    pub auth: AuthConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Removing what is over.
    pub sweeper: SweeperConfig,
    /// What visitors see instead of a redirect.
    pub pages: PagesConfig,
}

impl Config {
    /// Reads the file, where there is one, and puts the variables of `environment` over it. Files that the configuration
    /// names (keys, tokens, pages) are read here as well, so that a missing one stops the start.
    ///
    /// # Errors
    /// The [`ConfigError`] that names the file or every field that is wrong.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let mut table = file.map(read_table).transpose()?.unwrap_or_default();
        environment.put_over(&mut table)?;
        let config: Self = serde_path_to_error::deserialize(toml::Value::Table(table))
            .map_err(|error| ConfigError::of_type(&error))?;
        config.complete()
    }

    /// Checks what the types do not, and reads the files that the fields name.
    fn complete(mut self) -> Result<Self, ConfigError> {
        let mut checks = Checks::default();
        self.server.check(&mut checks);
        self.store.check(&mut checks);
        self.redis.check(&mut checks);
        self.relay.check(&mut checks);
        self.feed.check(&self.relay, &mut checks);
        self.resolve.check(&mut checks);
        self.clicks.check(&mut checks);
        self.links.complete(&mut checks);
        self.issuer.check(&self.links, &mut checks);
        self.auth.complete(&mut checks);
        self.log.check(&mut checks);
        self.sweeper.check(&mut checks);
        self.pages.complete(&mut checks);
        checks.into_result().map(|()| self)
    }
}

fn read_table(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::File {
        path: path.to_owned(),
        source,
    })?;
    text.parse()
        .map_err(|error| ConfigError::syntax(path, &text, &error))
}

#[cfg(test)]
mod tests;
