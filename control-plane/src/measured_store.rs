//! A store that counts what it does, and tells the relay when it has changed something.

mod clicks;
mod counters;
mod creation;
mod issuers;
mod publisher;
mod relay;
mod sweep;

use crate::model::Link;
use crate::resolve::Memory;
use crate::store::{
    ApiKeyRow, ChangeError, ChangeFn, CheckFn, CreateError, ListQuery, NewLink, Segment, Store,
    StoreError,
};
use crate::telemetry::prometheus::{STORE_ERRORS, STORE_SECONDS};
use async_trait::async_trait;
use edgelink_wire::{LinkKey, Record};
use metrics::{counter, histogram};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

/// Passes every call on, and measures how long it takes and whether it fails.
pub(crate) struct MeasuredStore(Arc<dyn Store>, Changes);

/// What is told of changes as soon as this process has made them, before they are published.
#[derive(Clone)]
pub(crate) struct Changes {
    /// Wakes the relay.
    pub(crate) wake: Arc<Notify>,
    /// Forgets what it knows of the changed links, so that who makes a change here sees it here.
    pub(crate) memory: Arc<Memory>,
}

impl MeasuredStore {
    /// A store around `store` that tells `changes` of every call that may have changed a link.
    pub(crate) fn around(store: Arc<dyn Store>, changes: Changes) -> Arc<dyn Store> {
        Arc::new(Self(store, changes))
    }

    /// Makes a call that changes links. One that fails may have changed them all the same.
    async fn changing<T>(
        &self,
        operation: &'static str,
        keys: &[LinkKey],
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let result = measured(operation, call).await;
        for key in keys {
            self.1.memory.void(&key.to_string());
        }
        self.1.wake.notify_one();
        result
    }
}

async fn measured<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, StoreError>> + Send,
) -> Result<T, StoreError> {
    let start = Instant::now();
    let result = call.await;
    histogram!(STORE_SECONDS, "operation" => operation).record(start.elapsed());
    result.inspect_err(|error| {
        let transient = if error.is_transient() {
            "true"
        } else {
            "false"
        };
        counter!(STORE_ERRORS, "operation" => operation, "transient" => transient).increment(1);
    })
}

#[async_trait]
impl Store for MeasuredStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        measured("migrate", self.0.migrate()).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        measured("ping", self.0.ping()).await
    }

    async fn draw_segment(&self, issuer: u16, step: u32) -> Result<Option<Segment>, StoreError> {
        measured("draw_segment", self.0.draw_segment(issuer, step)).await
    }

    async fn return_segment(&self, rest: Segment) -> Result<bool, StoreError> {
        measured("return_segment", self.0.return_segment(rest)).await
    }

    async fn create_links(
        &self,
        links: Vec<NewLink>,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError> {
        let keys: Vec<LinkKey> = links.iter().map(|link| link.key.clone()).collect();
        self.changing("create_links", &keys, self.0.create_links(links))
            .await
    }

    async fn are_taken(&self, links: &[(u64, LinkKey)]) -> Result<Vec<bool>, StoreError> {
        measured("are_taken", self.0.are_taken(links)).await
    }

    async fn find_link(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        measured("find_link", self.0.find_link(key)).await
    }

    async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, StoreError> {
        measured("resolve", self.0.resolve(key)).await
    }

    async fn update_link(
        &self,
        key: &LinkKey,
        change: ChangeFn,
    ) -> Result<Option<Result<Link, ChangeError>>, StoreError> {
        let keys = std::slice::from_ref(key);
        self.changing("update_link", keys, self.0.update_link(key, change))
            .await
    }

    async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
    ) -> Result<Option<Result<(), ChangeError>>, StoreError> {
        let keys = std::slice::from_ref(key);
        self.changing("delete_link", keys, self.0.delete_link(key, check))
            .await
    }

    async fn list_links(&self, query: &ListQuery) -> Result<Vec<Link>, StoreError> {
        measured("list_links", self.0.list_links(query)).await
    }

    async fn insert_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError> {
        measured("insert_api_key", self.0.insert_api_key(key)).await
    }

    async fn find_api_key(&self, id: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        measured("find_api_key", self.0.find_api_key(id)).await
    }

    async fn has_api_keys(&self) -> Result<bool, StoreError> {
        measured("has_api_keys", self.0.has_api_keys()).await
    }

    async fn list_api_keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        measured("list_api_keys", self.0.list_api_keys()).await
    }

    async fn delete_api_key(&self, id: &str) -> Result<bool, StoreError> {
        measured("delete_api_key", self.0.delete_api_key(id)).await
    }
}
