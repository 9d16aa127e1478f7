//! The audit log.

use crate::store::fixture::{
    Database, account, as_it_is, create, delete, key, link, migrated, patient,
};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::{FIRST_TENANT, Role};
use edgelink_store::{Actor, AuditQuery, LinkMove, Store};
use edgelink_tests::servers::MariaDb;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row, raw_sql};

on_every_database!(
    audit_entries_when_filtered_come_newest_first,
    audit_entries_when_paged_continue_at_the_cursor,
    audit_entries_when_of_another_tenant_are_not_read,
    audit_entries_when_old_are_purged_in_batches,
    history_when_a_code_is_reused_begins_with_its_link,
);

/// Names the link at a place.
async fn entitle(store: &Store, place: &str) {
    let with_title = |link: &Link| {
        let mut content = CheckedContent::existing(link);
        content.change_others(|others| others.title = Some("t".to_owned()));
        Ok(content)
    };
    let (place, actor) = (key(place), actor("a"));
    let changed = store.update_link(&place, Box::new(with_title), &actor);
    assert!(matches!(changed.await.unwrap(), Some(Ok(_))));
}

/// Moves a link to a free place, where it has the number `id`.
async fn relocate(store: &Store, from: &str, to: &str, id: u64) {
    let wanted = LinkMove {
        from: key(from),
        to: key(to),
        keeps_old: false,
    };
    let actor = actor("a");
    let moved = store.move_link(&wanted, id, as_it_is(), &actor);
    assert!(matches!(moved.await.unwrap(), Some(Ok(_))));
}

/// What was done with the link at a place, the last first.
async fn history(store: &Store, place: &str) -> Vec<String> {
    let link = store.find_link(&key(place)).await.unwrap().unwrap();
    let query = AuditQuery::of_tenant(FIRST_TENANT, 9);
    let subject = format!("link:{place}");
    let entries = store.link_history(&query, &subject, link.created_at);
    let entries = entries.await.unwrap().into_iter();
    entries.map(|entry| entry.action).collect()
}

async fn history_when_a_code_is_reused_begins_with_its_link(database: Database) {
    let store = database.store().await;
    let (a, b) = ("a.example/a", "a.example/b");
    create(&store, link(1, "a")).await.unwrap();
    entitle(&store, a).await;
    assert_eq!(history(&store, a).await, ["link.update"]);
    delete(&store, &key(a)).await.unwrap();
    let (place, actor) = (key(a), actor("a"));
    let restored = store.restore_link(&place, as_it_is(), &actor);
    assert!(matches!(restored.await.unwrap(), Some(Ok(_))));
    let whole = ["link.restore", "link.delete", "link.update"];
    assert_eq!(history(&store, a).await, whole);
    // Another link at its place, and the link at another place.
    relocate(&store, a, b, 2).await;
    assert_eq!(history(&store, b).await, ["link.move"]);
    create(&store, link(3, "a")).await.unwrap();
    assert!(history(&store, a).await.is_empty());
    entitle(&store, a).await;
    assert_eq!(history(&store, a).await, ["link.update"]);
    // A link that is older than what has happened at its place.
    delete(&store, &key(a)).await.unwrap();
    relocate(&store, b, a, 4).await;
    assert_eq!(history(&store, a).await, ["link.move"]);
}

fn actor(key_id: &str) -> Actor {
    Actor {
        key_id: key_id.to_owned(),
        ..Actor::command_line(FIRST_TENANT)
    }
}

/// Makes users, each by another actor: an entry for each.
async fn make_users(store: &Store, names: &[&str]) {
    for name in names {
        let made = store
            .insert_user(&account(name), Role::Reader, None, &actor(name))
            .await;
        assert!(made.unwrap().is_ok());
    }
}

async fn names(store: &Store, query: AuditQuery) -> Vec<String> {
    let entries = store.audit_entries(&query).await.unwrap();
    let name = |detail: &serde_json::Value| detail["name"].as_str().unwrap().to_owned();
    entries.iter().map(|entry| name(&entry.detail)).collect()
}

