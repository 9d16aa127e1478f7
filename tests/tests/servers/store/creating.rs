//! Creating links, alone and many at once.

use crate::store::fixture::{Database, content, create, delete, exists, key, link};
use edgelink_model::links::model::{History, LinkContent, LinkDetails};
use edgelink_model::tenancy::Scope;
use edgelink_store::{CreateError, NewLink, Store, Twin};
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{LinkKey, LinkState, Record, RedirectStatus};
use std::sync::Arc;

on_every_database!(
    link_when_created_reads_back_in_every_field,
    links_when_resolved_together_equal_single_lookups,
    codes_when_they_differ_in_case_are_different_links,
    domain_when_it_has_a_port_is_another_domain,
    code_when_taken_is_refused_and_its_link_stays,
    number_when_taken_is_refused_and_its_link_stays,
    code_when_taken_in_a_batch_fails_alone,
    code_or_number_when_twice_in_a_batch_is_created_once,
    links_when_ten_thousand_are_created_in_one_call,
    links_when_large_are_created_in_one_call,
    code_when_deleted_is_free_with_a_higher_revision,
    revived_link_when_its_number_is_taken_is_refused,
    code_when_created_concurrently_goes_to_one_link,
    batches_when_overlapping_create_each_code_once,
    number_when_beyond_the_database_is_a_permanent_error,
    batch_when_empty_creates_nothing,
    history_when_imported_stays_with_its_link,
);

async fn link_when_created_reads_back_in_every_field(database: Database) {
    let store = database.store().await;
    let mut tags: Vec<String> = (0..62).map(|n| format!("tag-{n:02}")).collect();
    tags.extend(["\"quoted\"".to_owned(), "😀 ünï".to_owned()]);
    let full = NewLink {
        id: 62u64.pow(10) - 1,
        key: key("go.example.com:8443/aB3_-"),
        scope: Scope::tenant(7).into(),
        owner_id: Some(u64::MAX >> 1),
        content: LinkContent {
            target: TargetUrl::from_store(&format!("https://x.example/{}", "y".repeat(7980))),
            redirect: RedirectStatus::PermanentRedirect,
            state: LinkState::Disabled,
            valid_since: Some(0),
            valid_until: Some(253_402_300_799),
            forward_query: false,
            title: Some("\u{1F600}'\";\\ \u{0}%".repeat(50)),
            tags,
            external_id: Some("\u{e4} '\";".repeat(40)),
            archived: true,
            details: LinkDetails {
                notes: Some("a\nb \u{1F600}".to_owned()),
                ..LinkDetails::default()
            },
        },
        history: History::default(),
        receipt: None,
        twin: Twin::Allowed,
    };
    let created = create(&store, full.clone()).await.unwrap();
    assert_eq!(created.id, full.id);
    // Of the database's clock, in microseconds.
    assert!(created.rev > 1_700_000_000_000_000);
    assert_eq!(created.content, full.content);
    assert_eq!(created.key(), full.key);
    assert_eq!((created.tenant_id, created.owner_id), (7, full.owner_id));
    assert!(created.created_at > 1_700_000_000_000);
    assert_eq!(created.updated_at, created.created_at);
    let found = store.find_link(&full.key).await.unwrap();
    assert_eq!(found.as_ref(), Some(&created));
    let record = store.resolve(&full.key).await.unwrap();
    assert_eq!(record, created.record().to_owned_record());
}

async fn links_when_resolved_together_equal_single_lookups(database: Database) {
    let store = database.store().await;
    let keys: Vec<LinkKey> = (0..150)
        .map(|number| key(&format!("d{}.example/c{number}", number % 3)))
        .collect();
    let links = keys.iter().zip(1..).map(|(key, id)| {
        let content = content(&format!("https://x.example/{key}"));
        NewLink::new(id, key.clone(), content)
    });
    let created = store.create_links(links.collect()).await.unwrap();
    assert!(created.iter().all(Result::is_ok));
    assert!(delete(&store, &keys[7]).await.unwrap());
    database
        .execute("UPDATE publisher SET rev_floor = rev_floor + 100000000000")
        .await;
    let absent = [key("d0.example/absent"), key("absent.example/c1")];
    let asked = [&keys[..], &absent].concat();
    let together = store.resolve_links(&asked).await.unwrap();
    assert_eq!(together.len(), keys.len() - 1);
    for (key, record) in together {
        assert_ne!(key, keys[7]);
        assert_eq!(record, store.resolve(&key).await.unwrap(), "{key}");
    }
    assert_eq!(store.resolve_links(&[]).await.unwrap(), []);
}

