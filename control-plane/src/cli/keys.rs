//! `edgelink keys`: make, list and revoke API keys.

use crate::config::Config;
use crate::http::auth::api_key::{ApiKey, RandomError};
use crate::store::{Store, StoreError};
use crate::{clock, server, timestamp};
use clap::Subcommand;

/// The longest name of a key in characters.
const MAX_NAME_LENGTH: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key and print it; it is not shown again.
    Create {
        /// Its name: the person or program that uses it. 1 to 100 characters.
        #[arg(long, value_parser = key_name)]
        name: String,
    },
    /// Print id, time of creation and name of every key, oldest first.
    List,
    /// Revoke a key. Running servers accept it for auth.key_cache_ms.
    Revoke {
        /// The id of the key: the part between the two underscores.
        id: String,
    },
}

/// Why a command about keys failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error("there is no key '{0}'")]
    Unknown(String),
    #[error(
        "'{0}' is the only key, and without any the next start would make a new admin key: make another one first"
    )]
    Last(String),
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
            Self::Create { name } => create(store.as_ref(), &name).await,
            Self::List => list(store.as_ref()).await,
            Self::Revoke { id } => revoke(store.as_ref(), id).await,
        }
    }
}

async fn create(store: &Store, name: &str) -> Result<(), KeyError> {
    let key = ApiKey::generate()?;
    let row = key.row(name, clock::unix_millis());
    store.insert_api_key(&row).await?;
    println!("{}", key.expose());
    Ok(())
}

async fn list(store: &Store) -> Result<(), KeyError> {
    for key in store.list_api_keys().await? {
        let created_at = timestamp::from_millis(key.created_at);
        println!("{}  {created_at}  {}", key.id, key.name);
    }
    Ok(())
}

async fn revoke(store: &Store, id: String) -> Result<(), KeyError> {
    let keys = store.list_api_keys().await?;
    if !keys.iter().any(|key| key.id == id) {
        return Err(KeyError::Unknown(id));
    }
    if keys.len() == 1 {
        return Err(KeyError::Last(id));
    }
    store.delete_api_key(&id).await?;
    Ok(())
}
