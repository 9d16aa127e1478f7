//! Changes of single links that share a transaction.

use crate::store::fixture::{Database, create, delete, exists, identified, key, link, titled};
use edgelink_model::links::model::Link;
use edgelink_store::{Actor, ChangeError, ChangeOutcome, LinkChange, SingleChange, Store};
use edgelink_tests::stack::until;
use edgelink_wire::LinkKey;
use sqlx::{Connection, MySqlConnection, raw_sql};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

const LIMIT: Duration = Duration::from_secs(60);

on_every_database!(
    changes_when_one_is_refused_are_made_without_it,
    change_when_its_link_is_in_the_batch_already_is_left_out,
    changes_when_of_several_tenants_keep_their_authors,
    external_id_when_a_batch_gives_it_to_two_goes_to_one,
    turn_when_the_commit_is_sent_ends,
);

/// A change of a link that has this revision.
fn titled_at(rev: u64, title: &str) -> LinkChange {
    let LinkChange::Update(change) = titled(title) else {
        unreachable!();
    };
    LinkChange::Update(Box::new(move |link: &Link| {
        if link.rev == rev {
            change(link)
        } else {
            Err(ChangeError::Changed)
        }
    }))
}

async fn change(
    store: &Store,
    changes: &[(LinkKey, LinkChange)],
    actors: &[Actor],
) -> Vec<Option<ChangeOutcome>> {
    let changes = changes.iter().zip(actors.iter().cycle());
    let changes: Vec<SingleChange<'_>> = changes
        .map(|((key, change), actor)| SingleChange { key, change, actor })
        .collect();
    store
        .change_free_links(&changes, ())
        .await
        .expect("outcomes")
}

/// Makes changes together, and alone where they are left out, as those that give an external id may be.
async fn change_in_the_end<const N: usize>(
    store: &Store,
    changes: [(LinkKey, LinkChange); N],
) -> Vec<ChangeOutcome> {
    let together = change(store, &changes, &by_first()).await;
    let mut outcomes = Vec::new();
    for (outcome, (key, change)) in together.into_iter().zip(changes) {
        let actor = Actor::command_line(1);
        outcomes.push(match outcome {
            Some(outcome) => outcome,
            None => store
                .change_link(&key, change, &actor)
                .await
                .expect("an outcome"),
        });
    }
    outcomes
}

fn by_first() -> [Actor; 1] {
    [Actor::command_line(1)]
}

async fn title(store: &Store, text: &str) -> Option<String> {
    let found = store.find_link(&key(text)).await.expect("an answer");
    found.expect("a link").content.title
}

async fn changes_when_one_is_refused_are_made_without_it(database: Database) {
    let store = database.store().await;
    let made = create(&store, link(1, "a")).await.unwrap();
    for (id, code) in [(2, "b"), (3, "c")] {
        create(&store, link(id, code)).await.unwrap();
    }
    let changes = [
        (key("a.example/a"), titled_at(made.rev, "one")),
        (key("a.example/b"), titled_at(made.rev - 1, "two")),
        (key("a.example/never"), titled("three")),
        (key("a.example/c"), LinkChange::Delete(Box::new(|_| Ok(())))),
    ];
    let outcomes = change(&store, &changes, &by_first()).await;
    let Some(Some(Ok(changed))) = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(changed.rev > made.rev);
    assert_eq!(outcomes[1], Some(Some(Err(ChangeError::Changed))));
    assert_eq!(outcomes[2], Some(None));
    assert!(matches!(outcomes[3], Some(Some(Ok(_)))), "{outcomes:?}");
    assert_eq!(title(&store, "a.example/a").await.as_deref(), Some("one"));
    assert_eq!(title(&store, "a.example/b").await, None);
    assert!(!exists(&store, "a.example/c").await);
    // Each has an entry of its own in the audit log, and a record in the outbox.
    assert_eq!(database.count("audit").await, 2);
}

async fn change_when_its_link_is_in_the_batch_already_is_left_out(database: Database) {
    let store = database.store().await;
    let made = create(&store, link(1, "a")).await.unwrap();
    let changes = [
        (made.key(), titled_at(made.rev, "one")),
        (made.key(), titled_at(made.rev, "two")),
    ];
    let outcomes = change(&store, &changes, &by_first()).await;
    assert!(
        matches!(outcomes[..], [Some(Some(Ok(_))), None]),
        "{outcomes:?}"
    );
    assert_eq!(title(&store, "a.example/a").await.as_deref(), Some("one"));
    // Behind the first one, it has another revision before it.
    let [_, (key, second)] = changes;
    let outcome = store
        .change_link(&key, second, &Actor::command_line(1))
        .await;
    assert_eq!(outcome.unwrap(), Some(Err(ChangeError::Changed)));
}

