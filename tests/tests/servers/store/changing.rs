//! Changes of many links at once, external ids, restoring and moving.

use crate::store::fixture::{
    Database, as_it_is, create, delete, exists, identified, key, link, titled,
};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::FIRST_TENANT as TENANT;
use edgelink_store::{
    Actor, ChangeError, ChangeOutcome, CreateError, LinkChange, LinkMove, MoveError, NewLink, Store,
};
use edgelink_wire::{LinkKey, Record};
use std::sync::Arc;

on_every_database!(
    links_when_changed_together_have_their_own_outcomes,
    changes_when_of_one_link_apply_in_order,
    external_id_when_taken_is_refused,
    external_id_when_its_link_is_gone_can_be_taken,
    external_ids_when_swapped_in_one_request_change_places,
    external_id_when_taken_concurrently_goes_to_one_link,
    links_when_changed_concurrently_keep_all_changes,
    link_when_restored_has_its_content_and_a_higher_revision,
    link_when_purged_is_not_restored,
    link_when_moved_over_a_tombstone_and_back_is_kept,
    move_when_its_number_is_taken_is_refused,
    move_when_concurrent_to_one_code_succeeds_once,
);

fn deletion() -> LinkChange {
    LinkChange::Delete(Box::new(|_| Ok(())))
}

async fn restore(store: &Store, text: &str) -> ChangeOutcome {
    let restored = store
        .restore_link(&key(text), as_it_is(), &Actor::command_line(1))
        .await;
    restored.unwrap()
}

fn with_id(id: u64, code: &str, external_id: &str) -> NewLink {
    let mut new = link(id, code);
    new.content.external_id = Some(external_id.to_owned());
    new
}

