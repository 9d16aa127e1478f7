//! A fresh database for each test, links to put into it, and running one test on every database.

use edgelink_model::links::checked::{CheckedContent, CheckedTarget};
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::tenancy::AccountName;
use edgelink_settings::config::StoreConfig;
use edgelink_store::{
    Actor, ChangeFn, CreateError, LinkChange, NewLink, Store, StoreError, connect,
};
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::root;
use edgelink_wire::LinkKey;
use edgelink_wire::target::{TargetRules, TargetUrl};
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, raw_sql};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

/// An empty database of one test.
pub(crate) struct Database {
    url: String,
    _folder: Option<TempDir>,
}

impl Database {
    /// A new SQLite file.
    pub(crate) fn sqlite() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self {
            url: format!("sqlite://{}/edgelink.db", folder.path().display()),
            _folder: Some(folder),
        }
    }

    /// A new database on the server that all tests share.
    pub(crate) async fn on_server() -> Self {
        let server = server_url();
        let name = unique_name();
        let mut connection = MySqlConnection::connect(&format!("{server}/mysql"))
            .await
            .expect("a connection to the server");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("a new database");
        Self {
            url: format!("{server}/{name}"),
            _folder: None,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A schema of an older version, and then statements that both dialects understand.
    pub(crate) async fn begin_at(&self, version: i64, statements: &[&str]) {
        let (dialect, _) = self.url.split_once(':').expect("a URL");
        let folder = root().join("control-plane/store/migrations").join(dialect);
        let mut migrator = Migrator::new(folder).await.expect("migrations");
        // As the store does: see there.
        migrator.set_locking(false);
        if dialect == "sqlite" {
            let options = SqliteConnectOptions::from_str(&self.url).expect("a URL");
            let options = options.create_if_missing(true);
            let mut connection = options.connect().await.expect("a connection");
            let migrated = migrator.run_to(version, &mut connection).await;
            migrated.expect("a schema");
        } else {
            let connection = MySqlConnection::connect(&self.url).await;
            let mut connection = connection.expect("a connection");
            let migrated = migrator.run_to(version, &mut connection).await;
            migrated.expect("a schema");
        }
        self.execute(&statements.join("; ")).await;
    }

    /// Executes statements that both dialects understand.
    pub(crate) async fn execute(&self, script: &str) {
        let script = AssertSqlSafe(script.to_owned());
        if self.url.starts_with("sqlite") {
            let options = SqliteConnectOptions::from_str(&self.url).expect("a URL");
            let mut connection = options.connect().await.expect("a connection");
            let done = raw_sql(script).execute(&mut connection);
            done.await.expect("statements");
        } else {
            let connection = MySqlConnection::connect(&self.url).await;
            let mut connection = connection.expect("a connection");
            let done = raw_sql(script).execute(&mut connection);
            done.await.expect("statements");
        }
    }

    /// Whether it is a file.
    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite")
    }

    /// How many rows there are, by a table and a condition.
    pub(crate) async fn count(&self, of: &str) -> i64 {
        let query = AssertSqlSafe(format!("SELECT COUNT(*) FROM {of}"));
        if self.url.starts_with("sqlite") {
            let options = SqliteConnectOptions::from_str(&self.url).expect("a URL");
            let mut connection = options.connect().await.expect("a connection");
            let count = sqlx::query_scalar(query).fetch_one(&mut connection);
            count.await.expect("a number")
        } else {
            let connection = MySqlConnection::connect(&self.url).await;
            let mut connection = connection.expect("a connection");
            let count = sqlx::query_scalar(query).fetch_one(&mut connection);
            count.await.expect("a number")
        }
    }

    /// A store with its schema, on connections of its own.
    pub(crate) async fn store(&self) -> Arc<Store> {
        migrated(&patient(&self.url)).await
    }
}

