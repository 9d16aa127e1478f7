//! Configuration: a section per concern, read from a TOML file and from environment variables, which override it.
//!
//! A setting is declared once, by [`edgelink_wire::settings!`]: name, type, default, range and documentation. The variable is
//! `EDGELINK_<SECTION>_<FIELD>`; `edgelink.example.toml` and the reference in the book are generated (`make reference`).
//! An unknown field or a wrong value stops the start, and all of them are named at once.

mod analytics;
mod console;
mod domains;
mod environment;
mod error;
mod feed;
mod home;
mod limits;
mod links;
mod network;
mod oidc;
mod server;
mod store;
mod telemetry;
mod value;
mod visits;
mod webhooks;
mod zookeeper;

pub use analytics::{AnalyticsConfig, EngineKind};
pub use console::ConsoleConfig;
pub use domains::DomainsConfig;
pub use environment::Environment;
pub use error::ConfigError;
pub use feed::{FeedConfig, PublisherConfig};
pub use home::{HomeConfig, ReportsConfig};
pub use limits::LimitsConfig;
pub use links::SNOWFLAKE_CODE_LENGTH;
pub use links::{LinksConfig, NumberSourceKind, NumbersConfig, Scheme, UnknownHosts};
pub use network::{Network, Origin};
pub use oidc::trusted_url;
pub use oidc::{OidcConfig, RoleOfClaim};
pub use server::{
    AuthConfig, ListenerConfig, ListenerKind, LogConfig, LogFormat, PagesConfig, ServerConfig,
    TlsConfig,
};
pub use store::{ClicksConfig, PurgeConfig, RedisConfig, ResolveConfig, StoreConfig};
pub use telemetry::TelemetryConfig;
pub(crate) use value::server_url;
pub use value::{FileText, Secret};
pub use visits::VisitsConfig;
pub use webhooks::WebhooksConfig;
pub use zookeeper::ZookeeperAuth;

use edgelink_wire::settings::{Problems, SettingValue};
use environment::Variable;
use std::path::Path;
use toml::{Table, Value};

edgelink_wire::settings! {
    snake_case;

    /// All settings.
    pub struct Config {
        /// See [`ServerConfig`].
        pub server: ServerConfig = ServerConfig::default();
        /// See [`TlsConfig`].
        pub tls: TlsConfig = TlsConfig::default();
        /// See [`StoreConfig`].
        pub store: StoreConfig = StoreConfig::default();
        /// See [`RedisConfig`].
        pub redis: RedisConfig = RedisConfig::default();
        /// See [`PublisherConfig`].
        pub publisher: PublisherConfig = PublisherConfig::default();
        /// See [`FeedConfig`].
        pub feed: FeedConfig = FeedConfig::default();
        /// See [`ResolveConfig`].
        pub resolve: ResolveConfig = ResolveConfig::default();
        /// See [`ClicksConfig`].
        pub clicks: ClicksConfig = ClicksConfig::default();
        /// See [`AnalyticsConfig`].
        pub analytics: AnalyticsConfig = AnalyticsConfig::default();
        /// See [`LinksConfig`].
        pub links: LinksConfig = LinksConfig::default();
        /// See [`DomainsConfig`].
        pub domains: DomainsConfig = DomainsConfig::default();
        /// See [`NumbersConfig`].
        pub numbers: NumbersConfig = NumbersConfig::default();
        /// See [`AuthConfig`].
        pub auth: AuthConfig = AuthConfig::default();
        /// See [`LimitsConfig`].
        pub limits: LimitsConfig = LimitsConfig::default();
        /// See [`VisitsConfig`].
        pub visits: VisitsConfig = VisitsConfig::default();
        /// See [`WebhooksConfig`].
        pub webhooks: WebhooksConfig = WebhooksConfig::default();
        /// See [`ConsoleConfig`].
        pub console: ConsoleConfig = ConsoleConfig::default();
        /// See [`OidcConfig`].
        pub oidc: OidcConfig = OidcConfig::default();
        /// See [`PurgeConfig`].
        pub purge: PurgeConfig = PurgeConfig::default();
        /// See [`LogConfig`].
        pub log: LogConfig = LogConfig::default();
        /// See [`TelemetryConfig`].
        pub telemetry: TelemetryConfig = TelemetryConfig::default();
        /// See [`PagesConfig`].
        pub pages: PagesConfig = PagesConfig::default();
        /// See [`HomeConfig`].
        pub home: HomeConfig = HomeConfig::default();
        /// See [`ReportsConfig`].
        pub reports: ReportsConfig = ReportsConfig::default();
    }
}

impl Config {
    /// Reads the file, if there is one; the variables of `environment` override it. Files that the configuration names (keys,
    /// tokens, pages) are read here as well, so that a missing one stops the start.
    ///
    /// # Errors
    /// The [`ConfigError`] that names the file or every field that is wrong.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let mut table = file.map(read_table).transpose()?.unwrap_or_default();
        let mut problems = Problems::default();
        environment.refuse_renamed(&mut problems);
        environment.overlay(Self::variables(), &mut table, &mut problems);
        refuse_non_finite(&mut table, &mut problems);
        let values = serde_json::to_value(table).unwrap_or_default();
        let mut config = Self::read(values, "", &mut problems).unwrap_or_default();
        config.check(&mut problems);
        problems.into_result().map_err(ConfigError::Fields)?;
        Ok(config)
    }

    /// The variables of `environment` that are no settings. They are only warned of: Kubernetes sets `EDGELINK_SERVICE_HOST` and
    /// the like for a service named edgelink.
    pub fn unknown_variables(environment: &Environment) -> impl Iterator<Item = &str> {
        environment.unknown(Self::variables())
    }

    fn variables() -> impl Iterator<Item = Variable> {
        Variable::of(Self::fields())
    }

    /// Checks values against each other, and reads values from the named files.
    fn check(&mut self, problems: &mut Problems) {
        self.store.check(problems);
        self.redis.check(problems);
        self.analytics.check(problems);
        self.feed.check(&self.publisher, problems);
        self.links.complete(problems);
        self.clicks.check(&self.links, problems);
        self.numbers.check(&self.links, problems);
        self.auth.check(problems);
        self.tls.check(&self.server, problems);
        self.oidc.check(problems);
        self.log.check(problems);
        self.telemetry.check(problems);
        self.pages.check(problems);
        self.home.check(problems);
    }
}

fn read_table(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::File {
        path: path.to_owned(),
        source,
    })?;
    text.parse()
        .map_err(|error| ConfigError::syntax(path, &text, &error))
}

/// Removes and refuses the fields that are `nan` or `inf`: JSON has neither, and they would be read as unset.
fn refuse_non_finite(table: &mut Table, problems: &mut Problems) {
    for (section, fields) in table {
        let Value::Table(fields) = fields else {
            continue;
        };
        fields.retain(|field, value| {
            let is_finite = value.as_float().is_none_or(f64::is_finite);
            if !is_finite {
                let reason = format!("is {value}, must be a finite number");
                problems.refuse(format!("{section}.{field}"), reason);
            }
            is_finite
        });
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