async fn links_when_changed_together_have_their_own_outcomes(database: Database) {
    const LINKS: u64 = 700;
    let store = database.store().await;
    let links = (0..LINKS).map(|n| link(n, &format!("c{n}")));
    store.create_links(links.collect()).await.unwrap();
    let mut changes = Vec::new();
    for n in 0..LINKS + 1 {
        let change = match n % 3 {
            0 => titled(&n.to_string()),
            1 => deletion(),
            _ => LinkChange::Update(Box::new(|_| Err(ChangeError::Changed))),
        };
        changes.push((key(&format!("a.example/c{n}")), change));
    }
    let outcomes = store
        .change_links(&changes, &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(outcomes.len(), changes.len());
    assert_eq!(outcomes[700], None, "there is no such link");
    for (n, outcome) in outcomes[..700].iter().enumerate() {
        let key = key(&format!("a.example/c{n}"));
        let found = store.find_link(&key).await.unwrap();
        let record = store.resolve(&key).await.unwrap();
        match (n % 3, outcome) {
            (0, Some(Ok(link))) => {
                assert_eq!(link.content.title, Some(n.to_string()));
                assert_eq!(found.as_ref(), Some(link));
                assert_eq!(record, link.record().to_owned_record());
            }
            (1, Some(Ok(link))) => {
                assert_eq!(found, None);
                assert_eq!(record, Record::Absent { rev: link.rev });
            }
            (2, Some(Err(ChangeError::Changed))) => assert!(found.is_some()),
            _ => panic!("{n}: {outcome:?}"),
        }
    }
    assert!(
        store
            .change_links(&[], &Actor::command_line(1))
            .await
            .unwrap()
            .is_empty()
    );
}

async fn changes_when_of_one_link_apply_in_order(database: Database) {
    let store = database.store().await;
    let created = create(&store, link(1, "x")).await.unwrap();
    let x = created.key();
    let changes = [
        (x.clone(), titled("one")),
        (x.clone(), identified("e")),
        (x.clone(), deletion()),
        (x.clone(), titled("two")),
        (x.clone(), LinkChange::Restore(as_it_is())),
    ];
    let outcomes = store
        .change_links(&changes, &Actor::command_line(1))
        .await
        .unwrap();
    let revs: Vec<Option<u64>> = outcomes
        .iter()
        .map(|outcome| Some(outcome.as_ref()?.as_ref().ok()?.rev))
        .collect();
    let first = revs[0].unwrap();
    assert!(first > created.rev);
    assert_eq!(
        revs[1..],
        [Some(first + 1), Some(first + 2), None, Some(first + 3)]
    );
    let found = store.find_link(&x).await.unwrap().unwrap();
    assert_eq!(found.content.title.as_deref(), Some("one"));
    assert_eq!(found.content.external_id.as_deref(), Some("e"));
    assert_eq!(found.rev, first + 3);
}

async fn external_id_when_taken_is_refused(database: Database) {
    let store = database.store().await;
    let one = create(&store, with_id(1, "a", "one")).await.unwrap();
    let found = store.find_by_external_id(TENANT, "one").await.unwrap();
    assert_eq!(found, Some(one.clone()));
    let elsewhere = store.find_by_external_id(TENANT + 1, "one").await.unwrap();
    assert_eq!(elsewhere, None);
    let again = create(&store, with_id(2, "b", "one")).await;
    assert_eq!(again, Err(CreateError::ExternalIdTaken));
    // Told before the code, which is taken as well.
    let again = create(&store, with_id(1, "a", "one")).await;
    assert_eq!(again, Err(CreateError::ExternalIdTaken));
    let links = vec![
        with_id(3, "c", "two"),
        with_id(4, "d", "two"),
        with_id(5, "e", "one"),
        link(6, "f"),
    ];
    let created = store.create_links(links).await.unwrap();
    let errors: Vec<Option<&CreateError>> = created.iter().map(|one| one.as_ref().err()).collect();
    let taken = Some(&CreateError::ExternalIdTaken);
    assert_eq!(errors, [None, taken, taken, None]);
    let changes = [
        (key("a.example/f"), identified("one")),
        (key("a.example/c"), identified("new")),
        (key("a.example/f"), identified("new")),
        (key("a.example/a"), identified("one")),
    ];
    let outcomes = store
        .change_links(&changes, &Actor::command_line(1))
        .await
        .unwrap();
    let taken = Some(Err(ChangeError::ExternalIdTaken));
    assert_eq!((&outcomes[0], &outcomes[2]), (&taken, &taken));
    assert!(matches!(
        (&outcomes[1], &outcomes[3]),
        (Some(Ok(_)), Some(Ok(_)))
    ));
    let f = store.find_link(&key("a.example/f")).await.unwrap().unwrap();
    assert_eq!(f.content.external_id, None);
}

async fn external_id_when_its_link_is_gone_can_be_taken(database: Database) {
    let store = database.store().await;
    create(&store, with_id(1, "a", "one")).await.unwrap();
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    assert_eq!(
        store.find_by_external_id(TENANT, "one").await.unwrap(),
        None
    );
    create(&store, with_id(2, "b", "one")).await.unwrap();
    let taken = Some(Err(ChangeError::ExternalIdTaken));
    assert_eq!(restore(&store, "a.example/a").await, taken);
    let changes = [(key("a.example/b"), identified("two"))];
    store
        .change_links(&changes, &Actor::command_line(1))
        .await
        .unwrap();
    let restored = restore(&store, "a.example/a").await.unwrap().unwrap();
    assert_eq!(restored.content.external_id.as_deref(), Some("one"));
    // A new link with the code of a deleted one has nothing of it.
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    let revived = create(&store, with_id(3, "a", "three")).await.unwrap();
    let found = store.find_link(&revived.key()).await.unwrap();
    assert_eq!(found.as_ref(), Some(&revived));
    assert_eq!(revived.content.details.kept, None);
}

/// What becomes of changes that give links, by their codes, external ids.
async fn identify(store: &Store, ids: &[(&str, &str)]) -> Vec<bool> {
    let change = |(code, id): &(&str, &str)| (key(&format!("a.example/{code}")), identified(id));
    let changes: Vec<_> = ids.iter().map(change).collect();
    let outcomes = store.change_links(&changes, &Actor::command_line(1)).await;
    let is_taken = |outcome: ChangeOutcome| match outcome {
        Some(Ok(_)) => false,
        Some(Err(ChangeError::ExternalIdTaken)) => true,
        outcome => panic!("{outcome:?}"),
    };
    outcomes.unwrap().into_iter().map(is_taken).collect()
}

async fn external_ids_when_swapped_in_one_request_change_places(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")] {
        create(&store, with_id(id, code, &id.to_string()))
            .await
            .unwrap();
    }
    let ids = async || {
        let mut ids = Vec::new();
        for code in ["a", "b", "c", "d", "e"] {
            let link = store.find_link(&key(&format!("a.example/{code}"))).await;
            ids.push(link.unwrap().unwrap().content.external_id.unwrap());
        }
        ids.join("")
    };
    assert_eq!(
        identify(&store, &[("a", "2"), ("b", "1")]).await,
        [false; 2]
    );
    assert_eq!(ids().await, "21345");
    // In a circle, beside one that is refused.
    let circle = [("a", "3"), ("b", "2"), ("c", "1"), ("d", "5")];
    assert_eq!(identify(&store, &circle).await, [false, false, false, true]);
    assert_eq!(ids().await, "32145");
    // A row of links of which the last one is refused, and so each before it.
    let row = [("a", "2"), ("b", "1"), ("c", "4"), ("d", "5")];
    assert_eq!(identify(&store, &row).await, [true; 4]);
    assert_eq!(ids().await, "32145");
}

