//! An engine under test, and a macro that runs one test on every engine.

use crate::engines::model::Model;
use crate::engines::random::{DAY, HOUR, Random, link_clicks};
use crate::store::clicking::Clicking;
use crate::store::fixture::{Database, link};
use edgelink_click_store::ClickRetention;
use edgelink_clicks::analytics::{
    AnalyticsQuery, Chunk, Click, ClickHouse, Engine, Orphan, SqlEngine,
};
use edgelink_model::counts::{Bots, ClickScope};
use edgelink_model::tenancy::Scope;
use edgelink_settings::config::{AnalyticsConfig, EngineKind, Secret};
use edgelink_store::{NewLink, Store};
use edgelink_tests::servers::ClickHouseServer;
use std::ops::Range;
use std::sync::Arc;

/// Documented differences of engines.
#[derive(Debug)]
pub(crate) struct Differences {
    /// Keeps at most `max_values` values of an attribute in an hour or a day, and the rest as a sum.
    pub(crate) bounds_values: bool,
    /// Length in bytes beyond which values are cut in breakdowns. Single clicks have all of them.
    pub(crate) longest_value: usize,
    /// Breaks clicks without a link down by their keys. Tenants have links: no caller asks about such clicks alone.
    pub(crate) names_keys_without_link: bool,
    /// Knows the values of clicks of links that come after their day was rolled up. The writer settles a day before, so only clicks
    /// that were counted while a clock had gone back come later.
    pub(crate) adds_late_values: bool,
    /// Counts a token on two days as two visitors. Edges change tokens daily.
    pub(crate) tells_days_apart: bool,
    /// Counts the token 0, which is one of 2^64.
    pub(crate) has_visitor_zero: bool,
    /// Number up to which visitors are counted one by one; more are estimated.
    pub(crate) exact_visitors: u64,
    /// Number of breakdowns of which tests ask for one in its turn, because each takes long.
    pub(crate) one_breakdown_of: usize,
}

/// Rollups as documents in the database, by scope and time.
static SQL: Differences = Differences {
    bounds_values: true,
    longest_value: 324,
    names_keys_without_link: true,
    adds_late_values: true,
    tells_days_apart: false,
    has_visitor_zero: true,
    exact_visitors: 1_000,
    one_breakdown_of: 2,
};

/// Rows in ClickHouse, and views of them.
pub(crate) static CLICKHOUSE: Differences = Differences {
    bounds_values: false,
    longest_value: usize::MAX,
    names_keys_without_link: false,
    adds_late_values: false,
    tells_days_apart: true,
    has_visitor_zero: false,
    exact_visitors: 5_000,
    one_breakdown_of: 6,
};

/// The settings for the ClickHouse at a URL.
pub(crate) fn in_clickhouse(url: &str) -> AnalyticsConfig {
    AnalyticsConfig {
        engine: EngineKind::ClickHouse,
        clickhouse_url: Some(Secret::new(url)),
        ..AnalyticsConfig::default()
    }
}

/// A query about hours from a second on.
pub(crate) fn about(scope: ClickScope, from: u64, hours: Range<u64>) -> AnalyticsQuery {
    AnalyticsQuery {
        scope,
        from: from + hours.start * HOUR,
        to: from + hours.end * HOUR,
        bots: Bots::Included,
    }
}

/// An engine, a database of its own with the links of [`Random`], and a model that has the same clicks.
pub(crate) struct Tested {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) database: Database,
    pub(crate) settings: AnalyticsConfig,
    pub(crate) model: Model,
    pub(crate) random: Random,
    /// The ClickHouse that it is in.
    pub(crate) clickhouse: Option<ClickHouseServer>,
}

impl Tested {
    /// The engine in SQLite.
    pub(crate) async fn sqlite() -> Self {
        Self::in_database(Database::sqlite()).await
    }

    /// The engine on the database server.
    pub(crate) async fn server() -> Self {
        Self::in_database(Database::on_server().await).await
    }

    /// The engine in this database.
    pub(crate) async fn in_database(database: Database) -> Self {
        Self::new(database, AnalyticsConfig::default(), None, &SQL).await
    }

    /// The engine in a ClickHouse of its own; queue and links are in SQLite.
    pub(crate) async fn clickhouse() -> Self {
        let server = ClickHouseServer::start();
        let settings = in_clickhouse(&server.url());
        Self::new(Database::sqlite(), settings, Some(server), &CLICKHOUSE).await
    }

    async fn new(
        database: Database,
        settings: AnalyticsConfig,
        clickhouse: Option<ClickHouseServer>,
        differences: &'static Differences,
    ) -> Self {
        let store = database.store().await;
        let domains = create_links(&store).await;
        Self {
            engine: engine(&store, &settings),
            store,
            database,
            settings,
            model: Model::new(differences),
            random: Random::new(domains, !differences.tells_days_apart),
            clickhouse,
        }
    }

    /// Starts the engine again, with other settings.
    pub(crate) fn restart(&mut self, change: impl FnOnce(&mut AnalyticsConfig)) {
        change(&mut self.settings);
        self.engine = engine(&self.store, &self.settings);
    }

