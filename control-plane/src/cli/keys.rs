//! `edgelink keys`: make, list and revoke API keys.

use crate::auth::api_key::{ApiKey, RandomError};
use crate::clock;
use crate::config::Config;
use crate::server;
use crate::store::StoreError;
use clap::Subcommand;

/// The longest name of a key in characters.
const MAX_NAME_LENGTH: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key and print it; it is not shown again.
    Create {
        /// What people call it: who or what uses it. 1 to 100 characters.
        #[arg(long, value_parser = key_name)]
        name: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn key_name(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if (1..=MAX_NAME_LENGTH).contains(&length) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("must be 1 to 100 characters without control characters".to_owned())
    }
}

impl KeysCommand {
    pub(super) async fn run(self, config: &Config) -> Result<(), KeyError> {
        let store = server::open_store(&config.store).await?;
        match self {
            Self::Create { name } => {
                let key = ApiKey::generate()?;
                store
                    .insert_api_key(&key.row(&name, clock::unix_millis()))
                    .await?;
                println!("{}", key.expose());
            }
        }
        Ok(())
    }
}