async fn external_id_when_taken_concurrently_goes_to_one_link(database: Database) {
    let store = database.store().await;
    let links = (0..16).map(|n| link(n, &format!("c{n}")));
    store.create_links(links.collect()).await.unwrap();
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let changes = [(key(&format!("a.example/c{n}")), identified("one"))];
                let created = create(&store, with_id(100 + n, &format!("d{n}"), "one"));
                let actor = Actor::command_line(1);
                let (changed, created) =
                    tokio::join!(store.change_links(&changes, &actor), created);
                let changed = changed.unwrap().pop().unwrap().unwrap();
                usize::from(changed.is_ok()) + usize::from(created.is_ok())
            })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += task.await.unwrap();
    }
    assert_eq!(winners, 1);
}

async fn links_when_changed_concurrently_keep_all_changes(database: Database) {
    const TASKS: usize = 6;
    let store = database.store().await;
    let links = (0..40).map(|n| link(n, &format!("c{n}")));
    store.create_links(links.collect()).await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let change = |n: usize| {
                    let tag = task.to_string();
                    let change = Box::new(move |link: &Link| {
                        let mut content = CheckedContent::existing(link);
                        content.change_others(|others| others.tags.push(tag.clone()));
                        Ok(content)
                    });
                    (key(&format!("a.example/c{n}")), LinkChange::Update(change))
                };
                // Each task names them in another order.
                let mut changes: Vec<_> = (0..40).map(change).collect();
                changes.rotate_left(task * 7);
                let outcomes = store
                    .change_links(&changes, &Actor::command_line(1))
                    .await
                    .unwrap();
                assert!(outcomes.iter().all(|one| matches!(one, Some(Ok(_)))));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..40 {
        let found = store.find_link(&key(&format!("a.example/c{n}"))).await;
        assert_eq!(found.unwrap().unwrap().content.tags.len(), TASKS);
    }
}

async fn link_when_restored_has_its_content_and_a_higher_revision(database: Database) {
    let store = database.store().await;
    assert_eq!(restore(&store, "a.example/x").await, None);
    let mut new = with_id(1, "x", "one");
    new.content.valid_until = Some(4_000_000_000);
    new.content.details.notes = Some("note".to_owned());
    let created = create(&store, new).await.unwrap();
    let not_deleted = Some(Err(ChangeError::NotDeleted));
    assert_eq!(restore(&store, "a.example/x").await, not_deleted);
    assert!(delete(&store, &created.key()).await.unwrap());
    let absent = store.resolve(&created.key()).await.unwrap();
    let refuse = Box::new(|_: &Link| Err(ChangeError::Changed));
    let refused = store
        .restore_link(&created.key(), refuse, &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(refused, Some(Err(ChangeError::Changed)));
    let restored = restore(&store, "a.example/x").await.unwrap().unwrap();
    assert!(restored.rev > absent.rev());
    assert_eq!(restored.content, created.content);
    assert_eq!(
        (restored.id, restored.created_at),
        (created.id, created.created_at)
    );
    let found = store.find_link(&created.key()).await.unwrap();
    assert_eq!(found.as_ref(), Some(&restored));
    let record = store.resolve(&created.key()).await.unwrap();
    assert_eq!(record, restored.record().to_owned_record());
}

async fn link_when_purged_is_not_restored(database: Database) {
    let store = database.store().await;
    let mut expired = with_id(1, "x", "one");
    expired.content.valid_until = Some(1);
    create(&store, expired).await.unwrap();
    create(&store, link(2, "y")).await.unwrap();
    assert_eq!(store.purge_expired(0, 10).await.unwrap(), 1);
    let purged = Some(Err(ChangeError::Purged));
    assert_eq!(restore(&store, "a.example/x").await, purged);
    assert_eq!(
        store.find_by_external_id(TENANT, "one").await.unwrap(),
        None
    );
    assert!(delete(&store, &key("a.example/y")).await.unwrap());
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(2));
    assert_eq!(restore(&store, "a.example/y").await, None);
}