async fn changes_when_of_several_tenants_keep_their_authors(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b")] {
        create(&store, link(id, code)).await.unwrap();
    }
    let changes = [
        (key("a.example/a"), titled("one")),
        (key("a.example/b"), titled("two")),
    ];
    let actors = [Actor::of_session(1, 5, None), Actor::of_session(2, 6, None)];
    let outcomes = change(&store, &changes, &actors).await;
    assert!(outcomes.iter().all(|one| matches!(one, Some(Some(Ok(_))))));
    for entry in [
        "tenant_id = 1 AND user_id = 5",
        "tenant_id = 2 AND user_id = 6",
    ] {
        assert_eq!(database.count(&format!("audit WHERE {entry}")).await, 1);
    }
}

async fn external_id_when_a_batch_gives_it_to_two_goes_to_one(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        create(&store, link(id, code)).await.unwrap();
    }
    let taken = [(key("a.example/d"), identified("taken"))];
    let outcomes = change_in_the_end(&store, taken).await;
    assert!(matches!(outcomes[0], Some(Ok(_))), "{outcomes:?}");
    let changes = [
        (key("a.example/a"), identified("one")),
        (key("a.example/b"), identified("one")),
        (key("a.example/c"), identified("taken")),
    ];
    let outcomes = change_in_the_end(&store, changes).await;
    let refused = Some(Err(ChangeError::ExternalIdTaken));
    assert!(matches!(outcomes[0], Some(Ok(_))), "{outcomes:?}");
    assert_eq!((&outcomes[1], &outcomes[2]), (&refused, &refused));
}

async fn turn_when_the_commit_is_sent_ends(database: Database) {
    let store = database.store().await;
    let (turn, ended) = oneshot::channel::<()>();
    let created = store.create_links_in_turn(vec![link(1, "a")], turn).await;
    assert!(created.unwrap()[0].is_ok());
    ended.await.expect_err("it is dropped");
    let (turn, ended) = oneshot::channel::<()>();
    let (key, change, actor) = (key("a.example/a"), titled("one"), Actor::command_line(1));
    let changes = [SingleChange {
        key: &key,
        change: &change,
        actor: &actor,
    }];
    let changed = store.change_free_links(&changes, turn).await;
    assert!(changed.unwrap()[0].is_some());
    ended.await.expect_err("it is dropped");
}

/// Another replica has one of the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_when_locked_by_others_delays_no_other_change() {
    let database = Database::on_server().await;
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b")] {
        create(&store, link(id, code)).await.unwrap();
    }
    let mut outsider = MySqlConnection::connect(database.url()).await.unwrap();
    for lock in [
        "START TRANSACTION; SELECT id FROM links WHERE id = 1 FOR UPDATE",
        "START TRANSACTION; UPDATE links SET title = 'theirs' WHERE id = 1",
    ] {
        raw_sql(lock).execute(&mut outsider).await.unwrap();
        let changes = [
            (key("a.example/a"), titled("ours")),
            (key("a.example/b"), titled("ours")),
        ];
        let outcomes = change(&store, &changes, &by_first()).await;
        assert!(
            matches!(outcomes[..], [None, Some(Some(Ok(_)))]),
            "{outcomes:?}"
        );
        raw_sql("COMMIT").execute(&mut outsider).await.unwrap();
        assert_eq!(title(&store, "a.example/b").await.as_deref(), Some("ours"));
    }
    assert_eq!(
        title(&store, "a.example/a").await.as_deref(),
        Some("theirs")
    );
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
}

/// Another call of this process has one of the rows, and waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_when_another_call_wants_it_is_left_out() {
    let database = Database::on_server().await;
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b")] {
        create(&store, link(id, code)).await.unwrap();
    }
    let mut outsider = MySqlConnection::connect(database.url()).await.unwrap();
    let lock = "START TRANSACTION; SELECT id FROM links WHERE id = 1 FOR UPDATE";
    raw_sql(lock).execute(&mut outsider).await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { delete(&store, &key("a.example/a")).await }
    });
    let is_waited_for = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
        AND id <> CONNECTION_ID() AND info LIKE '%FOR UPDATE%'";
    until("the row is waited for", LIMIT, async || {
        let count: i64 = sqlx::query_scalar(is_waited_for)
            .fetch_one(&mut outsider)
            .await
            .unwrap();
        (count > 0).then_some(())
    })
    .await;
    let changes = [
        (key("a.example/a"), titled("ours")),
        (key("a.example/b"), titled("ours")),
    ];
    let outcomes = change(&store, &changes, &by_first()).await;
    assert!(
        matches!(outcomes[..], [None, Some(Some(Ok(_)))]),
        "{outcomes:?}"
    );
    raw_sql("COMMIT").execute(&mut outsider).await.unwrap();
    assert!(waiting.await.unwrap().unwrap());
}
