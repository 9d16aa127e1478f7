//! URLs, migrations, and what a connection is set to.

use crate::store::fixture::{Database, create, key, link, patient};
use edgelink_settings::config::StoreConfig;
use edgelink_store::connect;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::until;
use sqlx::{Connection, Executor, MySqlConnection};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

const LIMIT: Duration = Duration::from_secs(60);

on_every_database!(
    schema_when_newer_is_left_as_it_is,
    migration_when_cut_off_is_run_again,
    migration_when_its_owner_has_ended_waits_for_the_lease_only,
    migration_when_run_by_several_at_once_succeeds,
    store_when_not_migrated_answers_a_ping,
    table_when_missing_is_a_permanent_error,
    link_when_created_is_seen_by_another_store,
    calls_when_more_than_connections_wait_for_their_turn,
);

async fn migration_when_run_by_several_at_once_succeeds(database: Database) {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let url = database.url().to_owned();
            tokio::spawn(async move {
                let store = connect(&patient(&url)).await.unwrap();
                store.migrate().await.unwrap();
                store.migrate().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    create(&*database.store().await, link(1, "x"))
        .await
        .unwrap();
}

async fn store_when_not_migrated_answers_a_ping(database: Database) {
    let store = connect(&patient(database.url())).await.unwrap();
    store.ping().await.unwrap();
}

async fn table_when_missing_is_a_permanent_error(database: Database) {
    let store = connect(&patient(database.url())).await.unwrap();
    let error = store.has_api_keys().await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    assert_eq!(error.context, "looking for API keys");
}

async fn link_when_created_is_seen_by_another_store(database: Database) {
    let (one, other) = (database.store().await, database.store().await);
    for n in 0..20 {
        let created = create(&one, link(n, &format!("c{n}"))).await.unwrap();
        assert_eq!(
            other.find_link(&created.key()).await.unwrap(),
            Some(created)
        );
    }
}

async fn calls_when_more_than_connections_wait_for_their_turn(database: Database) {
    database.store().await;
    let few = StoreConfig {
        max_connections: 2,
        ..patient(database.url())
    };
    let store = connect(&few).await.unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { create(&store, link(n, &format!("c{n}"))).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn store_url_when_it_names_no_store_is_refused() {
    for url in [
        "",
        "edgelink.db",
        "postgres://localhost/x",
        "sqlite::memory:",
        "mysql://[x",
    ] {
        let Err(error) = connect(&patient(url)).await else {
            panic!("{url} is taken");
        };
        assert!(!error.is_transient(), "{url}: {error}");
    }
}

#[tokio::test]
async fn database_when_missing_is_a_transient_error_naming_it() {
    let database = Database::on_server().await;
    let missing = format!("{}_missing", database.url());
    let Err(error) = connect(&patient(&missing)).await else {
        panic!("connected");
    };
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("_missing"), "{error}");
}

/// As when it is restored while control planes run.
#[tokio::test]
async fn database_when_dropped_is_a_transient_error_until_it_is_back() {
    let database = Database::on_server().await;
    let store = database.store().await;
    create(&store, link(1, "x")).await.unwrap();
    let (_, name) = database.url().rsplit_once('/').expect("a URL");
    database.execute(&format!("DROP DATABASE {name}")).await;
    let known = key("a.example/x");
    // The connections that were open, and then those that would be.
    for number in 2..20 {
        let error = store.find_link(&known).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        let error = store.create_links(vec![link(number, "y")]).await;
        let error = error.expect_err("there is no database");
        assert!(error.is_transient(), "{error}");
    }
    let error = store.ping().await.unwrap_err();
    assert!(error.is_transient(), "{error}");

    Database::on_server()
        .await
        .execute(&format!("CREATE DATABASE {name}"))
        .await;
    let error = store.find_link(&known).await.unwrap_err();
    assert!(
        !error.is_transient(),
        "only its tables are missing: {error}"
    );
    let other = database.store().await;
    create(&other, link(1, "x")).await.unwrap();
    assert!(store.find_link(&known).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn database_file_when_new_is_opened_by_several_at_once() {
    for _ in 0..50 {
        let database = Database::sqlite();
        let mut openings = JoinSet::new();
        for _ in 0..8 {
            let url = database.url().to_owned();
            openings.spawn(async move { connect(&patient(&url)).await.map(|_| ()) });
        }
        for opened in openings.join_all().await {
            opened.unwrap();
        }
    }
}

#[tokio::test]
async fn insert_when_slow_is_not_logged() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_ansi(false)
        .with_writer(Arc::new(file.reopen().unwrap()))
        .finish()
        .set_default();
    let database = Database::on_server().await;
    let store = database.store().await;
    // So that the domain is there and known.
    create(&store, link(1, "first")).await.unwrap();
    let mut other = MySqlConnection::connect(database.url()).await.unwrap();
    other.execute("LOCK TABLES links WRITE").await.unwrap();
    let unlock = async {
        // sqlx calls a statement slow after a second.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        other.execute("UNLOCK TABLES").await.unwrap();
    };
    let (created, ()) = tokio::join!(create(&store, link(2, "secret")), unlock);
    created.unwrap();
    drop(log);
    let text = std::fs::read_to_string(file.path()).unwrap();
    let target = "https://x.example/secret".bytes();
    let hex: String = target.map(|byte| format!("{byte:02x}")).collect();
    let line = text
        .lines()
        .find(|line| line.contains("slow") || line.to_lowercase().contains(&hex));
    assert_eq!(line, None);
}

/// After an upgrade there is a way back.
async fn schema_when_newer_is_left_as_it_is(database: Database) {
    let store = database.store().await;
    let made = create(store.as_ref(), link(1, "a")).await.unwrap();
    database
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'of a later version', TRUE, X'00', 0)",
        )
        .await;
    let again = database.store().await;
    assert_eq!(again.find_link(&made.key()).await.unwrap(), Some(made));
}

async fn migration_when_its_owner_has_ended_waits_for_the_lease_only(database: Database) {
    let store = database.store().await;
    if !database.url().starts_with("mysql") {
        return;
    }
    let now = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)";
    database
        .execute(&format!(
            "UPDATE migration_lease SET owner = 'gone', lease_until = {now} + 1500"
        ))
        .await;
    let begun = std::time::Instant::now();
    store.migrate().await.unwrap();
    assert!(begun.elapsed().as_millis() >= 1400, "{:?}", begun.elapsed());
}

/// In SQLite none is: there all of them are one transaction.
async fn migration_when_cut_off_is_run_again(database: Database) {
    let store = database.store().await;
    let made = create(store.as_ref(), link(1, "a")).await.unwrap();
    if !database.url().starts_with("mysql") {
        return;
    }
    // What a later migration removes is there when an earlier one is cut off.
    for statement in [
        "ALTER TABLE links ADD INDEX links_live (deleted_at, created_at, id)",
        "UPDATE _sqlx_migrations SET success = FALSE WHERE version >= 30",
    ] {
        database.execute(statement).await;
    }
    let again = database.store().await;
    assert_eq!(
        again.find_link(&made.key()).await.unwrap(),
        Some(made.clone())
    );
    let floor = again.resolve(&key("a.example/never")).await.unwrap().rev();
    assert!(floor < made.rev, "what was there is kept");
}

/// A certificate of 127.0.0.1, and the authority that has issued it.
fn certificates(folder: &Path) {
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=authority -days 2 -keyout ca.key -out ca.pem && \
        openssl req -newkey rsa:2048 -nodes -subj /CN=database -keyout key.pem -out request.pem && \
        echo subjectAltName=IP:127.0.0.1 > names && \
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_certificate_when_the_url_asks_is_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let server = MariaDb::start_with(&[
        &format!("--ssl-cert={}", file("cert.pem")),
        &format!("--ssl-key={}", file("key.pem")),
    ]);
    let url = server.database();
    let checked = format!("{url}?ssl-mode=VERIFY_IDENTITY");
    let unknown = connect(&patient(&checked)).await.map(drop).unwrap_err();
    assert!(!unknown.is_transient(), "{unknown}");
    let known = format!("{checked}&ssl-ca={}", file("ca.pem"));
    let store = connect(&patient(&known)).await.expect("a store");
    store.ping().await.expect("an answer");
    connect(&patient(&url)).await.expect("a store, unchecked");
}

/// Servers that know nothing of each other, so that it can be told which of them was written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_when_it_takes_writes_is_used_as_long_as_it_does() {
    let (one, mut other) = (MariaDb::start(), MariaDb::start());
    for url in [one.database(), other.database()] {
        let store = connect(&patient(&url)).await.unwrap();
        store.migrate().await.unwrap();
        create(&store, link(1, "each")).await.unwrap();
    }
    let counts = |server: &MariaDb| server.execute("SELECT COUNT(*) FROM test_0.links");
    one.execute("SET GLOBAL read_only = 1");
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", one.port(), other.port());
    let config = patient(&format!("mysql://root@{hosts}/test_0"));
    let store = connect(&config).await.unwrap();
    create(&store, link(2, "a")).await.unwrap();
    one.execute("SET GLOBAL read_only = 0");
    create(&store, link(3, "b")).await.unwrap();
    assert_eq!((counts(&one).trim(), counts(&other).trim()), ("1", "3"));
    other.kill();
    let mut number = 4;
    while let Err(error) = store.create_links(vec![link(number, "c")]).await {
        assert!(error.is_transient() && number < 100, "{error}");
        number += 1;
    }
    assert_eq!(counts(&one).trim(), "2");
    other.restart();
    create(&store, link(100, "d")).await.unwrap();
    assert_eq!((counts(&one).trim(), counts(&other).trim()), ("3", "3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_when_lent_again_at_once_are_not_pinged() {
    let server = MariaDb::start();
    let store = connect(&patient(&server.database())).await.unwrap();
    store.migrate().await.unwrap();
    let pings = || count(&server, "Com_admin_commands");
    let before = pings();
    for n in 0..200 {
        create(&store, link(n, &format!("c{n}"))).await.unwrap();
    }
    let pinged = pings() - before;
    assert!(pinged < 100, "{pinged} pings");
    // Those that stay go back, and are pinged.
    until("it is pinged", LIMIT, async || {
        (pings() > before + pinged).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_when_a_guess_of_their_revision_was_refused_are_guessed_right_again() {
    let server = MariaDb::start();
    let store = connect(&patient(&server.database())).await.unwrap();
    store.migrate().await.unwrap();
    let rollbacks = || count(&server, "Com_rollback");
    for n in 0..3 {
        create(&store, link(n, &format!("first{n}"))).await.unwrap();
    }
    let before = rollbacks();
    create(&store, link(3, "guessed")).await.unwrap();
    assert_eq!(rollbacks(), before);

    // No clock comes there from the last answer.
    server.execute(
        "UPDATE test_0.publisher SET rev_floor = CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) + 60000000",
    );
    create(&store, link(4, "refused")).await.unwrap();
    let after = rollbacks();
    assert!(after > before, "it was refused first");
    for n in 5..10 {
        create(&store, link(n, &format!("again{n}"))).await.unwrap();
    }
    assert_eq!(rollbacks(), after);
}

/// A counter of the server.
fn count(server: &MariaDb, name: &str) -> u64 {
    let status = server.execute(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    let count = status.split_whitespace().last().unwrap();
    count.parse().unwrap()
}

/// What an error of a connection says.
async fn refusal(config: &StoreConfig) -> String {
    let Err(error) = connect(config).await else {
        panic!("connected");
    };
    assert!(error.is_transient(), "{error}");
    error.to_string()
}

/// As replicas that no one has set `read_only` on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_when_two_take_writes_without_a_cluster_are_refused() {
    let (one, mut other) = (MariaDb::start(), MariaDb::start());
    for server in [&one, &other] {
        server.execute("CREATE DATABASE test_0");
    }
    let [one_host, other_host] =
        [&one, &other].map(|server| format!("127.0.0.1:{}", server.port()));
    let config = StoreConfig {
        servers_check_ms: Duration::from_millis(100),
        timeout_ms: Duration::from_secs(1),
        ..StoreConfig::at(&format!("mysql://root@{one_host},{other_host}/test_0"))
    };
    let why = refusal(&config).await;
    assert!(
        why.contains(&one_host) && why.contains(&other_host),
        "{why}"
    );
    assert!(why.contains("read_only"), "{why}");
    other.kill();
    let store = connect(&config).await.unwrap();
    store.migrate().await.unwrap();
    create(&store, link(1, "a")).await.unwrap();
    // It was never seen to be a replica, and the one in use may take writes of other processes.
    other.restart();
    one.stop();
    for number in 2..5 {
        let created = store.create_links(vec![link(number, "b")]).await;
        assert!(created.is_err_and(|error| error.is_transient()));
    }
    one.cont();
    let mut number = 5;
    while let Err(error) = store.create_links(vec![link(number, "c")]).await {
        assert!(error.is_transient() && number < 100, "{error}");
        number += 1;
    }
    assert_eq!(other.execute("SHOW TABLES FROM test_0").trim(), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_when_one_may_take_writes_unseen_are_refused() {
    let (mut one, other) = (MariaDb::start(), MariaDb::start());
    for server in [&one, &other] {
        server.execute("CREATE DATABASE test_0");
    }
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", one.port(), other.port());
    let config = StoreConfig {
        timeout_ms: Duration::from_millis(500),
        ..StoreConfig::at(&format!("mysql://root@{hosts}/test_0"))
    };
    one.stop();
    let why = refusal(&config).await;
    assert!(
        why.contains("it is not known whether another one does"),
        "{why}"
    );
    one.cont();
    one.execute("SET GLOBAL read_only = 1");
    other.execute("SET GLOBAL read_only = 1");
    let why = refusal(&patient(config.url.expose())).await;
    assert!(why.contains("no server takes writes"), "{why}");
    // Where no server listens, none takes writes.
    other.execute("SET GLOBAL read_only = 0");
    one.kill();
    connect(&patient(config.url.expose())).await.unwrap();
}

/// As after a stop of the process, or of a Galera cluster, for longer than the lease lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_when_its_lease_is_lost_stops() {
    let database = Database::on_server().await;
    let store = database.store().await;
    let forget = "DELETE FROM _sqlx_migrations WHERE version >= 95";
    database.execute(forget).await;
    let mut holder = MySqlConnection::connect(database.url()).await.unwrap();
    holder
        .execute("LOCK TABLES click_accounts WRITE")
        .await
        .unwrap();
    let migrating = tokio::spawn(async move { store.migrate().await });
    let mut other = MySqlConnection::connect(database.url()).await.unwrap();
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE 'Waiting for table%'";
    until("it waits for the table", LIMIT, async || {
        let count: i64 = sqlx::query_scalar(waiting)
            .fetch_one(&mut other)
            .await
            .unwrap();
        (count > 0).then_some(())
    })
    .await;
    let take =
        "UPDATE migration_lease SET owner = 'another one', lease_until = lease_until + 60000";
    other.execute(take).await.unwrap();
    holder.execute("UNLOCK TABLES").await.unwrap();
    let error = migrating.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error}");
    let versions = "SELECT version FROM _sqlx_migrations WHERE version >= 95";
    let done: Vec<i64> = sqlx::query_scalar(versions)
        .fetch_all(&mut other)
        .await
        .unwrap();
    assert_eq!(done, [95]);
}
