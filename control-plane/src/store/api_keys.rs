//! API keys.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::sql::{Value, sql};

/// An API key as it is kept: never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// The public part by which the row is found.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
    /// Unix time in milliseconds.
    pub created_at: u64,
}

impl Store {
    /// Keeps a new API key.
    pub async fn insert_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError> {
        let call = self.write("insert_api_key", "adding an API key");
        run!(call, |session| {
            let insert = sql("INSERT INTO api_keys (id, name, secret_hash, created_at) ").rows([[
                key.id.as_str().into(),
                Value::Text(&key.name),
                (&key.secret_hash).into(),
                key.created_at.into(),
            ]]);
            session.autocommit(insert).await.map(drop)
        })
    }

    /// The API key of that id, if there is one.
    pub async fn find_api_key(&self, id: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        run!(self.read("find_api_key", "finding an API key"), |session| {
            let query = sql(
                "SELECT CAST(id AS CHAR) AS id, name, secret_hash, created_at FROM api_keys WHERE id = ?",
            );
            let row: Option<KeyRow> = session.fetch_optional(query.bind(id)).await?;
            row.map(KeyRow::into_key).transpose()
        })
    }

    /// Whether there is any API key.
    pub async fn has_api_keys(&self) -> Result<bool, StoreError> {
        let call = self.read("has_api_keys", "looking for API keys");
        run!(call, |session| {
            let query = sql("SELECT EXISTS (SELECT 1 FROM api_keys)");
            let (has_any,) = session.fetch_one(query).await?;
            Ok(has_any)
        })
    }

    /// All API keys, oldest first.
    pub async fn list_api_keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        run!(self.read("list_api_keys", "listing API keys"), |session| {
            let query = sql(
                "SELECT CAST(id AS CHAR) AS id, name, secret_hash, created_at FROM api_keys \
                 ORDER BY created_at, api_keys.id",
            );
            let rows: Vec<KeyRow> = session.fetch_all(query).await?;
            rows.into_iter().map(KeyRow::into_key).collect()
        })
    }

    /// Removes an API key. `false` if there is none.
    pub async fn delete_api_key(&self, id: &str) -> Result<bool, StoreError> {
        let call = self.write("delete_api_key", "forgetting an API key");
        run!(call, |session| {
            let delete = sql("DELETE FROM api_keys WHERE id = ?").bind(id);
            Ok(session.autocommit(delete).await? > 0)
        })
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
struct KeyRow {
    id: String,
    name: String,
    secret_hash: Vec<u8>,
    created_at: u64,
}

impl KeyRow {
    fn into_key(self) -> Result<ApiKeyRow, Fault> {
        let hash = self.secret_hash.as_slice().try_into();
        Ok(ApiKeyRow {
            id: self.id,
            name: self.name,
            secret_hash: hash.map_err(|error| Fault::corrupt("hash of an API key", &error))?,
            created_at: self.created_at,
        })
    }
}