async fn codes_when_they_differ_in_case_are_different_links(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "aB"), (2, "Ab"), (3, "ab"), (4, "AB")] {
        create(&store, link(id, code)).await.unwrap();
    }
    for (id, code) in [(1, "aB"), (2, "Ab"), (3, "ab"), (4, "AB")] {
        let found = store.find_link(&link(id, code).key).await.unwrap().unwrap();
        assert_eq!((found.id, found.code.as_str()), (id, code));
    }
    assert!(delete(&store, &key("a.example/aB")).await.unwrap());
    assert!(exists(&store, "a.example/Ab").await);
}

async fn domain_when_it_has_a_port_is_another_domain(database: Database) {
    let store = database.store().await;
    let on = |id, domain: &str| NewLink {
        key: key(&format!("{domain}/same")),
        ..link(id, "same")
    };
    create(&store, on(1, "a.example")).await.unwrap();
    create(&store, on(2, "a.example:8080")).await.unwrap();
    create(&store, on(3, "b.example")).await.unwrap();
    let found = store.find_link(&key("a.example:8080/same")).await.unwrap();
    assert_eq!(found.map(|link| link.id), Some(2));
    assert_eq!(store.find_link(&key("c.example/same")).await.unwrap(), None);
}

async fn code_when_taken_is_refused_and_its_link_stays(database: Database) {
    let store = database.store().await;
    let first = create(&store, link(1, "x")).await.unwrap();
    let second = NewLink {
        content: content("https://other.example/"),
        ..link(2, "x")
    };
    assert_eq!(create(&store, second).await, Err(CreateError::CodeTaken));
    let found = store.find_link(&first.key()).await.unwrap();
    assert_eq!(found, Some(first));
}

async fn number_when_taken_is_refused_and_its_link_stays(database: Database) {
    let store = database.store().await;
    let first = create(&store, link(1, "x")).await.unwrap();
    let taken = create(&store, link(1, "y")).await;
    assert_eq!(taken, Err(CreateError::NumberTaken));
    let found = store.find_link(&first.key()).await.unwrap();
    assert_eq!(found, Some(first));
    assert_eq!(store.find_link(&key("a.example/y")).await.unwrap(), None);
}

async fn code_when_taken_in_a_batch_fails_alone(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "b")).await.unwrap();
    let other_domain = NewLink {
        key: key("b.example/b"),
        ..link(5, "b")
    };
    let batch = vec![link(2, "a"), link(3, "b"), link(4, "c"), other_domain];
    let answers = store.create_links(batch).await.unwrap();
    let ids: Vec<_> = answers
        .iter()
        .map(|link| link.as_ref().map(|link| link.id))
        .collect();
    assert_eq!(ids, [Ok(2), Err(&CreateError::CodeTaken), Ok(4), Ok(5)]);
    assert!(exists(&store, "a.example/c").await);
}

async fn code_or_number_when_twice_in_a_batch_is_created_once(database: Database) {
    let store = database.store().await;
    let batch = vec![link(1, "a"), link(2, "a"), link(1, "b"), link(3, "c")];
    let answers = store.create_links(batch).await.unwrap();
    let ids: Vec<_> = answers
        .iter()
        .map(|link| link.as_ref().map(|link| link.id))
        .collect();
    let expected = [
        Ok(1),
        Err(&CreateError::CodeTaken),
        Err(&CreateError::NumberTaken),
        Ok(3),
    ];
    assert_eq!(ids, expected);
}

async fn links_when_ten_thousand_are_created_in_one_call(database: Database) {
    let store = database.store().await;
    create(&store, link(1_000_000, "c777")).await.unwrap();
    let batch = (0..10_000).map(|n| link(n, &format!("c{n}"))).collect();
    let answers = store.create_links(batch).await.unwrap();
    assert_eq!(answers.len(), 10_000);
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(link) => assert_eq!((link.id, link.code.as_str()), (n as u64, &*format!("c{n}"))),
            Err(error) => assert_eq!((n, error), (777, CreateError::CodeTaken)),
        }
    }
    assert!(exists(&store, "a.example/c9999").await);
}

async fn links_when_large_are_created_in_one_call(database: Database) {
    let store = database.store().await;
    let large = |n: u64| NewLink {
        content: content(&format!("https://x.example/{}", "z".repeat(7900))),
        ..link(n, &format!("c{n}"))
    };
    let answers = store.create_links((0..3000).map(large).collect()).await;
    assert!(answers.unwrap().iter().all(Result::is_ok));
}