    /// A process that takes reports and writes them, with connections and an engine of its own.
    pub(crate) async fn clicking(&self) -> Clicking {
        let store = self.database.store().await;
        Clicking::over(engine(&store, &self.settings), store, &self.settings)
    }

    /// Puts a report into the queue, whose clicks a [`Chunk`] has. Returns its number.
    pub(crate) async fn queue(&self, row: u64) -> u64 {
        let report = format!(
            "INSERT INTO click_queue (id, received_at, bytes, aside, body) VALUES ({row}, 0, 1, 0, X'00')"
        );
        self.database.execute(&report).await;
        row
    }

    /// Writes clicks and orphan visits, and adds them to the model.
    pub(crate) async fn write(&mut self, clicks: Vec<Click>, orphans: Vec<Orphan>) {
        let row = self.queue(1).await;
        let chunk = Chunk::of(vec![row], &clicks, orphans.clone());
        self.engine.write(&chunk).await.unwrap();
        assert_eq!(self.database.count("click_queue").await, 0);
        self.model.clicks.extend(clicks);
        self.model.orphans.extend(orphans);
    }

    /// Writes random clicks and orphan visits of three days.
    pub(crate) async fn write_some(&mut self, clicks: usize, orphans: usize, from: u64) {
        let clicks = self.random.clicks(clicks, from);
        let orphans = self.random.orphans(orphans, from);
        self.write(clicks, orphans).await;
    }

    /// Begins to roll days up with the one that has this second: a new database begins with the present one.
    pub(crate) async fn begin_days(&self, at: u64) {
        let update = format!("UPDATE click_state SET days_until = {}", at / DAY);
        self.database.execute(&update).await;
    }

    /// Rolls up days that are over.
    pub(crate) async fn roll_up(&self, settled: u64) {
        while self.engine.upkeep(settled).await.unwrap() {}
    }

    /// Asserts that ClickHouse has rollups of whole months, or none.
    pub(crate) fn assert_months(&self, are_there: bool) {
        if let Some(server) = &self.clickhouse {
            for table in ["link_months", "link_value_months"] {
                let rows = server.ask(&format!("SELECT count() FROM edgelink.{table}"));
                assert_eq!(rows.trim() != "0", are_there, "{table}");
            }
        }
    }

    /// Drops at once all that is past its retention.
    pub(crate) async fn purge(&self) {
        let Some(server) = &self.clickhouse else {
            let kept = ClickRetention {
                hours: self.settings.hours_days,
                days: self.settings.days,
                raw: self.settings.raw_days,
            };
            while self.store.clicks().purge_clicks(kept, 100).await.unwrap() > 0 {}
            return;
        };
        // Settings apply to tables from the first use on.
        self.engine.totals(&[1]).await.unwrap();
        let tables = server.ask(
            "SELECT name FROM system.tables WHERE database = 'edgelink' AND create_table_query LIKE '% TTL %'",
        );
        for table in tables.lines() {
            drop_expired(server, table);
        }
    }
}

/// Has a ClickHouse drop what is past its retention in a table: parts of which all rows are.
pub(crate) fn drop_expired(server: &ClickHouseServer, table: &str) {
    let _ = server.ask(&format!(
        "ALTER TABLE edgelink.{table} MATERIALIZE TTL SETTINGS mutations_sync = 1"
    ));
}

fn engine(store: &Arc<Store>, settings: &AnalyticsConfig) -> Arc<dyn Engine> {
    match settings.engine {
        EngineKind::Sql => Arc::new(SqlEngine::new(store.clone(), settings.clone())),
        EngineKind::ClickHouse => Arc::new(ClickHouse::new(settings, store.clicks().clone())),
    }
}

/// Creates the links of [`Random`]. Returns the numbers of their domains.
async fn create_links(store: &Store) -> [u32; 4] {
    let links = (1..12).map(|id| {
        let clicks = link_clicks(id, [1, 2, 3, 4]);
        let mut new = NewLink {
            key: clicks.key.parse().expect("a key"),
            scope: Scope::tenant(clicks.tenant_id).into(),
            ..link(id, "any")
        };
        new.content.tags = clicks.tags.to_vec();
        new
    });
    let made = store.create_links(links.collect()).await.expect("links");
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    let names = ["d1.example", "d2.example", "d3.example", "d4.example"];
    let found = store.clicked_domains(&names).await.expect("domains");
    names.map(|name| {
        let of_name = found.iter().find(|(found, _)| &**found == name);
        of_name.expect("a domain").1.id
    })
}

/// Makes a test of each function for each engine: `sqlite::name`, `server::name` and `clickhouse::name`.
macro_rules! on_every_engine {
    ($($name:ident),+ $(,)?) => {
        on_every_engine!(sqlite: $($name)+);
        on_every_engine!(server: $($name)+);
        on_every_engine!(clickhouse: $($name)+);
    };
    ($engine:ident: $($name:ident)+) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::engines::fixture::Tested::$engine().await).await;
                }
            )+
        }
    };
}