/// More patience than by default: these tests are not about time, and the machine may be building meanwhile.
pub(crate) fn patient(url: &str) -> StoreConfig {
    StoreConfig {
        timeout_ms: Duration::from_secs(20),
        ..StoreConfig::at(url)
    }
}

/// A store with its schema.
pub(crate) async fn migrated(config: &StoreConfig) -> Arc<Store> {
    let store = connect(config).await.expect("a store");
    store.migrate().await.expect("a schema");
    store
}

/// The server's URL without a database.
fn server_url() -> String {
    static MARIADB: OnceLock<MariaDb> = OnceLock::new();
    match std::env::var("EDGELINK_TEST_MYSQL_URL") {
        Ok(url) => url.trim_end_matches('/').to_owned(),
        Err(_) => {
            let server = MARIADB.get_or_init(MariaDb::start);
            server.url("").trim_end_matches('/').to_owned()
        }
    }
}

/// Unique even on a server that outlives this process.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("edgelink_{process}_{next}")
}

pub(crate) fn key(text: &str) -> LinkKey {
    text.parse().expect("a key")
}

/// The name of an account.
pub(crate) fn account(text: &str) -> AccountName {
    AccountName::parse(text).expect("a name")
}

pub(crate) fn content(target: &str) -> LinkContent {
    LinkContent::to(TargetUrl::from_store(target))
}

/// Rules that refuse nothing but what is no target.
const OPEN: TargetRules<'static> = TargetRules {
    own_domains: &[],
    is_made: &|_| false,
    blocked_hosts: &[],
};

/// A content whose targets were checked.
pub(crate) fn checked(content: &LinkContent) -> CheckedContent {
    CheckedContent::renewed(content, &OPEN).expect("targets")
}

/// A target that was checked.
pub(crate) fn checked_target(text: &str) -> CheckedTarget {
    CheckedTarget::check(text, &OPEN).expect("a target")
}

/// A change of the title.
pub(crate) fn titled(title: &str) -> LinkChange {
    let title = Some(title.to_owned());
    changed(move |others| others.title.clone_from(&title))
}

/// A change of the external id.
pub(crate) fn identified(id: &str) -> LinkChange {
    let external_id = Some(id.to_owned());
    changed(move |others| others.external_id.clone_from(&external_id))
}

fn changed(change: impl Fn(&mut LinkContent) + Send + Sync + 'static) -> LinkChange {
    LinkChange::Update(Box::new(move |link: &Link| {
        let mut content = CheckedContent::existing(link);
        content.change_others(&change);
        Ok(content)
    }))
}

/// Restores or moves any link as it is.
pub(crate) fn as_it_is() -> ChangeFn {
    Box::new(|link: &Link| Ok(CheckedContent::existing(link)))
}

/// A link on `a.example` to `https://x.example/{code}`.
pub(crate) fn link(id: u64, code: &str) -> NewLink {
    let content = content(&format!("https://x.example/{code}"));
    NewLink::new(id, key(&format!("a.example/{code}")), content)
}

/// Creates one link.
pub(crate) async fn create(store: &Store, new: NewLink) -> Result<Link, CreateError> {
    let mut answers = store.create_links(vec![new]).await.expect("an answer");
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// Whether there is a link with this key.
pub(crate) async fn exists(store: &Store, text: &str) -> bool {
    let found = store.find_link(&key(text)).await.expect("an answer");
    found.is_some()
}

/// Deletes a link whatever it is by now; whether there was one.
pub(crate) async fn delete(store: &Store, key: &LinkKey) -> Result<bool, StoreError> {
    let deleted = store
        .delete_link(key, Box::new(|_| Ok(())), &Actor::command_line(1))
        .await?;
    Ok(deleted.is_some())
}

/// Makes a test of each function for each database: `sqlite::name` and `server::name`.
macro_rules! on_every_database {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::store::fixture::Database::sqlite()).await;
                }
            )+
        }

        mod server {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::store::fixture::Database::on_server().await).await;
                }
            )+
        }
    };
}