async fn code_when_deleted_is_free_with_a_higher_revision(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "x")).await.unwrap();
    assert!(delete(&store, &key("a.example/x")).await.unwrap());
    let absent = store.resolve(&key("a.example/x")).await.unwrap();
    let deleted = absent.rev();
    assert_eq!(absent, Record::Absent { rev: deleted });
    let again = NewLink {
        content: content("https://second.example/"),
        ..link(2, "x")
    };
    let revived = create(&store, again.clone()).await.unwrap();
    assert_eq!(revived.id, 2);
    assert!(revived.rev > deleted);
    assert_eq!(revived.content, again.content);
    assert_eq!(revived.created_at, revived.updated_at);
    let found = store.find_link(&again.key).await.unwrap();
    assert_eq!(found, Some(revived));
    let taken = create(&store, link(3, "x")).await;
    assert_eq!(taken, Err(CreateError::CodeTaken));
}

async fn revived_link_when_its_number_is_taken_is_refused(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "x")).await.unwrap();
    create(&store, link(2, "y")).await.unwrap();
    assert!(delete(&store, &key("a.example/x")).await.unwrap());
    let deleted = store.resolve(&key("a.example/x")).await.unwrap();
    let batch = vec![link(2, "x"), link(3, "z")];
    let answers = store.create_links(batch).await.unwrap();
    assert_eq!(answers[0], Err(CreateError::NumberTaken));
    assert!(answers[1].is_ok());
    let absent = store.resolve(&key("a.example/x")).await.unwrap();
    assert_eq!(absent, deleted);
}

async fn code_when_created_concurrently_goes_to_one_link(database: Database) {
    let store = database.store().await;
    for round in 0..5u64 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let store = Arc::clone(&store);
                let new = link(round * 100 + n, &format!("r{round}"));
                tokio::spawn(async move { create(&store, new).await })
            })
            .collect();
        let mut created = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => created += 1,
                Err(error) => assert_eq!(error, CreateError::CodeTaken),
            }
        }
        assert_eq!(created, 1);
    }
}

async fn batches_when_overlapping_create_each_code_once(database: Database) {
    let store = database.store().await;
    let tasks: Vec<_> = (0..6u64)
        .map(|task| {
            let store: Arc<Store> = Arc::clone(&store);
            // Each task takes the codes from another place on, so that they lock in different orders.
            let codes = (0..40).map(|n| (n * 7 + task * 13) % 40);
            let batch = codes
                .map(|n| link(task * 1000 + n, &format!("c{n}")))
                .collect();
            tokio::spawn(async move { store.create_links(batch).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        let answers = task.await.unwrap().unwrap();
        created += answers.iter().filter(|answer| answer.is_ok()).count();
    }
    assert_eq!(created, 40);
}

async fn number_when_beyond_the_database_is_a_permanent_error(database: Database) {
    let store = database.store().await;
    let error = store
        .create_links(vec![link(1 << 63, "x")])
        .await
        .unwrap_err();
    assert!(!error.is_transient(), "{error}");
}

async fn batch_when_empty_creates_nothing(database: Database) {
    let store = database.store().await;
    assert_eq!(store.create_links(Vec::new()).await.unwrap(), []);
}

async fn history_when_imported_stays_with_its_link(database: Database) {
    let store = database.store().await;
    let history = History {
        created_at: Some(1_400_000_000_123),
        visits: (1 << 53) - 1,
    };
    let imported = NewLink {
        history,
        ..link(1, "old")
    };
    let created = create(&store, imported.clone()).await.unwrap();
    assert_eq!(created.created_at, 1_400_000_000_123);
    assert_eq!(created.imported_visits, history.visits);
    assert!(created.updated_at > created.created_at);
    let keys = [
        key("a.example/old"),
        key("b.example/old"),
        key("a.example/none"),
    ];
    assert_eq!(store.find_links(&keys).await.unwrap(), [created]);
    assert!(store.find_links(&[]).await.unwrap().is_empty());

    delete(&store, &imported.key).await.unwrap();
    assert!(store.find_links(&keys).await.unwrap().is_empty());
    let next = create(&store, link(2, "old")).await.unwrap();
    assert_eq!(next.imported_visits, 0);
    assert_eq!(next.created_at, next.updated_at);
    assert_eq!(store.find_link(&imported.key).await.unwrap(), Some(next));
    delete(&store, &imported.key).await.unwrap();
    let again = create(&store, imported.clone()).await.unwrap();
    assert_eq!(again.imported_visits, history.visits);
    assert_eq!(store.find_link(&imported.key).await.unwrap(), Some(again));
}
