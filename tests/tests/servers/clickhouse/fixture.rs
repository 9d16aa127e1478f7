//! The engine on a private ClickHouse.

use crate::engines::fixture::in_clickhouse;
use crate::store::fixture::Database;
use edgelink_clicks::analytics::{Chunk, Click, ClickHouse, Orphan};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_store::Store;
use edgelink_tests::servers::ClickHouseServer;
use std::ops::Deref;
use std::sync::Arc;

/// An engine whose queue is in a database of its own.
pub(crate) struct TestEngine {
    pub(crate) engine: Arc<ClickHouse>,
    pub(crate) store: Arc<Store>,
    _database: Database,
}

impl Deref for TestEngine {
    type Target = ClickHouse;

    fn deref(&self) -> &ClickHouse {
        &self.engine
    }
}

/// A server and an engine on it.
pub(crate) async fn start() -> (ClickHouseServer, TestEngine) {
    let server = ClickHouseServer::start();
    let engine = engine(&in_clickhouse(&server.url())).await;
    (server, engine)
}

/// An engine with these settings.
pub(crate) async fn engine(settings: &AnalyticsConfig) -> TestEngine {
    let database = Database::sqlite();
    let store = database.store().await;
    TestEngine {
        engine: Arc::new(ClickHouse::new(settings, store.clicks().clone())),
        store,
        _database: database,
    }
}

/// A chunk of clicks.
pub(crate) fn chunk(clicks: &[Click], orphans: Vec<Orphan>) -> Chunk {
    Chunk::of(vec![1], clicks, orphans)
}
