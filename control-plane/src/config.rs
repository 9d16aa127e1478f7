//! Configuration: a section per concern, read from a TOML file and from environment variables, which win.
//!
//! A setting is declared once, by [`declare::settings`]: name, type, default, range and documentation. The variable is
//! `EDGELINK_<SECTION>_<FIELD>`; `edgelink.example.toml` and the reference in the README are generated (`make reference`).
//! What is not known or not right stops the start, and every wrong field is named at once.

mod declare;
mod environment;
mod error;
mod feed;
mod links;
mod server;
mod store;
mod value;

pub use environment::Environment;
pub use error::{ConfigError, FieldProblem};
pub use feed::{FeedConfig, PublisherConfig};
pub use links::{LinksConfig, NumberSourceKind, NumbersConfig, Scheme, UnknownHosts};
pub use server::{AuthConfig, LogConfig, LogFormat, PagesConfig, ServerConfig};
pub use store::{ClicksConfig, PurgeConfig, RedisConfig, ResolveConfig, StoreConfig};
pub use value::{FileText, Secret};

use declare::Setting;
use error::Checks;
use std::path::Path;
use toml::{Table, Value};

/// Declares the configuration: its sections by name.
macro_rules! sections {
    ($($section:ident: $type:ident,)+) => {
        /// Everything that can be configured.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Config {
            $(#[doc = concat!("The section `", stringify!($section), "`.")] pub $section: $type,)+
        }

        impl Config {
            /// Every setting, by section.
            fn settings() -> Vec<Setting> {
                [$($type::settings()),+].into_iter().flatten().collect()
            }

            fn read(mut table: Table, checks: &mut Checks) -> Self {
                let config = Self {
                    $($section: match table.remove($type::SECTION) {
                        None => $type::default(),
                        Some(Value::Table(fields)) => $type::read(fields, checks),
                        Some(_) => {
                            checks.refuse($type::SECTION, "must be a section");
                            $type::default()
                        }
                    },)+
                };
                checks.refuse_unknown(None, &table, &[$($type::SECTION),+]);
                config
            }

            /// The sections with what is said about each of them.
            #[cfg(test)]
            const SECTIONS: &[(&str, &str)] = &[$(($type::SECTION, $type::ABOUT)),+];
        }
    };
}

sections! {
    server: ServerConfig,
    store: StoreConfig,
    redis: RedisConfig,
    publisher: PublisherConfig,
    feed: FeedConfig,
    resolve: ResolveConfig,
    clicks: ClicksConfig,
    links: LinksConfig,
    numbers: NumbersConfig,
    auth: AuthConfig,
    purge: PurgeConfig,
    log: LogConfig,
    pages: PagesConfig,
}

impl Config {
    /// Reads the file, if there is one, and puts the variables of `environment` over it. Files that the configuration names
    /// (keys, tokens, pages) are read here as well, so that a missing one stops the start.
    ///
    /// # Errors
    /// The [`ConfigError`] that names the file or every field that is wrong.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let mut table = file.map(read_table).transpose()?.unwrap_or_default();
        environment.put_over(&mut table)?;
        let mut checks = Checks::default();
        let mut config = Self::read(table, &mut checks);
        config.check(&mut checks);
        checks.into_result().map(|()| config)
    }

    /// Checks what one value does not show, and takes over what the named files hold.
    fn check(&mut self, checks: &mut Checks) {
        self.store.check(checks);
        self.redis.check(checks);
        self.feed.check(&self.publisher, checks);
        self.links.complete(checks);
        self.numbers.check(&self.links, checks);
        self.auth.complete(checks);
        self.log.check(checks);
        self.pages.check(checks);
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

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
