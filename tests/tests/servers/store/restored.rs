//! A copy of the database that takes its place, beneath processes that have known what is lost.

use crate::store::fixture::{Database, account, content, create, key, migrated, patient};
use edgelink_model::drawn::Drawn;
use edgelink_model::tenancy::{Bounds, Role};
use edgelink_settings::domains::model::DomainDetails;
use edgelink_store::{
    Actor, ApiKeyRow, FeedKind, FlushReason, IDS_SKIPPED, LeaseClaim, MAX_LEASE_MILLIS, NewDomain,
    NewLink, Past, SigningKey, Store, StoreError, WebhookRow, WebhookState,
};
use edgelink_tests::servers::MariaDb;
use edgelink_wire::{Domain, FeedPosition};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

on_every_database!(ids_when_the_database_is_restored_are_not_repeated);

/// The ids of a tenant, a user, a domain and a webhook.
type Ids = [u64; 4];

/// Makes one of each.
async fn make(store: &Store, name: &str) -> Result<Ids, StoreError> {
    let actor = Actor::command_line(1);
    let key = ApiKeyRow {
        id: format!("key-{name}"),
        name: name.to_owned(),
        secret_hash: [0; 32],
        previous: None,
        tenant_id: 0,
        user_id: 0,
        role: Role::Admin,
        bounds: Bounds::default(),
        expires_at: None,
        quota: None,
        used: 0,
        created_at: 1,
        last_used_at: None,
    };
    let tenant = store.insert_tenant(&account(name), &key, &actor).await?;
    let user = store
        .insert_user(&account(name), Role::Reader, None, &actor)
        .await?;
    let domain = store.insert_domain(&domain(name), &actor).await?;
    let webhook = store.insert_webhook(&webhook(), &actor, json!({})).await?;
    Ok([
        tenant.expect("a tenant").0.id.into(),
        user.expect("a user").id,
        domain.expect("a domain").id.into(),
        webhook.expect("a webhook").id,
    ])
}

fn webhook() -> WebhookRow {
    WebhookRow {
        id: 0,
        tenant_id: 1,
        url: "https://hooks.example/".to_owned(),
        events: Vec::new(),
        secret: SigningKey([7; 32]),
        previous_secret: None,
        state: WebhookState::Active,
        failures: 0,
        failing_since: None,
        created_at: 0,
        updated_at: 0,
    }
}

fn domain(name: &str) -> NewDomain {
    NewDomain {
        domain: Domain::parse(&format!("{name}.example")).expect("a domain"),
        details: DomainDetails::default(),
        token: "t".to_owned(),
        is_verified: true,
        max_of_tenant: u64::MAX,
        max_unverified: u64::MAX,
    }
}

/// The newest rows go, and with them what the database knows of their ids, as it has not been there in the copy.
async fn lose_newest(database: &Database, [tenant, user, domain, webhook]: Ids) {
    let users = format!("id >= {user} OR tenant_id >= {tenant}");
    let mut script = format!(
        "DELETE FROM api_keys WHERE tenant_id >= {tenant}; DELETE FROM users WHERE {users}; \
         DELETE FROM tenants WHERE id >= {tenant}; DELETE FROM domains WHERE id >= {domain}; \
         DELETE FROM webhooks WHERE id >= {webhook}"
    );
    if database.is_sqlite() {
        script += "; UPDATE sqlite_sequence SET seq = 0 WHERE name = 'webhooks'";
    } else {
        for table in ["tenants", "users", "domains", "webhooks"] {
            script += &format!("; ALTER TABLE {table} AUTO_INCREMENT = 1");
        }
    }
    database.execute(&script).await;
}

fn claim() -> LeaseClaim<'static> {
    LeaseClaim {
        owner: "one",
        kind: FeedKind::Redis,
        lease_millis: MAX_LEASE_MILLIS,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    }
}

