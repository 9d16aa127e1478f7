//! An engine on a private ClickHouse, and clicks for it.

use edgelink_clicks::analytics::{Agent, Chunk, Click, ClickHouse, Described, Device, Orphan};
use edgelink_settings::config::{AnalyticsConfig, EngineKind, Secret, StoreConfig};
use edgelink_store::{Store, connect};
use edgelink_tests::servers::ClickHouseServer;
use edgelink_wire::clicks::events::OrphanKind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection, raw_sql};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

pub(crate) const HOUR: u64 = 3_600;
pub(crate) const DAY: u64 = 86_400;

/// The settings for the server at a URL.
pub(crate) fn settings(url: &str) -> AnalyticsConfig {
    AnalyticsConfig {
        engine: EngineKind::ClickHouse,
        clickhouse_url: Some(Secret::new(url)),
        ..AnalyticsConfig::default()
    }
}

/// An engine with a database of its own.
pub(crate) struct TestEngine {
    pub(crate) engine: Arc<ClickHouse>,
    pub(crate) store: Arc<Store>,
    folder: TempDir,
}

impl TestEngine {
    /// Executes a statement in the database that has the queue and the links.
    pub(crate) async fn execute(&self, sql: &str) {
        let url = database(&self.folder);
        let connection = SqliteConnection::connect(&url).await;
        let done = raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&mut connection.expect("a connection"))
            .await;
        done.expect("a statement");
    }
}

fn database(folder: &TempDir) -> String {
    format!("sqlite://{}/edgelink.db", folder.path().display())
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
    let engine = engine(&settings(&server.url())).await;
    (server, engine)
}

/// An engine with these settings.
pub(crate) async fn engine(settings: &AnalyticsConfig) -> TestEngine {
    let folder = TempDir::new().expect("a temporary folder");
    let store = connect(&StoreConfig::at(&database(&folder)))
        .await
        .expect("a store");
    store.migrate().await.expect("the schema");
    TestEngine {
        engine: Arc::new(ClickHouse::new(settings, store.clicks().clone())),
        store,
        folder,
    }
}

/// Has the server drop at once what is past its retention in a table: parts of which all rows are.
pub(crate) fn drop_expired(server: &ClickHouseServer, table: &str) {
    let _ = server.ask(&format!(
        "ALTER TABLE edgelink.{table} MATERIALIZE TTL SETTINGS mutations_sync = 1"
    ));
}

/// Midnight two days ago (UTC), in unix seconds.
pub(crate) fn midnight() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    (now.expect("a clock after 1970").as_secs() / DAY - 2) * DAY
}

/// A chunk of clicks.
pub(crate) fn chunk(clicks: &[Click], orphans: Vec<Orphan>) -> Chunk {
    Chunk::of(vec![1], clicks, orphans)
}

/// Gives visitors another token each day, as edges do.
pub(crate) fn change_visitors_daily(clicks: &mut [Click]) {
    for click in clicks {
        let day = click.at / DAY;
        if let Some(visitor) = click.described.as_mut().and_then(|it| it.visitor.as_mut()) {
            *visitor += day << 40;
        }
    }
}

/// Random clicks within three days from a midnight on.
pub(crate) struct Random(StdRng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..limit)
    }

    fn text(&mut self, texts: &[&str]) -> Arc<str> {
        let place = self.0.random_range(0..texts.len());
        texts[place].into()
    }

    pub(crate) fn clicks(&mut self, count: usize, from: u64) -> Vec<Click> {
        (0..count).map(|_| self.click(from)).collect()
    }

    fn click(&mut self, from: u64) -> Click {
        // Link 0 is unknown; the others belong to tenants in turn.
        let link_id = self.below(12);
        let tenant_id = if link_id == 0 {
            0
        } else {
            1 + (link_id % 2) as u32
        };
        let domain_id = if link_id == 0 {
            0
        } else {
            1 + (link_id % 4) as u32
        };
        let tags: &[&str] = match link_id % 3 {
            0 => &[],
            1 => &["a tag"],
            _ => &["a tag", "it's \"another\" ?"],
        };
        let described = (self.below(4) > 0).then(|| Box::new(self.described(from)));
        Click {
            at: from + self.below(3 * DAY),
            count: if described.is_some() {
                1
            } else {
                1 + self.below(5)
            },
            link_id,
            tenant_id,
            domain_id,
            key: format!("d{domain_id}.example/code{link_id}").into(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            described,
        }
    }

    fn described(&mut self, _: u64) -> Described {
        let is_bot = self.below(5) == 0;
        let devices = [
            Device::Unknown,
            Device::Desktop,
            Device::Mobile,
            Device::Tablet,
            Device::Other,
        ];
        let device = devices[self.0.random_range(0..devices.len())];
        Described {
            status: [301, 302, 307, 308][self.0.random_range(0..4)],
            rule: self.below(3) as u8,
            country: self.text(&["", "DE", "FR", "US"]),
            city: self.text(&[
                "",
                "Köln",
                "Saint-Denis",
                "L'Aquila\\'); DROP TABLE clicks --",
            ]),
            user_agent: self.text(&["", "Mozilla/5.0 ?", "curl/8"]),
            agent: Arc::new(Agent {
                device,
                browser: self.text(&["", "Firefox", "Chrome"]),
                os: self.text(&["", "Linux", "Android"]),
                is_bot,
            }),
            referrer: self.text(&["", "a.example", "b.example"]),
            language: self.text(&["", "de", "en-us"]),
            utm: [
                self.text(&["", "news"]),
                self.text(&["", "mail"]),
                self.text(&["", "autumn", "spring"]),
                self.text(&[""]),
                self.text(&["", "x", "y", "z"]),
            ],
            // Few, so that visitors come back, on other days too.
            visitor: (self.below(4) > 0).then(|| 1 + self.below(200) * 0x9e37_79b9),
            id: (self.below(3) == 0).then(|| [self.below(256) as u8; 16]),
        }
    }

    pub(crate) fn orphans(&mut self, count: usize, from: u64) -> Vec<Orphan> {
        let kinds = [
            OrphanKind::BaseUrl,
            OrphanKind::InvalidShortUrl,
            OrphanKind::Regular404,
        ];
        let orphans = (0..count).map(|_| Orphan {
            at: from + self.below(3 * DAY),
            kind: kinds[self.0.random_range(0..3)],
            tenant_id: 1 + self.below(2) as u32,
            domain_id: self.below(3) as u32,
            url: self.text(&["d1.example/", "d1.example/no where", "d2.example/%00'"]),
            described: Box::new(self.described(from)),
        });
        orphans.collect()
    }
}
