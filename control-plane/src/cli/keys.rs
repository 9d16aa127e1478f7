//! `edgelink keys`: make, list and revoke API keys.

use clap::Subcommand;
use edgelink_model::clock;
use edgelink_model::tenancy::{AccountName, FIRST_TENANT};
use edgelink_model::timestamp;
use edgelink_service::api_key::{ApiKey, RandomError};
use edgelink_settings::config::Config;
use edgelink_store::{AccountError, Actor, ApiKeyRow, KeyQuery, Store, StoreError};

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make an admin key of the first tenant and print it; it is not shown again.
    Create {
        /// Its name: the person or program that uses it. 1 to 100 characters.
        #[arg(long, value_parser = AccountName::parse)]
        name: AccountName,
    },
    /// Print id, time of creation and name of every key, oldest first.
    List {
        /// The id of the tenant whose keys are printed.
        #[arg(long, default_value_t = FIRST_TENANT)]
        tenant: u32,
    },
    /// Revoke a key. Running servers accept it for auth.key_cache_ms.
    Revoke {
        /// The id of the key: the part between the two underscores.
        id: String,
        /// The id of the tenant that the key belongs to.
        #[arg(long, default_value_t = FIRST_TENANT)]
        tenant: u32,
    },
}

/// The error of a command about keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error("there is no key '{0}'")]
    Unknown(String),
    #[error("'{0}' is the only admin key that does not expire: make another one first")]
    Last(String),
    #[error(transparent)]
    Account(AccountError),
}

impl KeysCommand {
    pub(super) async fn run(self, config: &Config) -> Result<(), KeyError> {
        let store = super::open(&config.store).await?;
        match self {
            Self::Create { name } => create(store.as_ref(), name.as_str()).await,
            Self::List { tenant } => list(store.as_ref(), tenant).await,
            Self::Revoke { id, tenant } => revoke(store.as_ref(), id, tenant).await,
        }
    }
}

async fn create(store: &Store, name: &str) -> Result<(), KeyError> {
    let key = ApiKey::generate()?;
    let row = key.row(name, clock::unix_millis());
    let inserted = store
        .insert_api_key(&row, &Actor::command_line(FIRST_TENANT))
        .await?;
    inserted.map_err(KeyError::Account)?;
    println!("{}", key.expose());
    Ok(())
}

async fn list(store: &Store, tenant_id: u32) -> Result<(), KeyError> {
    const PAGE: u32 = 500;
    let mut after = None;
    loop {
        let query = KeyQuery {
            tenant_id,
            after,
            limit: PAGE,
        };
        let keys = store.list_api_keys(&query).await?;
        for key in &keys {
            let created_at = timestamp::from_millis(key.created_at);
            println!("{}  {created_at}  {}", key.id, key.name);
        }
        let place = |key: &ApiKeyRow| (key.created_at, key.id.clone());
        after = keys.last().map(place);
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn revoke(store: &Store, id: String, tenant: u32) -> Result<(), KeyError> {
    let revoked = store
        .revoke_api_key(&id, &Actor::command_line(tenant))
        .await?;
    revoked.map_err(|error| match error {
        AccountError::NotFound => KeyError::Unknown(id),
        AccountError::LastAdmin => KeyError::Last(id),
        error => KeyError::Account(error),
    })
}