async fn ids_when_the_database_is_restored_are_not_repeated(database: Database) {
    let store = database.store().await;
    make(&store, "kept").await.unwrap();
    let lost = make(&store, "lost").await.unwrap();
    lose_newest(&database, lost).await;
    let reason = FlushReason::Restored { links_since: None };
    let (_, skipped) = store.flush(reason).await.unwrap();
    assert!(skipped.unwrap().ids >= IDS_SKIPPED);
    let first = make(&store, "first").await.unwrap();
    let second = make(&store, "second").await.unwrap();
    for (index, lost) in lost.into_iter().enumerate() {
        assert!(first[index] > lost + IDS_SKIPPED / 2, "{first:?}");
        assert!(second[index] > first[index], "{second:?}");
    }
    // A database that is noticed to have gone back.
    lose_newest(&database, second).await;
    let taken = store.take_publisher_lease(&claim()).await.unwrap().unwrap();
    let past = Past::WentBack {
        token: taken.token,
        drawn: Drawn::default(),
    };
    store.begin_generation(taken.token, past).await.unwrap();
    let third = make(&store, "third").await.unwrap();
    for (index, lost) in second.into_iter().enumerate() {
        assert!(third[index] > lost + IDS_SKIPPED / 2, "{third:?}");
    }
    // The first copy a second time, which knows of no repair, some seconds later.
    lose_newest(&database, lost).await;
    database
        .execute(
            "DELETE FROM counters WHERE name LIKE 'ids of %'; \
             UPDATE publisher SET generation = generation + 10000000",
        )
        .await;
    store.flush(reason).await.unwrap();
    let fourth = make(&store, "fourth").await.unwrap();
    for (index, first) in first.into_iter().enumerate() {
        assert!(fourth[index] > first + 10, "{fourth:?}");
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp").success());
}

/// Replaces the files of a server by a copy, beneath processes that go on.
fn put_back(server: &mut MariaDb, saved: &Path) {
    server.kill();
    fs::remove_dir_all(server.data()).expect("the files of MariaDB");
    copy(saved, &server.data());
    server.restart();
}

fn on(id: u64, name: &str) -> NewLink {
    let key = key(&format!("{name}.example/x{id}"));
    NewLink::new(id, key, content("https://x.example/"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_and_ids_when_a_copy_was_put_back_keep_their_owners() {
    let mut server = MariaDb::start();
    let url = server.database();
    let store = migrated(&patient(&url)).await;
    let store = store.with_configured_domains(&[]);
    let folder = TempDir::new().expect("a temporary folder");
    let saved = folder.path().join("data");
    server.kill();
    copy(&server.data(), &saved);
    server.restart();

    store.take_publisher_lease(&claim()).await.unwrap().unwrap();
    let lost = make(&store, "one").await.unwrap();
    create(&store, on(1, "one")).await.unwrap();
    put_back(&mut server, &saved);

    // One that has known what is lost makes nothing until it is repaired.
    let error = make(&store, "one").await.expect_err("it went back");
    assert!(
        error.is_transient() && error.to_string().contains("went back"),
        "{error}"
    );
    // One that has not known it may.
    let other: Arc<Store> = migrated(&patient(&url)).await;
    let actor = Actor::command_line(1);
    for name in ["two", "one"] {
        let made = other.insert_domain(&domain(name), &actor).await.unwrap();
        made.unwrap();
    }
    create(&store, on(2, "one")).await.unwrap();
    let found = other.find_link(&on(2, "one").key).await.unwrap();
    assert_eq!(found.map(|link| link.id), Some(2));
    let elsewhere = other.find_link(&key("two.example/x2")).await.unwrap();
    assert_eq!(elsewhere, None);

    let taken = other.take_publisher_lease(&claim()).await.unwrap().unwrap();
    let past = Past::WentBack {
        token: taken.token + 1,
        drawn: Drawn::default(),
    };
    other.begin_generation(taken.token, past).await.unwrap();
    let made = make(&store, "three").await.unwrap();
    for (made, lost) in made.into_iter().zip(lost) {
        assert!(made > lost, "{made} was out before");
    }
}