fn to(from: &str, to: &str, keeps_old: bool) -> LinkMove {
    LinkMove {
        from: key(from),
        to: key(to),
        keeps_old,
    }
}

async fn link_when_moved_over_a_tombstone_and_back_is_kept(database: Database) {
    let store = database.store().await;
    let created = create(&store, with_id(1, "x", "one")).await.unwrap();
    create(&store, link(2, "y")).await.unwrap();
    let there = to("a.example/x", "a.example/y", false);
    let moved = store
        .move_link(&there, 3, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(moved, Some(Err(MoveError::CodeTaken)));
    assert!(delete(&store, &key("a.example/y")).await.unwrap());
    let tombstone = store.resolve(&key("a.example/y")).await.unwrap();
    let moved = store
        .move_link(&there, 3, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap();
    let moved = moved.unwrap().unwrap();
    assert_eq!(moved.link.key(), there.to);
    assert_eq!(moved.link.content, created.content);
    assert_eq!(moved.link.created_at, created.created_at);
    assert!(moved.link.rev > tombstone.rev());
    let found = store.find_link(&there.to).await.unwrap();
    assert_eq!(found.as_ref(), Some(&moved.link));
    let rev = moved.old.unwrap().rev;
    assert!(rev > created.rev);
    let old = store.resolve(&there.from).await.unwrap();
    assert_eq!(old, Record::Absent { rev });

    // To a domain that was not there, and the old one stays.
    let copied = to("a.example/y", "new.example/y", true);
    let copy = store
        .move_link(&copied, 4, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap();
    let copy = copy.unwrap().unwrap();
    assert_eq!(copy.link.id, 4);
    assert_eq!(copy.link.content.external_id.as_deref(), Some("one"));
    let kept = store.find_link(&there.to).await.unwrap().unwrap();
    assert_eq!(copy.old.as_ref(), Some(&kept));
    assert_eq!(kept.content.external_id, None);
    assert_eq!(kept.content.target, created.content.target);

    let refuse = Box::new(|_: &Link| Err(ChangeError::Changed));
    let back = to("a.example/y", "a.example/x", false);
    let refused = store
        .move_link(&back, 5, refuse, &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(refused, Some(Err(MoveError::Refused(ChangeError::Changed))));
    let missing = to("a.example/never", "a.example/z", false);
    assert_eq!(
        store
            .move_link(&missing, 5, as_it_is(), &Actor::command_line(1))
            .await
            .unwrap(),
        None
    );
    let moved = store
        .move_link(&back, 5, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap();
    assert!(moved.unwrap().unwrap().link.rev > rev);
}

async fn move_when_its_number_is_taken_is_refused(database: Database) {
    let store = database.store().await;
    let created = create(&store, link(1, "x")).await.unwrap();
    create(&store, link(2, "y")).await.unwrap();
    let wanted = to("a.example/x", "a.example/z", false);
    let moved = store
        .move_link(&wanted, 2, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(moved, Some(Err(MoveError::NumberTaken)));
    assert_eq!(store.find_link(&wanted.from).await.unwrap(), Some(created));
    assert!(!exists(&store, "a.example/z").await);
    store
        .move_link(&wanted, 3, as_it_is(), &Actor::command_line(1))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

async fn move_when_concurrent_to_one_code_succeeds_once(database: Database) {
    let store = database.store().await;
    let links = (0..12).map(|n| link(n, &format!("c{n}")));
    store.create_links(links.collect()).await.unwrap();
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let wanted = to(&format!("a.example/c{n}"), "a.example/x", false);
                let mut id = 100 + n;
                loop {
                    let moved = store
                        .move_link(&wanted, id, as_it_is(), &Actor::command_line(1))
                        .await
                        .unwrap();
                    match moved.unwrap() {
                        // What the creator does.
                        Err(MoveError::NumberTaken) => id += 100,
                        moved => break moved.map(|moved| moved.link.key()),
                    }
                }
            })
        })
        .collect();
    let mut winners: Vec<LinkKey> = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(key) => winners.push(key),
            Err(error) => assert_eq!(error, MoveError::CodeTaken),
        }
    }
    assert_eq!(winners, [key("a.example/x")]);
    let mut left = 0;
    for n in 0..12 {
        left += usize::from(exists(&store, &format!("a.example/c{n}")).await);
    }
    assert_eq!(left, 11, "the others stay where they were");
}