async fn audit_entries_when_filtered_come_newest_first(database: Database) {
    let store = database.store().await;
    make_users(&store, &["a", "b", "c"]).await;
    let all = AuditQuery::of_tenant(FIRST_TENANT, 9);
    assert_eq!(names(&store, all.clone()).await, ["c", "b", "a"]);
    let entries = store.audit_entries(&all).await.unwrap();
    let text = |text: &str| Some(text.to_owned());
    for (query, expected) in [
        (
            AuditQuery {
                actor: text("b"),
                ..all.clone()
            },
            vec!["b"],
        ),
        (
            AuditQuery {
                action: text("user.create"),
                ..all.clone()
            },
            vec!["c", "b", "a"],
        ),
        (
            AuditQuery {
                action: text("user"),
                ..all.clone()
            },
            vec![],
        ),
        (
            AuditQuery {
                subject: text(&entries[2].subject),
                ..all.clone()
            },
            vec!["a"],
        ),
        (
            AuditQuery {
                subject: text(&entries[2].subject),
                actor: text("b"),
                ..all.clone()
            },
            vec![],
        ),
    ] {
        assert_eq!(names(&store, query.clone()).await, expected, "{query:?}");
    }
}

async fn audit_entries_when_paged_continue_at_the_cursor(database: Database) {
    let store = database.store().await;
    make_users(&store, &["a", "b", "c"]).await;
    let query = AuditQuery::of_tenant(FIRST_TENANT, 2);
    let first = store.audit_entries(&query).await.unwrap();
    assert_eq!(first.len(), 2);
    let next = AuditQuery {
        before: Some(first[1].id),
        ..query
    };
    assert_eq!(names(&store, next).await, ["a"]);
}

async fn audit_entries_when_of_another_tenant_are_not_read(database: Database) {
    let store = database.store().await;
    make_users(&store, &["a"]).await;
    let entries = store.audit_entries(&AuditQuery::of_tenant(2, 9)).await;
    assert!(entries.unwrap().is_empty());
}

async fn audit_entries_when_old_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    make_users(&store, &["a", "b", "c"]).await;
    database
        .execute("UPDATE audit SET at = at - 100000 WHERE id <= 2")
        .await;
    assert_eq!(store.purge_audit(200_000, 9).await.unwrap(), 0);
    assert_eq!(store.purge_audit(50_000, 1).await.unwrap(), 1);
    assert_eq!(store.purge_audit(50_000, 9).await.unwrap(), 1);
    let all = AuditQuery::of_tenant(FIRST_TENANT, 9);
    assert_eq!(names(&store, all).await, ["c"]);
}

/// Every query of the log is a range of an index, however many entries there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_page_when_read_is_a_range_of_an_index() {
    let server = MariaDb::start_with(&["--general-log=1", "--log-output=TABLE"]);
    let url = server.database();
    let store = migrated(&patient(&url)).await;
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    raw_sql(
        "INSERT INTO audit (at, tenant_id, actor, action, subject, detail) SELECT seq, 1, seq % 7, seq % 5, seq % 100, '{}' \
         FROM seq_1_to_20000; ANALYZE TABLE audit",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let all = AuditQuery::of_tenant(FIRST_TENANT, 7_777);
    let some = |text: &str| Some(text.to_owned());
    for query in [
        all.clone(),
        AuditQuery {
            subject: some("3"),
            before: Some(15_000),
            ..all.clone()
        },
        AuditQuery {
            actor: some("3"),
            action: some("4"),
            ..all.clone()
        },
        AuditQuery {
            action: some("4"),
            ..all.clone()
        },
    ] {
        assert!(!store.audit_entries(&query).await.unwrap().is_empty());
    }
    let read: Vec<(String,)> = sqlx::query_as(
        "SELECT CAST(argument AS CHAR) FROM mysql.general_log \
         WHERE command_type = 'Execute' AND argument LIKE 'SELECT id, at%'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(read.len(), 4, "{read:?}");
    for (query,) in read {
        let explain = AssertSqlSafe(format!("EXPLAIN {query}"));
        let plan = raw_sql(explain).fetch_all(&mut connection).await.unwrap();
        let of = |row: &MySqlRow, column| row.get::<Option<String>, _>(column).unwrap_or_default();
        let [row] = plan.as_slice() else {
            panic!("{} rows: {query}", plan.len());
        };
        assert!(of(row, "key").starts_with("audit_of_"), "{query}");
        assert_eq!(of(row, "type"), "range", "{query}");
        assert!(!of(row, "Extra").contains("filesort"), "{query}");
    }
}
